//! A directive of a former store. An agent that has taken in a reconciliation keeps the directive that it obeyed last, and
//! with it the state of the instance, until this store has a directive for it.
//!
//! # Invariants
//! * Nothing stays stopped because of such a directive. This store may have no upgrade that orders anything, and none begins
//!   while the version of an instance is not known. The directive is declined, and the service is started again as one that
//!   ended by itself without a directive: what ran last, once it is admitted. Where the window does not admit that, or the
//!   directive was to replace the instance with it and that failed, it is the first release of the directive that the window
//!   admits. So it is where the directive was to replace the instance with that one, as in a rollback whose stop failed.
//! * What runs stays as it is: only a directive of this store lets it back into rotation. A release that was started, and has
//!   failed without ever having answered a version, is stopped: its version does not become known otherwise. So is one that
//!   answers another version than the directive names for it: no rollback could return to it, so that no upgrade would start.
//!   It was never shown, so no request is in flight. Where that stop fails, it is tried again, after growing pauses.

use super::act::Act;
use super::decide::Context;
use super::seen::Url;
use crate::config::settings::Driver;
use crate::host::{Alive, HookState};
use crate::journal::Phase;
use tidegate_proto::record::directive::Disposition;

/// Why the directive is not carried out any more.
pub(crate) const DECLINED: &str =
    "directive declined: it is of a former store, nothing answers as it should, and nothing would start it";

impl Context<'_> {
    /// Declines the directive of a former store where nothing answers, or what it started is not what it names, and the
    /// directive starts nothing. Where it was declined already, and the stop has failed that follows from that, stops it again.
    pub(super) fn declines_former(&self) -> Option<Act> {
        let hook_runs = self.seen.hook == HookState::Runs;
        if !self.journal.obeys_former_store() || !self.seen.store || hook_runs || !self.has_driver() {
            return None;
        }
        let starts_nothing = match (&self.journal.phase, self.disposition()) {
            (Phase::Drained { .. } | Phase::Stopped, Some(Disposition::Drain)) => true,
            (Phase::Failed { .. }, Some(Disposition::Drain | Disposition::Replace { .. })) => true,
            (Phase::Failed { at, .. }, None) => at == Phase::STOPPING && self.is_due_again(),
            // The window of this store does not admit what was to be started.
            (Phase::Refused { .. }, Some(Disposition::Replace { release })) => {
                self.journal.refusal.as_ref().is_some_and(|refusal| refusal.version == release.version)
            }
            _ => false,
        };
        if !starts_nothing {
            return None;
        }
        let decline = |phase| if self.journal.declined { Act::Enter(phase) } else { Act::Decline(phase) };
        let nothing_listens = self.seen.gone || self.seen.url == Url::NoListener;
        match self.seen.alive {
            _ if self.seen.nothing_runs(&self.journal.phase) => Some(decline(Phase::Stopped)),
            _ if self.may_be_sent_requests() => None,
            // Only the end of the stop hook confirms it.
            Alive::Silent if nothing_listens => Some(decline(Phase::Stopping)),
            Alive::Yes | Alive::Unknown if self.has_failed_unrecognised() => Some(decline(Phase::Stopping)),
            _ => None,
        }
    }

    /// Whether balancers may still send requests to it. What accepts connections and never answers does not refuse: there the
    /// checks themselves have failed for long enough.
    fn may_be_sent_requests(&self) -> bool {
        let is_known_bad = self.timers.is_known_bad(self.seen.now, self.service.fall_time());
        self.is_unnoticed() && !is_known_bad
    }

    /// Whether what was started has failed and was never shown, and has answered no version, or answers another one than its
    /// own. What answers and does not hold the lock of its process is not what was started, and this agent cannot stop it.
    pub(super) fn has_failed_unrecognised(&self) -> bool {
        let has_failed = matches!(self.journal.phase, Phase::Failed { .. });
        let is_unidentified = self.journal.unidentified.is_some() && self.seen.probe.version().is_none();
        let by_hooks = matches!(self.service.driver, Some(Driver::Command(_)));
        let is_own = by_hooks || self.seen.hook == HookState::Ended;
        let was_never_shown = self.seen.was_never_shown(self.journal);
        has_failed && was_never_shown && is_own && (is_unidentified || self.answers_another_version())
    }

    /// Whether what was started last is the release of the directive, and answers another version than the directive says.
    fn answers_another_version(&self) -> bool {
        let asked = self.directive().map(|directive| &directive.disposition);
        let Some(Disposition::Replace { release }) = asked else { return false };
        let ran_last = self.journal.release.as_ref() == Some(&release.tag);
        ran_last && self.seen.probe.version().is_some_and(|version| version != release.version)
    }
}
