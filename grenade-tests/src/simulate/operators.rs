//! People at work beside those who follow the upgrades: each asks for one thing after the other, several of them at once.
//! What a dry run promised must be what then happens, and a request that was refused has changed nothing.

mod begin;
mod desk;

pub(super) use begin::begin;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinHandle;

/// What is known of all operators' requests.
#[derive(Debug, Default)]
struct Asked {
    /// Names under which something was asked that was refused, each with what that was.
    refused: Mutex<Vec<(String, String)>>,
    /// When a process, a line or a disk was last disturbed.
    disturbed_at: AtomicU64,
}

/// All operators at work.
#[derive(Debug, Default)]
pub(super) struct Operators {
    asked: Arc<Asked>,
    at_work: Vec<JoinHandle<()>>,
    begun: u32,
}

impl Operators {
    /// Something other than people is wrong now.
    pub(super) fn disturbed(&self, now: u64) {
        self.asked.disturbed_at.store(now, Ordering::Relaxed);
    }

    /// Removes requests that have ended; panics where one of them panicked.
    pub(super) async fn look(&mut self) {
        for over in self.at_work.extract_if(.., |work| work.is_finished()) {
            if let Err(error) = over.await
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }

    /// Requests that were refused, and all the same are in the history under their names.
    pub(super) fn refused_but_done(&self, names: &BTreeSet<String>) -> Vec<String> {
        let refused = self.asked.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let done = refused.iter().filter(|(who, _)| names.contains(who));
        done.map(|(who, what)| format!("{what} of {who} was refused, and its event is there")).collect()
    }
}
