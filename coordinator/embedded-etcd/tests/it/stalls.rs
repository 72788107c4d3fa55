//! Leases while this process stalls: no client could renew them meanwhile, so none is taken for dead.

use std::time::Duration;

use etcd_client::{Client, PutOptions};
use tidegate_embedded_etcd::Embedded;

async fn leased(client: &mut Client, ttl: i64) -> i64 {
    let lease = client.lease_grant(ttl, None).await.unwrap().id();
    client.put("leased", "", Some(PutOptions::new().with_lease(lease))).await.unwrap();
    lease
}

async fn lives(client: &mut Client) -> bool {
    client.get("leased", None).await.unwrap().count() == 1
}

#[tokio::test(start_paused = true)]
async fn stall_restarts_every_lease() {
    let store = Embedded::in_memory();
    let mut client = store.client().await.unwrap();
    let lease = leased(&mut client, 5).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    // The clock jumps, and no task of this process ran in between.
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_eq!(client.lease_time_to_live(lease, None).await.unwrap().ttl(), 5);
    tokio::time::sleep(Duration::from_millis(4900)).await;
    assert!(lives(&mut client).await);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!lives(&mut client).await);
}

#[tokio::test(start_paused = true)]
async fn the_first_keep_alive_after_a_stall_succeeds() {
    let store = Embedded::in_memory();
    let mut client = store.client().await.unwrap();
    let lease = leased(&mut client, 5).await;
    let (mut keeper, mut answers) = client.lease_keep_alive(lease).await.unwrap();
    tokio::time::advance(Duration::from_secs(600)).await;
    keeper.keep_alive().await.unwrap();
    assert_eq!(answers.message().await.unwrap().unwrap().ttl(), 5);
}

#[tokio::test(start_paused = true)]
async fn waiting_is_no_stall() {
    let store = Embedded::in_memory();
    let mut client = store.client().await.unwrap();
    leased(&mut client, 60).await;
    tokio::time::sleep(Duration::from_millis(59_900)).await;
    assert!(lives(&mut client).await);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!lives(&mut client).await);
}

#[test]
fn leases_lapse_although_the_runtime_that_granted_them_has_gone() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let store = Embedded::in_memory();
    runtime().block_on(async { leased(&mut store.client().await.unwrap(), 5).await });
    runtime().block_on(async {
        let mut client = store.client().await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(!lives(&mut client).await);
    });
}
