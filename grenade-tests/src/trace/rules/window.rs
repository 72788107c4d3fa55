//! The window of a service is that of the phase (rules 1, 2 and 10).

use tidegate_proto::record::upgrade::{MigrateOrder, Phase, PhaseName, RollbackStep, Upgrade};
use tidegate_proto::record::window::Window;
use tidegate_proto::{ServiceVersion, UpgradeId};

use super::{Judge, RECONCILIATION};

/// Who sets the floor that compute releases need.
const BY_RELEASES: &str = "compute-releases";

/// Who sets a window by hand.
const BY_HAND: &str = "operator";

impl Judge<'_> {
    /// Whether a window has the floor that compute releases need, and nothing above.
    fn is_needed(&self, window: &Window) -> bool {
        let mut holders = self.after.needs.values().flat_map(|need| need.streams.values());
        window.ceiling == ServiceVersion::MAX && holders.any(|holder| holder.minimum == window.floor)
    }

    /// The window is the phase's.
    pub(super) fn window(&mut self, id: &UpgradeId, upgrade: &Upgrade, moves: bool) {
        let (from, to) = (upgrade.spec.from, upgrade.spec.to);
        let late = upgrade.schema.as_ref().is_some_and(|schema| schema.order == MigrateOrder::AfterRoll);
        let stored = self.after.windows.get(&upgrade.spec.service).map(|at| &at.body);
        let is = |floor: ServiceVersion, ceiling: ServiceVersion| {
            stored.is_some_and(|window| window.floor == floor && window.ceiling == ceiling)
        };
        let set_by = stored.map(|window| window.set_by.as_str());
        let is_reconciled = matches!(set_by, Some(RECONCILIATION | BY_HAND));
        // A reconciled one also admits what instances claimed to run, until it is known that none does.
        let is_wide = |floor: ServiceVersion| {
            is_reconciled && stored.is_some_and(|w| w.floor == floor && w.ceiling > to)
        };
        let (rule, good) = match &upgrade.phase {
            Phase::Preflight
            | Phase::Failed { .. }
            | Phase::RollingBack { from: PhaseName::Preflight, .. } => return,
            Phase::Migrate if late => (1, is(to, to) || is_wide(to)),
            // A restored store may know of less than its nodes did: the window then admits what they say that they run.
            Phase::Stage | Phase::Expand | Phase::Migrate => {
                (2, is(from, from) || is_reconciled && is(from, to) || is_wide(from))
            }
            // Or it was restored to before the floor was raised, which they hold to.
            Phase::Roll { .. } => {
                (2, is(from, to) || is_reconciled && is(to, to) || is_wide(from) || is_wide(to))
            }
            // What begins contract or ends has the window of the phase.
            Phase::Remove => (1, is(to, to) || is_wide(to)),
            Phase::Contract { .. } => (1, is(to, to) || is_wide(to) && !moves),
            Phase::Completed => (1, is(to, to)),
            // A person may reconcile the store in any of them, and the floor is withdrawn once more before the end.
            Phase::RollingBack { .. } if set_by == Some(RECONCILIATION) => return,
            Phase::RollingBack { step: RollbackStep::Lower | RollbackStep::Undo, .. } => (10, is(from, from)),
            Phase::RollingBack { .. } => (10, stored.is_some_and(|window| window.floor == from)),
            Phase::RolledBack { .. } => match upgrade.former.as_ref().and_then(|former| former.window) {
                Some((floor, ceiling)) => (10, is(floor, ceiling)),
                // A release that went out meanwhile has a floor of its own.
                None => (
                    10,
                    stored.is_none_or(|window| {
                        window.is_open() || set_by == Some(BY_RELEASES) || self.is_needed(window)
                    }),
                ),
            },
        };
        self.holds(rule, good, || format!("{id} is in {}, the window is {stored:?}", upgrade.phase));
    }
}
