//! A directive of a former store. An agent that has taken in a reconciliation keeps the directive that it obeyed last, and
//! with it the state of the instance, until this store has a directive for it.
//!
//! # Invariants
//! * Nothing stays stopped because of such a directive. This store may have no upgrade that orders anything, and none begins
//!   while the version of an instance is not known. The directive is declined, and the service is started again as one that
//!   ended by itself without a directive: what ran last, once it is admitted; where the window does not admit that, the other
//!   release of the directive.
//! * What runs stays as it is: only a directive of this store lets it back into rotation.

use super::act::Act;
use super::decide::Context;
use super::seen::Url;
use crate::host::{Alive, HookState};
use crate::journal::Phase;
use tidegate_proto::record::directive::Disposition;

/// Why the directive is not carried out any more.
pub(crate) const DECLINED: &str =
    "directive declined: it is of a former store, nothing of the service runs, and nothing would start it";

impl Context<'_> {
    /// Declines the directive of a former store where nothing runs and the directive starts nothing.
    pub(super) fn declines_former(&self) -> Option<Act> {
        let hook_runs = self.seen.hook == HookState::Runs;
        if !self.journal.obeys_former_store() || !self.seen.store || hook_runs || !self.has_driver() {
            return None;
        }
        let starts_nothing = match (&self.journal.phase, self.disposition()?) {
            (Phase::Drained { .. } | Phase::Stopped, Disposition::Drain) => true,
            (Phase::Failed { .. }, Disposition::Drain | Disposition::Replace { .. }) => true,
            // The window of this store does not admit what was to be started.
            (Phase::Refused { .. }, Disposition::Replace { release }) => {
                self.journal.refusal.as_ref().is_some_and(|refusal| refusal.version == release.version)
            }
            _ => false,
        };
        if !starts_nothing {
            return None;
        }
        let nothing_listens = self.seen.gone || self.seen.url == Url::NoListener;
        match self.seen.alive {
            _ if self.seen.nothing_runs(&self.journal.phase) => Some(Act::Decline(Phase::Stopped)),
            // Only the end of the stop hook confirms it.
            Alive::Silent if nothing_listens && !self.is_unnoticed() => Some(Act::Decline(Phase::Stopping)),
            _ => None,
        }
    }
}
