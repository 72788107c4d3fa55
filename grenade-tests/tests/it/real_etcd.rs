//! A private etcd comes up, survives the loss of a member, and comes back; and tests of compute releases and metadata
//! on a real etcd that run on the embedded store elsewhere.

use grenade_tests::world::etcd;
use grenade_tests::world::wait::wait_for_200;

use crate::end_to_end::{metadata, tasks};
use crate::region::Ground;
use crate::rig::{LIMIT, Rig};

#[tokio::test]
async fn three_members_survive_the_loss_of_one() {
    let rig = Rig::new();
    let mut etcd = etcd::start(&rig.world, 3).await.unwrap();
    assert_eq!(etcd.endpoints().len(), 3);
    assert!(etcd.store_argument().starts_with("etcd:http://127.0.0.1:"), "{}", etcd.store_argument());
    etcd.members[0].0.crash().unwrap();
    wait_for_200("the others", LIMIT, etcd.members[1].1, "/health").await.unwrap();
    etcd.restart(&rig.world, 0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_waits_until_nodes_are_warm_and_hooks_run_once() {
    tasks::a_release_that_is_warmed_up(Ground::Etcd).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_reach_agents_one_after_the_other_over_a_kill() {
    metadata::documents_that_reach_agents(Ground::Etcd).await;
}
