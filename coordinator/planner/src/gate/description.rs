//! The description of a reason: the fields of `explain`.

use std::fmt::Display;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::{GroupName, NodeId, ReleaseRevision, ServiceName, StreamName, UpgradeId};

use super::Sample;

/// What waits.
#[derive(Debug, Clone, Copy)]
pub enum Waits<'a> {
    /// An upgrade.
    Upgrade(&'a UpgradeId),
    /// A compute release.
    Release(&'a StreamName, ReleaseRevision),
    /// An update of metadata.
    Group(&'a GroupName),
    /// Not known here: no command can name it.
    Unnamed,
}

impl Waits<'_> {
    /// The command that helps an upgrade.
    pub(super) fn upgrade(self, command: impl FnOnce(&UpgradeId) -> String) -> Option<String> {
        match self {
            Self::Upgrade(id) => Some(command(id)),
            _ => None,
        }
    }

    /// The command that helps a compute release.
    pub(super) fn release(
        self,
        command: impl FnOnce(&StreamName, ReleaseRevision) -> String,
    ) -> Option<String> {
        match self {
            Self::Release(stream, revision) => Some(command(stream, revision)),
            _ => None,
        }
    }

    /// The command that helps an update of metadata.
    pub(super) fn group(self, command: impl FnOnce(&GroupName) -> String) -> Option<String> {
        match self {
            Self::Group(name) => Some(command(name)),
            _ => None,
        }
    }
}

/// The description of a reason.
#[derive(Debug)]
pub(super) struct Description {
    /// The state that blocks, as a sentence.
    pub(super) blocked_on: String,
    /// Who or what can end the wait.
    pub(super) owner: &'static str,
    /// The command that helps.
    pub(super) next_step: Option<String>,
    /// What happens without any command, and when.
    pub(super) timeout: Option<String>,
}

impl Description {
    pub(super) fn new(blocked_on: impl Into<String>, owner: &'static str) -> Self {
        Self { blocked_on: blocked_on.into(), owner, next_step: None, timeout: None }
    }

    pub(super) fn next_step(self, command: Option<String>) -> Self {
        Self { next_step: command, ..self }
    }

    pub(super) fn timeout(self, text: impl Into<String>) -> Self {
        Self { timeout: Some(text.into()), ..self }
    }

    /// As `explain` and the store have it.
    pub(super) fn waiting_for(self, kind: &str) -> WaitingFor {
        let Self { blocked_on, owner, next_step, timeout } = self;
        WaitingFor {
            kind: kind.to_owned(),
            blocked_on,
            owner: owner.to_owned(),
            next_step,
            timeout,
            since: None,
        }
    }
}

/// No timeout, because a person decides.
pub(super) const MANUAL: &str = "none (manual decision)";

/// The command that helps where a store was restored.
pub(super) const RECONCILE: &str = "tidegate fleet reconcile";

/// The command that decommissions an instance, with the statement without which it is refused for some instances.
pub(super) fn decommission(service: &ServiceName, node: &dyn Display) -> String {
    format!("tidegate fleet decommission {service}/{node} --why … --stopped-how …")
}

pub(super) fn first(nodes: &Sample) -> Option<&NodeId> {
    nodes.first.first()
}
