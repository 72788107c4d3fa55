//! What the loop of an instance does next: look, decide, report, act, rest. Pure: the loop carries each step out and says
//! what came of it.
//!
//! ```text
//!                 ┌─────────────────── LookAgain ◄──────────────────┐
//!                 ▼                                                 │ the look still stands
//!   Look ──► Decide ──► Retract, Report, or nothing ──► CarryOut ───┴──► Look
//!                 ▲                                        │ not done, or nothing to do
//!                 └──────── ReadStore ◄── news ── Rest ◄───┘
//!                                                   └─────────────────► Look
//! ```

use crate::config::Service;
use crate::config::settings::Driver;
use crate::directive::act::Act;
use crate::directive::seen::Seen;
use crate::host::Alive;
use crate::journal::Journal;
use std::time::Duration;

/// News of the store are answered by a look that is younger than this.
const FRESH: Duration = Duration::from_millis(20);

/// How many acts may follow from one look, however little each of them changes.
const ACTS_ON_A_LOOK: u32 = 4;

/// Reports that a hook has started are delayed by this, so that the hook gets the CPU first: of many nodes on one machine,
/// or with one store, each would start its hook later by what the others report.
const BESIDE_A_HOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Look at the service and at the store.
    Look,
    /// Read the journal and the staged releases again: what was seen of the service and the store still holds.
    LookAgain,
    /// Read the store again: what was seen of the service still holds, or is replaced by a look after the decision.
    ReadStore,
    /// Choose the next act, or end.
    Decide,
    /// Report the version as unknown, and wait until that is written: another version is admitted next.
    Retract,
    /// Report in the background, after this delay.
    Report(Duration),
    /// Carry out the act.
    CarryOut,
    /// Report where nothing was reported before the act, then wait for news or for the next look.
    Rest { report: bool },
}

/// What has followed from the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cycle {
    acts: u32,
    /// The store has news that are younger than the look.
    news: bool,
}

impl Cycle {
    /// After a whole look.
    pub(super) fn looked(&mut self) -> Step {
        *self = Self::default();
        Step::Decide
    }

    /// After the decision for `act`; `age` is that of the look.
    ///
    /// A version is reported only after the inventory has it. What an act changes that takes no longer than the disk or the
    /// store is reported after it.
    pub(super) fn decided(
        self,
        act: &Act,
        service: &Service,
        journal: &Journal,
        seen: &Seen,
        age: Duration,
    ) -> Step {
        let is_answer = age < FRESH || seen.alive == Alive::Yes && act.follows_an_order();
        let by_hooks = matches!(service.driver, Some(Driver::Command(_)));
        match act {
            _ if self.news && !is_answer => Step::Look,
            Act::AdmitRunning(version, _)
                if journal.admitted.as_ref().is_some_and(|admitted| admitted.version != *version) =>
            {
                Step::Retract
            }
            Act::Stop | Act::Start(_) if by_hooks => Step::Report(BESIDE_A_HOOK),
            _ if act.is_reported_first() => Step::Report(Duration::ZERO),
            _ => Step::CarryOut,
        }
    }

    /// After `act`. `done`: whether it was carried out. `still_valid`: whether the new phase asks for no more than the last
    /// look saw.
    pub(super) fn carried_out(&mut self, act: &Act, done: bool, still_valid: bool) -> Step {
        if !done {
            return Step::Rest { report: !act.is_reported_first() };
        }
        self.acts += 1;
        let still_valid = still_valid && act.changes_only_the_journal() && self.acts < ACTS_ON_A_LOOK;
        if still_valid { Step::LookAgain } else { Step::Look }
    }

    /// After a rest that `news` of the store ended, or something else.
    pub(super) fn rested(&mut self, news: bool) -> Step {
        *self = Self { acts: 0, news };
        if news { Step::ReadStore } else { Step::Look }
    }
}

#[cfg(test)]
mod tests;
