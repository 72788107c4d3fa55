//! What goes with a reason: who can end the wait, which command helps, what happens at a deadline.

use super::{RECONCILE, Reason, Sample};
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::{GroupName, ReleaseRevision, StreamName, UpgradeId};

impl Reason {
    /// Who or what can end the wait.
    pub fn who(&self) -> &'static str {
        match self {
            Self::Silent { .. } => {
                "its agent, by reporting; or, where the machine is gone for good, a person, by decommissioning it"
            }
            Self::VersionUnknown { .. } => "its agent, once its probe answers",
            Self::Unreadable { .. } => "the writer of the record, or a person who removes it",
            Self::Behind { .. } | Self::Ahead { .. } => {
                "the coordinator, which moves it there; or a person, where it failed or was skipped"
            }
            Self::Unacknowledged { .. }
            | Self::Staging { .. }
            | Self::Removing { .. }
            | Self::Draining { .. }
            | Self::Replacing { .. }
            | Self::Returning { .. }
            | Self::FormerStore { .. } => "the agents, by themselves",
            Self::StageFailed { .. } => "a person: the artifact on that node",
            Self::Outside { .. } => "a person: start a version that the window admits on these nodes",
            Self::NotServing { .. } => "the service on that node, or a person who looks after it",
            Self::Failed { .. } => "a person: the instance on that node; it is not tried again by itself",
            Self::Maintained { .. } => "the person who keeps it out",
            Self::Unlabelled { .. } => {
                "the instance, by coming back; or a person: the labels in its agent's config"
            }
            Self::Skipped { .. } => {
                "a person, by taking it up again; or by decommissioning it once it is stopped"
            }
            Self::Capacity { .. } | Self::Unavailable { .. } | Self::Domain { .. } | Self::Held { .. } => {
                "instances that come back into rotation; or a person who mends what is out"
            }
            Self::NoStorage { .. }
            | Self::ReleaseApproval { .. }
            | Self::ReleaseFailed { .. }
            | Self::Manual { .. }
            | Self::NoStrategy => "a person",
            Self::Needed { .. } => "a person, by rolling the compute release back or unpinning it first",
            Self::Floor { .. } => "the upgrade of the service, when its last instance was seen upgraded",
            Self::ReleaseUnknown { .. } => "its agent, once it knows which release runs",
            Self::Evidence { .. } => "a compatibility run, with a pass",
            Self::CanaryBusy { .. } | Self::CanaryOpen { .. } => {
                "the computes, by telling how they fared; or a person, by promoting or rolling back"
            }
            Self::RollsBack { failed: false, .. } => "whatever that rollback waits for",
            Self::RollsBack { .. } => "a person, by another attempt or by promoting a release",
            Self::NotAvailable { .. } => "whoever says whether the release answers",
            Self::Errand { .. } => "the agents of these nodes, one task after the other",
            Self::ErrandRuns { .. } => {
                "the agents of these nodes; or, where a machine is gone for good, a person who states how it ended"
            }
            Self::ErrandUnknown { .. } => "a person who has seen that its process has ended, and how",
            Self::ErrandFailed { .. } => "a person: the hook on that node, then another attempt",
            Self::Unsignalled { .. } => {
                "the instances, by telling how they fared; or a person, by calling the update off"
            }
            Self::Watched { .. } => "the coordinator, by itself",
            Self::TooManyKept { .. } => "a person, by unpinning; or computes that move to a later release",
            Self::EmptyWave { .. } => "a person: mend and retry one of the wave, or roll back",
            Self::NoInstances { .. } => "an agent that is started for it",
            Self::Stalled { .. } => "the instances that are waited for, or a person, by rolling back",
            Self::Preflight { .. } => "a person: what was found; it is looked at again by itself",
            Self::Paused { .. } => "a person: go on, or go back",
            Self::Approval { .. } | Self::Acceptance { .. } | Self::NoWayBack { .. } => "a person",
            Self::Restored { .. } => "a person, who knows what happened since the backup",
            Self::Unsupported { .. } => {
                "a person, by including or disregarding the claim, or by decommissioning the instance"
            }
            Self::Disregarded { .. } => {
                "a person, by including the claim, or by decommissioning the instance"
            }
            Self::Schema { .. } | Self::Unheard { .. } => "the coordinator, by itself",
            Self::SchemaTrouble { .. } => "the database, or a person who looks after it",
            Self::StoreRefused { .. } => {
                "a person who looks after the store: its limits, permissions and space"
            }
            Self::SchemaLost { way_back: true, .. } => {
                "a person: restore the database that was migrated, or roll the upgrade back"
            }
            Self::SchemaLost { .. } => {
                "a person: restore the database that was migrated; or, where that is lost, run its migrations again by hand"
            }
            Self::MigrateFloor { .. } => {
                "the upgrade of that service, which commits the floor after its last instance"
            }
            Self::Certificate { .. } => "whatever is named, or a person who looks after it",
        }
    }

    /// The command that helps, where there is one.
    pub fn command(&self, upgrade: &UpgradeId) -> Option<String> {
        let first = |nodes: &Sample| nodes.first.first().cloned();
        let rollback = || format!("tidegate upgrade rollback {upgrade} --why …");
        match self {
            Self::Silent { service, nodes } => first(nodes)
                .map(|node| format!("tidegate fleet decommission {service}/{node} --why … --stopped-how …")),
            Self::VersionUnknown { nodes, .. } => {
                first(nodes).map(|node| format!("tidegate-agent check (on {node})"))
            }
            Self::Approval { point } => Some(format!("tidegate upgrade approve {upgrade} {point}")),
            Self::Acceptance { .. } => {
                Some(format!("tidegate upgrade approve {upgrade} contract --accept sessions"))
            }
            Self::Paused { way_back: true, .. } => {
                Some(format!("tidegate upgrade resume {upgrade}, or {}", rollback()))
            }
            Self::Paused { .. } => Some(format!("tidegate upgrade resume {upgrade}")),
            Self::Maintained { nodes } => first(nodes)
                .map(|node| format!("tidegate fleet uncordon {node}, or remove the disable-file there")),
            Self::Failed { node, .. } | Self::StageFailed { node, .. } => {
                Some(format!("tidegate upgrade retry {upgrade} {node}"))
            }
            Self::Skipped { nodes } => {
                first(nodes).map(|node| format!("tidegate upgrade retry {upgrade} {node}"))
            }
            Self::Outside { service, .. } => Some(format!("tidegate fleet list {service}")),
            Self::NotServing { nodes: out }
            | Self::Capacity { out, .. }
            | Self::Unavailable { out, .. }
            | Self::Domain { out, .. }
                if out.failed().is_some() =>
            {
                out.failed().map(|node| format!("tidegate upgrade retry {upgrade} {node}"))
            }
            Self::NotServing { .. }
            | Self::Capacity { .. }
            | Self::Unavailable { .. }
            | Self::Domain { .. }
            | Self::Held { .. }
            | Self::Unlabelled { .. } => Some(format!("tidegate upgrade status {upgrade}")),
            Self::Stalled { .. }
            | Self::EmptyWave { .. }
            | Self::Preflight { .. }
            | Self::SchemaLost { way_back: true, .. } => Some(rollback()),
            Self::SchemaLost { from, to, .. } => {
                let run = |verb| format!("tidegate schema {verb} --from {from} --to {to} --migrations DIR");
                Some(format!("{}, then {}", run("expand"), run("migrate")))
            }
            Self::MigrateFloor { service, .. } => Some(format!("tidegate upgrade list {service} --active")),
            Self::Needed { by, .. } => {
                Some(format!("tidegate release rollback … --stream {} --why …", by.stream))
            }
            Self::Restored { .. } | Self::Unsupported { .. } => Some(RECONCILE.to_owned()),
            Self::Disregarded { service, nodes } => {
                first(nodes).map(|node| format!("{RECONCILE} --include {service}/{node}"))
            }
            _ => None,
        }
    }

    /// The command that helps a compute release, where there is one.
    pub fn release_command(&self, stream: &StreamName, revision: ReleaseRevision) -> Option<String> {
        match self {
            Self::Silent { service, nodes } => nodes
                .first
                .first()
                .map(|node| format!("tidegate fleet decommission {service}/{node} --why … --stopped-how …")),
            Self::Behind { service, .. } => Some(format!("tidegate fleet list {service}")),
            Self::Floor { service, .. } => Some(format!("tidegate upgrade list {service} --active")),
            Self::Evidence { compute, storage, .. } => {
                Some(format!("tidegate release evidence {compute} {storage} pass --stream {stream}"))
            }
            Self::Manual { .. } => Some(format!("tidegate release stream {stream} --set …")),
            Self::TooManyKept { .. } => Some(format!("tidegate release unpin … --stream {stream}")),
            Self::Restored { .. } | Self::Unsupported { .. } => Some(RECONCILE.to_owned()),
            Self::ReleaseApproval { .. } => {
                Some(format!("tidegate release approve {revision} --stream {stream}"))
            }
            Self::CanaryOpen { .. } | Self::NotAvailable { .. } | Self::NoStrategy => {
                Some(format!("tidegate release promote {revision} --stream {stream} --deploy"))
            }
            Self::ErrandFailed { .. } | Self::ReleaseFailed { overtaken: None, .. } => {
                Some(format!("tidegate release retry {revision} --stream {stream}"))
            }
            Self::ErrandUnknown { node, task, .. } => {
                Some(format!("tidegate task settle {node} {task} --outcome succeeded|failed --why …"))
            }
            Self::ErrandRuns { nodes, .. } => {
                nodes.first.first().map(|node| format!("tidegate task list --node {node}"))
            }
            Self::RollsBack { revision, failed: false } => {
                Some(format!("tidegate release explain {revision} --stream {stream}"))
            }
            Self::RollsBack { revision, .. } => {
                Some(format!("tidegate release retry {revision} --stream {stream}"))
            }
            Self::CanaryBusy { revision } => {
                Some(format!("tidegate release promote {revision} --stream {stream} --deploy"))
            }
            _ => None,
        }
    }

    /// What happens by itself, where anything does.
    pub fn deadline(&self) -> Option<String> {
        match self {
            Self::Draining { deadline, .. } => {
                Some(format!("after {deadline} the spec's drain.on_deadline decides"))
            }
            Self::Replacing { deadline, .. } => Some(format!("after {deadline} the instance has failed")),
            Self::CanaryOpen { deadline: Some(deadline), .. } => {
                Some(format!("after {deadline} in canary without success it is withdrawn"))
            }
            Self::NotAvailable { deadline, .. } => {
                Some(format!("after {deadline} without becoming available it has failed"))
            }
            Self::Unsignalled { left, .. } => Some(format!(
                "in {left} those that have told nothing count as failed ({})",
                tidegate_proto::metadata::TIMEOUT
            )),
            Self::Watched { left, .. } => Some(format!("in {left} the next batch is exposed")),
            Self::Stalled { .. } => {
                Some("it has passed; the spec ignores those that are unreachable".to_owned())
            }
            Self::SchemaTrouble { .. } | Self::SchemaLost { .. } | Self::Certificate { .. } => {
                Some("none: it is tried again, at least every 15 s".to_owned())
            }
            Self::StoreRefused { .. } => Some("none: it is planned again in every turn".to_owned()),
            Self::MigrateFloor { .. } => Some("none: it waits for another service".to_owned()),
            Self::Approval { .. }
            | Self::Acceptance { .. }
            | Self::Paused { .. }
            | Self::Maintained { .. }
            | Self::Skipped { .. } => Some("none: waiting for a person is no failure".to_owned()),
            _ => None,
        }
    }

    /// The same for an update of metadata.
    pub fn for_group(&self, group: &GroupName) -> WaitingFor {
        let helps = matches!(self, Self::Unsignalled { .. } | Self::Watched { .. });
        WaitingFor {
            kind: self.kind().to_owned(),
            what: self.to_string(),
            who: self.who().to_owned(),
            command: helps.then(|| format!("tidegate metadata cancel {group} --why …")),
            deadline: self.deadline(),
            since: None,
        }
    }

    /// The same for a compute release.
    pub fn for_release(&self, stream: &StreamName, revision: ReleaseRevision) -> WaitingFor {
        let who = match self {
            // The storage below it may be somebody else's to upgrade.
            Self::Behind { .. } => {
                "whoever upgrades that service; Tidegate only watches it while no upgrade of it runs"
            }
            _ => self.who(),
        };
        WaitingFor {
            kind: self.kind().to_owned(),
            what: self.to_string(),
            who: who.to_owned(),
            command: self.release_command(stream, revision),
            deadline: self.deadline(),
            since: None,
        }
    }

    /// As the store keeps it for people; since when, who writes it knows.
    pub fn for_people(&self, upgrade: &UpgradeId) -> WaitingFor {
        WaitingFor {
            kind: self.kind().to_owned(),
            what: self.to_string(),
            who: self.who().to_owned(),
            command: self.command(upgrade),
            deadline: self.deadline(),
            since: None,
        }
    }
}
