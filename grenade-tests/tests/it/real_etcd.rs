//! A private etcd comes up, survives the loss of a member, and comes back.

use grenade_tests::world::etcd;
use grenade_tests::world::wait::wait_for_200;

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
