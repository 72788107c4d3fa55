//! The acts of an agent; [`decide`](super::decide::decide) chooses the next.

use crate::host::Target;
use crate::journal::{Known, Order, Phase};
use tidegate_proto::{ReleaseTag, Revision, ServiceVersion};

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// Nothing, for now.
    Wait,
    /// Journal that a person has reconciled the store, at this revision.
    Reconcile(Revision),
    /// Journal the window; the next look then acknowledges it.
    Acknowledge(Known),
    /// Journal the directive and the phase that it brings.
    Accept(Box<Order>, Phase),
    /// Journal another phase.
    Enter(Phase),
    /// Journal that the accepted directive is not carried out, and the phase in which the instance continues.
    Decline(Phase),
    /// Create the disable-file.
    Disable,
    /// Remove the agent's own disable-file.
    Enable,
    /// Have the version that runs admitted.
    AdmitRunning(ServiceVersion, Option<ReleaseTag>),
    /// Have a release admitted, then journal that it is being started.
    AdmitTarget(Target),
    /// Verify what is to be started once more, then journal that what runs is being stopped.
    BeginStop(Option<Target>),
    /// Stop what runs.
    Stop,
    /// Start the release.
    Start(Target),
    /// Kill the hook that an earlier agent began: it takes too long.
    EndHook,
}

impl Act {
    /// Whether what was seen before it is reported before it. Another act takes no longer than the disk or the store does:
    /// what follows from it is reported. An admission compares the report's key, so that no report is written beside it.
    pub(crate) fn is_reported_first(&self) -> bool {
        matches!(self, Self::Wait | Self::Stop | Self::Start(_) | Self::EndHook)
    }

    /// Whether what the store has is enough to decide on it where the service was alive when it was last looked at, however
    /// long ago: only the journal changes, or the instance is disabled, which it may be at any time.
    pub(crate) fn follows_an_order(&self) -> bool {
        matches!(self, Self::Accept(..) | Self::Acknowledge(_) | Self::Disable)
    }

    /// Whether what was seen before it still holds after it: only the journal changes. After an acknowledgement the version is
    /// probed again all the same (rule 1).
    pub(crate) fn changes_only_the_journal(&self) -> bool {
        matches!(self, Self::Accept(..) | Self::Enter(_) | Self::Decline(_) | Self::BeginStop(_))
    }
}
