//! Beside a real etcd, which each test starts for itself.

mod differential;
mod etcdctl;
mod server;

use crate::facts;

#[tokio::test]
async fn the_facts_hold() {
    let etcd = server::Etcd::start().await;
    facts::hold(&mut etcd.client().await).await;
}
