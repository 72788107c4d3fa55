//! The progress deadline of the roll: whether no instance became healthy for too long.

use super::RollGate;
use crate::fleet::{Causes, ServiceFleet, Standing};
use crate::gate::Reason;
use crate::gate::person::rollback::begins;
use crate::upgrade::View;
use tidegate_proto::NodeId;
use tidegate_proto::record::upgrade::{Phase, PhaseName, RollbackStep};
use tidegate_proto::spec::IgnoredFailure;

/// What the progress deadline counts for: an instance that is on its way, unhealthy, silent or failed. An instance in
/// maintenance, and one whose failure was skipped or accepted, has no deadline.
pub(crate) struct StallScope {
    silent: bool,
    others: bool,
}

impl StallScope {
    /// `silent` and `reporting`: whether any instance of that kind is on its way.
    pub(crate) fn of(view: &View<'_>, service: &ServiceFleet, silent: bool, reporting: bool) -> Self {
        let exceptions = view.exceptions();
        let any = |standing| {
            let skipped = exceptions
                .skipped()
                .filter(|node| service.standing_of(node).is_some_and(|(stands, _)| stands == standing));
            service.standing(standing, u32::MAX).count > skipped.count()
        };
        let target = view.spec().target();
        let serves = |node: &NodeId| service.get(node).is_some_and(|instance| instance.serves(&target));
        let failed = exceptions.failures().any(|(node, failure)| {
            exceptions.counts(failure) && !exceptions.is_skipped(node) && !serves(node)
        });
        Self {
            silent: silent || any(Standing::Silent),
            others: reporting || any(Standing::Unhealthy) || any(Standing::OutOfRotation) || failed,
        }
    }

    pub(crate) fn counts(&self) -> bool {
        self.silent || self.others
    }

    /// Whether the spec ignores all that holds the roll up.
    pub(crate) fn is_ignored(&self, view: &View<'_>) -> bool {
        view.spec().failures.ignore.contains(&IgnoredFailure::Unreachable) && !self.others
    }
}

/// Whether the time without progress ends or changes something in this phase.
pub(crate) fn has_deadline(phase: &Phase) -> bool {
    matches!(
        phase,
        Phase::Roll { .. }
            | Phase::RollingBack { step: RollbackStep::Move, .. }
            | Phase::RollingBack { from: PhaseName::Preflight, step: RollbackStep::Undo, .. }
    )
}

/// Whether the time without progress has reached the deadline.
pub(crate) fn is_overdue(view: &View<'_>) -> bool {
    view.elapsed().stalled_ms >= view.spec().health.progress_deadline.as_millis()
}

/// That no instance became healthy within the deadline.
pub(crate) fn stalled(view: &View<'_>, service: &ServiceFleet) -> Reason {
    let (for_ms, deadline) = (view.elapsed().stalled_ms, view.spec().health.progress_deadline);
    let rollback_path = begins(view, "").is_open;
    RollGate::Stalled { for_ms, deadline, out: Causes::of(service.out()), rollback_path }.into()
}
