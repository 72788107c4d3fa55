//! How many health URLs answer 200 at the same time, seen from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use grenade_tests::world::wait::get;
use tokio::task::JoinHandle;

use super::fleet::Fleet;

/// The least number of health URLs that answered 200 in one round, asked again and again.
pub(super) struct Least {
    least: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Least {
    pub(super) fn of(fleet: &Fleet) -> Self {
        let (least, nodes) = (Arc::new(AtomicUsize::new(usize::MAX)), fleet.nodes.clone());
        let noted = Arc::clone(&least);
        let task = tokio::spawn(async move {
            loop {
                let mut good = 0;
                for (_, address) in &nodes {
                    good += usize::from(matches!(get(*address, "/healthcheck").await, Ok((200, _))));
                }
                noted.fetch_min(good, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { least, task }
    }

    pub(super) fn seen(&self) -> usize {
        self.least.load(Ordering::Relaxed)
    }
}

impl Drop for Least {
    fn drop(&mut self) {
        self.task.abort();
    }
}
