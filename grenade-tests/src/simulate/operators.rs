//! People at work beside those who follow the upgrades: each asks for one thing after the other, several of them at once.
//! What a dry run promised must be what then happens, and a request that was refused has changed nothing.

mod begin;
mod desk;

pub(super) use begin::begin;

use super::request::Request;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::JoinHandle;

/// What is known of all operators' requests.
#[derive(Debug, Default)]
struct Asked {
    /// Names under which something was asked that was refused, each with what that was.
    refused: Mutex<Vec<(String, String)>>,
    /// Nodes that a person asked to cordon, by the name under which it was asked, as long as it has no answer.
    cordons: Mutex<BTreeMap<String, String>>,
    /// When a process, a line or a disk was last disturbed.
    disturbed_at: AtomicU64,
}

impl Asked {
    fn cordons(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.cordons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is asked under this name.
    fn sent(&self, who: &str, request: &Request) {
        if let Request::Cordon(node) = request {
            self.cordons().insert(who.to_owned(), node.clone());
        }
    }

    /// The answer says whether it was carried out.
    fn answered(&self, who: &str) {
        self.cordons().remove(who);
    }
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

    /// Whether a request to cordon a node has no answer: it may be carried out after its person has uncordoned the node.
    pub(super) fn may_have_cordoned(&self, node: &str) -> bool {
        self.asked.cordons().values().any(|asked| asked.as_str() == node)
    }

    /// A node is uncordoned that such a request had cordoned.
    pub(super) fn uncordoned(&self, node: &str) {
        self.asked.cordons().retain(|_, asked| asked.as_str() != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cordon_without_an_answer_may_be_carried_out_later() {
        let operators = Operators::default();
        let (one, other) = ("person-1-6", "person-2-4");
        operators.asked.sent(one, &Request::Uncordon("n00".to_owned()));
        assert!(!operators.may_have_cordoned("n00"), "no cordon was asked for");
        operators.asked.sent(one, &Request::Cordon("n00".to_owned()));
        operators.asked.sent(other, &Request::Cordon("n00".to_owned()));
        operators.asked.answered(other);
        assert!(operators.may_have_cordoned("n00"), "the answer to another person says nothing about it");
        assert!(!operators.may_have_cordoned("n01"));
        operators.asked.answered(one);
        assert!(!operators.may_have_cordoned("n00"), "its person knows what to uncordon");
        operators.asked.sent(one, &Request::Cordon("n00".to_owned()));
        operators.uncordoned("n00");
        assert!(!operators.may_have_cordoned("n00"), "it is carried out once");
    }
}
