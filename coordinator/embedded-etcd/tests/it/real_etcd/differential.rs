//! Random operations and watches, carried out on the embedded store and on a real etcd: every answer and every
//! event must be the same, apart from where the revisions begin. In half of the cases the embedded store is on disk
//! and is closed and opened again at random moments, which must not show.
//!
//! `TIDEGATE_DIFFERENTIAL_CASES` sets the number of cases for a long run; the default takes about twenty seconds.

mod operation;
mod side;

use proptest::{
    collection::vec,
    prelude::any,
    test_runner::{Config, TestCaseError, TestRunner},
};
use tidegate_embedded_etcd::Embedded;

use self::{
    operation::{Operation, operation},
    side::Side,
};
use super::server::Etcd;

const CASES: u32 = 60;

#[test]
fn embedded_and_real_answer_the_same() {
    let cases = std::env::var("TIDEGATE_DIFFERENTIAL_CASES")
        .map_or(CASES, |cases| cases.parse().expect("TIDEGATE_DIFFERENTIAL_CASES must be a number"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let etcd = runtime.block_on(Etcd::start());
    let config = Config { cases, max_shrink_iters: 300, failure_persistence: None, ..Config::default() };
    let ran = TestRunner::new(config)
        .run(&(any::<bool>(), vec(operation(), 1..60)), |(on_disk, operations)| {
            runtime.block_on(compare(&etcd, on_disk, &operations))
        });
    if let Err(difference) = ran {
        panic!("{difference}");
    }
}

/// Carries the operations out on both, one after the other.
async fn compare(etcd: &Etcd, on_disk: bool, operations: &[Operation]) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    let mut store = if on_disk {
        Embedded::open(dir.path(), "differential").await.unwrap()
    } else {
        Embedded::in_memory()
    };
    let mut embedded = Side::fresh(store.client().await.unwrap()).await;
    let mut real = Side::fresh(etcd.client().await).await;
    for (number, operation) in operations.iter().chain([&Operation::Drain]).enumerate() {
        let ours = embedded.carry_out(operation).await;
        let theirs = real.carry_out(operation).await;
        if ours != theirs {
            return Err(TestCaseError::fail(format!(
                "operation {number}, {operation:?}\nembedded: {ours}\nreal:     {theirs}"
            )));
        }
        if on_disk && matches!(operation, Operation::Restart) {
            store.close().await;
            store = Embedded::open(dir.path(), "differential").await.unwrap();
            embedded.reconnect(store.client().await.unwrap());
        }
    }
    store.close().await;
    Ok(())
}
