//! What instances are known to run.

pub mod below;

use super::description::{Description, Waits, decommission, first};
use super::roll::{RollGate, failed_or_skipped};
use super::{Answer, Reason};
use crate::fleet::{Instance, Known, Sample, ServiceFleet, Standing, moved_from};
use crate::upgrade::View;
use serde::{Deserialize, Serialize};
use tidegate_proto::record::upgrade::{Phase, RollbackStep};
use tidegate_proto::{ReleaseTag, Revision, ServiceName, ServiceVersion, Span, mutant};

/// A gate on the versions of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum VersionGate {
    Silent { service: ServiceName, nodes: Sample },
    VersionUnknown { service: ServiceName, nodes: Sample },
    NothingRuns { service: ServiceName, nodes: Sample, above: ServiceVersion, deadline: Span },
    Behind { service: ServiceName, nodes: Sample, needs: ServiceVersion },
    Ahead { service: ServiceName, nodes: Sample, allowed: ServiceVersion },
    Unreplaced { service: ServiceName, nodes: Sample, release: ReleaseTag },
    Unacknowledged { service: ServiceName, nodes: Sample, window: Revision },
    NoInstances { service: ServiceName },
}

impl VersionGate {
    pub(super) fn describe(&self, waits: Waits<'_>) -> Description {
        match self {
            Self::Silent { service, nodes } => Description::new(
                format!("{service}: no report from {nodes}; these instances are unknown, not gone"),
                "the agent, which reports again; or a person, who decommissions the instance where the machine is gone for good",
            )
            .next_step(first(nodes).map(|node| decommission(service, node))),
            Self::VersionUnknown { service, nodes } => Description::new(
                format!("{service}: the running version is not known on {nodes}"),
                "the agent, once its version probe answers; or a person, who starts the service where nothing runs",
            )
            .next_step(first(nodes).map(|node| format!("tidegate-agent check (on {node})"))),
            Self::NothingRuns { service, nodes, above, deadline } => Description::new(
                format!("{service}: nothing runs on {nodes}, and the window admits a version above {above} there"),
                "the agent or a person, who starts the service on that node",
            )
            .timeout(format!("after {deadline} the upgrade ends, and what expand made stays")),
            Self::Behind { service, nodes, needs } => Description::new(
                format!("{service} is below version {needs} on {nodes}"),
                match waits {
                    // Another tool may upgrade the storage below a release.
                    Waits::Release(..) => {
                        "the tool that upgrades this service; Tidegate only observes it while no upgrade of it runs"
                    }
                    _ => MOVES,
                },
            )
            .next_step(waits.release(|_, _| format!("tidegate fleet list {service}"))),
            Self::Ahead { service, nodes, allowed } => {
                Description::new(format!("{service} is above version {allowed} on {nodes}"), MOVES)
            }
            Self::Unreplaced { service, nodes, release } => Description::new(
                format!("{service}: release {release} is not replaced on {nodes}, whatever version it answers"),
                "the coordinator, which moves the instances to the former release; or a person, where one has failed",
            ),
            Self::Unacknowledged { service, nodes, window } => Description::new(
                format!("{service}: {nodes} have not acknowledged the version window of revision {window}"),
                "the agents",
            ),
            Self::NoInstances { service } => Description::new(
                format!("{service} has no instance"),
                "a person, who starts an agent for the service or corrects its name in the spec",
            ),
        }
    }
}

const MOVES: &str = "the coordinator, which moves the instances to that version; or a person, where one has failed or was skipped";

/// Whether every instance has acknowledged the window.
pub(crate) fn acknowledged(view: &View<'_>) -> Answer {
    let Some(service) = view.service() else { return Answer::closed() };
    let (name, window) = (service.name().clone(), service.window_at());
    let nodes = service.unacknowledged().sample();
    Answer::of_any(nodes, |nodes| VersionGate::Unacknowledged { service: name, nodes, window })
}

/// Whether every instance is known to be at the version.
pub(crate) fn all_at(view: &View<'_>, version: ServiceVersion) -> Answer {
    let Some(service) = view.service() else { return Answer::closed() };
    let name = || service.name().clone();
    let mut answer = silent(service);
    answer.is_open |= mutant::is("silent-instance-is-passed-over");
    let mut any = |nodes, reason: &dyn Fn(Sample) -> VersionGate| answer.and(Answer::of_any(nodes, reason));
    any(service.unknown().sample(), &|nodes| VersionGate::VersionUnknown { service: name(), nodes });
    any(service.below(version).sample(), &|nodes| VersionGate::Behind {
        service: name(),
        nodes,
        needs: version,
    });
    any(service.above(version).sample(), &|nodes| VersionGate::Ahead {
        service: name(),
        nodes,
        allowed: version,
    });
    let moved_from = moved_from(view.upgrade);
    if let Some(release) = moved_from {
        any(service.unreplaced().sample(), &|nodes| VersionGate::Unreplaced {
            service: name(),
            nodes,
            release: release.clone(),
        });
    }
    if service.is_empty() {
        answer.and(Answer::from(Reason::from(VersionGate::NoInstances { service: name() })));
    }
    answer.and(none_held_by_cordon(service, version, moved_from));
    let is_elsewhere = |node: &_| {
        let instance = service.get(node).filter(|instance| instance.counts());
        instance.is_some_and(|i| {
            let is_named = match i.known() {
                Known::At(known) => known != version,
                Known::Unknown => is_left_alone(view, i),
                Known::Silent => false,
            };
            is_named || i.is_unreplaced(moved_from)
        })
    };
    answer.reasons.extend(failed_or_skipped(view.exceptions(), is_elsewhere));
    answer
}

/// Whether no cordon keeps an instance from being moved to the version. One that is under an order is named with that order.
fn none_held_by_cordon(
    service: &ServiceFleet,
    version: ServiceVersion,
    moved_from: Option<&ReleaseTag>,
) -> Answer {
    let cordoned = service.each_standing(Standing::Cordoned, u32::MAX);
    let held = cordoned.filter(|i| i.known() != Known::At(version) || i.is_unreplaced(moved_from));
    Answer::of_any(Sample::counted(held.map(|i| &i.node)), |nodes| RollGate::Maintenance { nodes })
}

/// Whether a skip or a failure keeps an instance whose version is not known from being moved in this phase. What one that
/// has failed is waiting on under an order is named with that order.
fn is_left_alone(view: &View<'_>, instance: &Instance) -> bool {
    let (exceptions, node) = (view.exceptions(), &instance.node);
    let is_idle = !instance.is_under_order();
    match &view.upgrade.phase {
        Phase::Roll { .. } => exceptions.is_skipped(node) || is_idle && exceptions.has_failed(node),
        Phase::RollingBack { step: RollbackStep::Move, .. } => {
            is_idle && exceptions.failure(node).is_some_and(|failure| failure.returning)
        }
        _ => false,
    }
}

/// Whether every instance reports.
pub(crate) fn silent(service: &ServiceFleet) -> Answer {
    let name = service.name().clone();
    Answer::of_any(service.silent().sample(), |nodes| VersionGate::Silent { service: name, nodes })
}

/// Whether the version of every instance is known.
pub(crate) fn known(service: &ServiceFleet) -> Answer {
    let name = service.name().clone();
    let mut answer = silent(service);
    answer.and(Answer::of_any(service.unknown().sample(), |nodes| VersionGate::VersionUnknown {
        service: name,
        nodes,
    }));
    answer
}

/// The same, where none may run a later version than this one: an instance on which nothing runs, by its agent's evidence,
/// is passed over as long as the window admits no later one there. Where it does, its agent may start one at any time.
pub(crate) fn none_may_be_above(service: &ServiceFleet, version: ServiceVersion, deadline: Span) -> Answer {
    let name = || service.name().clone();
    let unknown = |runs_nothing: bool| {
        let each = service.unknown().each.filter(|instance| instance.runs_nothing() == runs_nothing);
        Sample::counted(each.map(|instance| &instance.node))
    };
    let mut answer = silent(service);
    answer
        .and(Answer::of_any(unknown(false), |nodes| VersionGate::VersionUnknown { service: name(), nodes }));
    if service.window().is_none_or(|window| window.ceiling > version) {
        answer.and(Answer::of_any(unknown(true), |nodes| VersionGate::NothingRuns {
            service: name(),
            nodes,
            above: version,
            deadline,
        }));
    }
    answer
}

/// The instances whose version is not known, where nothing runs on any of them, and every other one reports.
pub(crate) fn idle_alone(service: &ServiceFleet) -> Option<Sample> {
    let mut unknown = service.unknown().each;
    let are_alone = service.silent().count == 0 && unknown.all(Instance::runs_nothing);
    are_alone.then(|| service.unknown().sample())
}
