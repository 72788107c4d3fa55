//! Instances that are staged, moved or cleaned up.

pub(crate) mod moving;
pub(crate) mod stall;
pub(crate) mod wave;

use super::description::{Description, MANUAL, Waits, first};
use super::version::VersionGate;
use super::{Answer, Reason};
use crate::fleet::{
    Causes, Exceptions, Instance, Known, Sample, ServiceFleet, Standing, stays_under_order, target,
};
use crate::upgrade::View;
use crate::upgrade::phase::gives_no_directives;
use serde::{Deserialize, Serialize};
use tidegate_proto::record::report::MAY_HAVE_STOPPED;
use tidegate_proto::record::upgrade::{Phase, RollbackStep, Upgrade};
use tidegate_proto::{NodeId, Release, ReleaseTag, Span, UpgradeId, mutant};

/// A gate on the instances that an upgrade moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum RollGate {
    Staging { release: ReleaseTag, nodes: Sample },
    StageFailed { node: NodeId, release: ReleaseTag, why: String },
    Removing { nodes: Sample },
    Draining { nodes: Sample, deadline: Span },
    Replacing { nodes: Sample, deadline: Span },
    Returning { nodes: Sample },
    NotServing { nodes: Causes },
    Maintenance { nodes: Sample },
    Declined { nodes: Sample, rest: Span },
    Recalled { nodes: Sample, rest: Span },
    Failed { node: NodeId, why: String },
    Skipped { nodes: Sample },
    EmptyWave { wave: u32, rollback_path: bool },
    Stalled { for_ms: u64, deadline: Span, out: Causes, rollback_path: bool },
}

const AGENTS: &str = "the agents";
const REST_ENDS: &str =
    "the coordinator; or, where this recurs, a person, who corrects instances whose health goes up and down";

pub(super) fn retry(id: &UpgradeId, node: &NodeId) -> String {
    format!("tidegate upgrade retry {id} {node}")
}

/// The same for an instance that has failed. Whether its service has stopped, only a person can know.
fn retry_failed(id: &UpgradeId, node: &NodeId, may_have_stopped: bool) -> String {
    let command = retry(id, node);
    match may_have_stopped {
        true => {
            format!("{command}, or, if the service has stopped, {command} --declare-stopped --why …")
        }
        false => command,
    }
}

/// The command that helps where instances are out of service: the one that has failed is named, or else one that a person
/// keeps out.
pub(super) fn recovery_command(waits: Waits<'_>, out: &Causes) -> Option<String> {
    waits.upgrade(|id| match (out.failed(), out.cordoned(), out.disabled()) {
        (Some(cause), ..) => retry_failed(id, &cause.node, cause.may_have_stopped),
        (None, Some(node), _) => format!("tidegate fleet uncordon {node}"),
        (None, None, Some(node)) => {
            format!("tidegate-agent check (on {node}), then remove the disable-file that it names")
        }
        (None, None, None) => format!("tidegate upgrade status {id}"),
    })
}

pub(super) fn besides(out: &Causes) -> String {
    if out.is_empty() { String::new() } else { format!("; not in service: {out}") }
}

impl RollGate {
    pub(super) fn describe(&self, waits: Waits<'_>) -> Description {
        match self {
            Self::Staging { release, nodes } => {
                Description::new(format!("{release} is being staged on {nodes}"), AGENTS)
            }
            Self::StageFailed { node, release, why } => Description::new(
                format!("{node} could not stage or remove {release}: {why}"),
                "a person, who corrects the artifact or the hook on that node",
            )
            .next_step(waits.upgrade(|id| retry(id, node))),
            Self::Removing { nodes } => {
                Description::new(format!("old code is being removed from {nodes}"), AGENTS)
            }
            Self::Draining { nodes, deadline } => {
                Description::new(format!("draining {nodes} (timeout {deadline} for each)"), AGENTS)
                    .timeout(format!("after {deadline} the spec's drain.on_deadline decides"))
            }
            Self::Replacing { nodes, deadline } => Description::new(
                format!("replacing and verifying {nodes} (each healthy within {deadline})"),
                AGENTS,
            )
            .timeout(format!("after {deadline} the instance has failed")),
            Self::Returning { nodes } => Description::new(format!("returning to rotation: {nodes}"), AGENTS),
            Self::NotServing { nodes } => Description::new(
                format!("not in rotation and healthy: {nodes}"),
                "the service on that node, or a person who operates it",
            )
            .next_step(recovery_command(waits, nodes)),
            Self::Maintenance { nodes } => Description::new(
                format!("in maintenance: {nodes}"),
                "the person who put the node in maintenance",
            )
            .next_step(waits.upgrade(|_| match first(nodes) {
                Some(node) => {
                    format!("tidegate fleet uncordon {node}, or remove the disable-file there")
                }
                None => "tidegate fleet uncordon NODE".to_owned(),
            }))
            .timeout(MANUAL),
            Self::Declined { nodes, rest } => Description::new(
                format!(
                    "{nodes} declined the last order: it took the instance for out of rotation, or the agent has lost its journal"
                ),
                AGENTS,
            )
            .timeout(format!("{rest} after the decline the instance is ordered again")),
            Self::Recalled { nodes, rest } => {
                Description::new(format!("ordered back into rotation a short time ago: {nodes}"), REST_ENDS)
                    .timeout(format!("{rest} after the last order to go back the next instance is drained"))
            }
            Self::Failed { node, why } => Description::new(
                format!("{node} failed: {why}"),
                "a person, who corrects the instance on that node; it is not retried automatically",
            )
            .next_step(waits.upgrade(|id| retry_failed(id, node, why.contains(MAY_HAVE_STOPPED)))),
            Self::Skipped { nodes } => Description::new(
                format!("skipped instances still block remove and contract: {nodes}"),
                "a person, who retries the instance, or stops and decommissions it",
            )
            .next_step(first(nodes).and_then(|node| waits.upgrade(|id| retry(id, node))))
            .timeout(MANUAL),
            Self::EmptyWave { wave, rollback_path } => empty_wave(*wave, *rollback_path, waits),
            Self::Stalled { for_ms, deadline, out, rollback_path } => {
                stalled((*for_ms, *deadline), out, *rollback_path, waits)
            }
        }
    }
}

fn empty_wave(wave: u32, rollback_path: bool, waits: Waits<'_>) -> Description {
    let blocked_on =
        format!("wave {} has no instance left that could be verified at the new version", wave + 1);
    if rollback_path {
        let owner = "a person, who corrects and retries an instance of the wave, or rolls back";
        return Description::new(blocked_on, owner).next_step(waits.upgrade(rollback));
    }
    // The reasons beside it name which instances can be retried.
    Description::new(blocked_on, "a person, who corrects and retries an instance of the wave")
}

fn stalled(
    (for_ms, deadline): (u64, Span),
    out: &Causes,
    rollback_path: bool,
    waits: Waits<'_>,
) -> Description {
    let time = Span::from_millis(for_ms / 1000 * 1000);
    let blocked_on =
        format!("no instance became healthy for {time} (progress deadline {deadline}){}", besides(out));
    let (owner, next_step) = match rollback_path {
        true => ("the instances that are named; or a person, who rolls back", waits.upgrade(rollback)),
        false => {
            ("the instances that are named; or a person, who corrects them", recovery_command(waits, out))
        }
    };
    Description::new(blocked_on, owner)
        .next_step(next_step)
        .timeout("passed: the spec's failures.then ignores unreachable instances")
}

pub(super) fn rollback(id: &UpgradeId) -> String {
    format!("tidegate upgrade rollback {id} --why …")
}

/// Whether every instance was seen serving the target. Those that serve another version are named by
/// [`all_at`](super::version::all_at).
pub(crate) fn all_serving(view: &View<'_>) -> Answer {
    let Some(service) = view.service() else { return Answer::closed() };
    let all = |standing| service.standing(standing, u32::MAX);
    let (in_maintenance, moved): (Vec<_>, Vec<_>) =
        service.ordered().each.partition(|i| i.is_in_maintenance());
    let in_maintenance = Sample::counted(in_maintenance.into_iter().map(|instance| &instance.node));
    let mut answer = Answer { is_open: all(Standing::Ready).count == 0, reasons: Vec::new() };
    for nodes in [all(Standing::Cordoned).sample(), all(Standing::DisabledByPerson).sample(), in_maintenance]
    {
        answer.and(Answer::of_any(nodes, |nodes| RollGate::Maintenance { nodes }));
    }
    for standing in [Standing::Silent, Standing::Unhealthy, Standing::OutOfRotation] {
        answer.and(unfit(Causes::of(all(standing))));
    }
    answer.and(unfit(Causes::counted(moved.into_iter())));
    answer.is_open |= mutant::is("completed-is-not-seen");
    answer
}

/// Whether there is none that is not in rotation and healthy.
pub(crate) fn unfit(nodes: Causes) -> Answer {
    match nodes.is_empty() {
        true => Answer::open(),
        false => Answer::from(Reason::from(RollGate::NotServing { nodes })),
    }
}

/// Whether every instance that is not skipped holds the releases.
pub(crate) fn staged(view: &View<'_>, releases: &[Release]) -> Answer {
    let Some(service) = view.service() else { return Answer::closed() };
    let exceptions = view.exceptions();
    let is_skipped = |node: &NodeId| exceptions.is_skipped(node);
    let among = exceptions.skipped().filter(|node| service.is_unstaged(node));
    let (quiet, others): (Vec<_>, Vec<_>) =
        among.filter_map(|node| service.get(node)).partition(|instance| instance.known() == Known::Silent);
    let silent = service.unstaged_silent().sample_but(is_skipped, quiet.len());
    // Who failed is named with the cause, and is not at work.
    let has_failed = |instance: &Instance| instance.has_stage_failures();
    let failed = service.stage_failed().count - others.iter().filter(|instance| has_failed(instance)).count();
    let not_at_work = |node: &NodeId| is_skipped(node) || service.get(node).is_some_and(has_failed);
    let reporting = service.unstaged().sample_but(not_at_work, others.len() + failed);
    let failures = stage_failures(service.stage_failed().each.filter(|instance| !is_skipped(&instance.node)));
    let mut answer = Answer { is_open: failed == 0, reasons: failures };
    let name = service.name().clone();
    answer.and(Answer::of_any(silent, |nodes| VersionGate::Silent { service: name, nodes }));
    if let Some(release) = releases.last().map(|r| r.tag.clone()) {
        answer.and(Answer::of_any(reporting, |nodes| RollGate::Staging { release, nodes }));
    }
    answer
}

/// Which of these could not stage a release, and why.
pub(crate) fn stage_failures<'a>(instances: impl Iterator<Item = &'a Instance>) -> Vec<Reason> {
    let failures = instances
        .flat_map(|instance| instance.stage_failures().map(|(tag, why)| (instance.node.clone(), tag, why)));
    let failures = failures.take(Sample::NAMED);
    failures.map(|(node, release, why)| RollGate::StageFailed { node, release, why }.into()).collect()
}

/// Whether there is none whose node lacks a release. One that failed to stage it is named with the cause, and is not at work.
pub(crate) fn none_unstaged<'a>(
    release: &ReleaseTag,
    unstaged: impl Iterator<Item = &'a Instance>,
) -> Answer {
    let (failed, at_work): (Vec<&Instance>, Vec<&Instance>) =
        unstaged.partition(|instance| instance.has_stage_failures());
    let mut answer = Answer { is_open: failed.is_empty(), reasons: stage_failures(failed.into_iter()) };
    let at_work = Sample::counted(at_work.into_iter().map(|instance| &instance.node));
    let release = release.clone();
    answer.and(Answer::of_any(at_work, |nodes| RollGate::Staging { release, nodes }));
    answer
}

/// Whether no node that runs something else than the target has failed to stage this release. Who has is named with the
/// cause: its agent tries again when a person has the directive written again, and it is not moved before.
pub(crate) fn none_failed_to_stage(service: &ServiceFleet, release: &ReleaseTag) -> Answer {
    let failed = service.stranded().each.filter(|instance| has_failed_to_stage(instance, release));
    let mut answer = Answer::open();
    for instance in failed.take(Sample::NAMED) {
        answer.is_open = false;
        for (release, why) in instance.stage_failures().filter(|(failed, _)| failed == release) {
            let node = instance.node.clone();
            answer.reasons.push(Reason::Roll(RollGate::StageFailed { node, release, why }));
        }
    }
    answer
}

fn has_failed_to_stage(instance: &Instance, release: &ReleaseTag) -> bool {
    instance.stage_failures().any(|(failed, _)| failed == *release)
}

/// Whether a release is present again on every node that runs something else. Silent nodes are waited for later, and so are
/// cordoned ones whose instances stay under an order of the roll.
pub(crate) fn restaged(upgrade: &Upgrade, service: &ServiceFleet, release: &ReleaseTag) -> Answer {
    let mut answer = none_failed_to_stage(service, release);
    let is_at_work = |i: &&Instance| !has_failed_to_stage(i, release) && !stays_under_order(upgrade, i);
    let at_work = service.stranded().each.filter(is_at_work);
    let at_work = Sample::counted(at_work.map(|instance| &instance.node));
    let release = release.clone();
    answer.and(Answer::of_any(at_work, |nodes| RollGate::Staging { release, nodes }));
    answer
}

/// Whether every node holds no other code than it should. One that could not remove it is named with the cause: its agent
/// tries again when a person has the directive written again.
pub(crate) fn removed(service: &ServiceFleet) -> Answer {
    let has_failed = |instance: &Instance| instance.has_stage_failures();
    let failed = failed_to_remove(service);
    let at_work = |node: &NodeId| service.get(node).is_some_and(has_failed);
    let nodes = service.cluttered().sample_but(at_work, failed.len());
    let mut answer = Answer { is_open: failed.is_empty(), reasons: stage_failures(failed.iter().copied()) };
    answer.and(Answer::of_any(nodes, |nodes| RollGate::Removing { nodes }));
    answer
}

fn failed_to_remove(service: &ServiceFleet) -> Vec<&Instance> {
    service.cluttered().each.filter(|instance| instance.has_stage_failures()).collect()
}

/// Those that are not where they should be because they failed, or because a person skipped them.
pub(crate) fn failed_or_skipped(
    exceptions: Exceptions<'_>,
    is_missing: impl Fn(&NodeId) -> bool,
) -> Vec<Reason> {
    let failed = exceptions.failures().filter(|(node, _)| is_missing(node));
    let failed = failed.take(Sample::NAMED).map(|(node, failure)| has_failed(node, &failure.reason));
    let skipped = exceptions.skipped().filter(|node| !exceptions.has_failed(node));
    let skipped = Sample::counted(skipped.filter(|node| is_missing(node)));
    failed.chain(Answer::of_any(skipped, |nodes| RollGate::Skipped { nodes }).reasons).collect()
}

/// Those that failed and were neither retried nor accepted: what a person who finds the upgrade paused decides about.
pub(crate) fn open_failures(exceptions: Exceptions<'_>) -> Vec<Reason> {
    let open = exceptions.failures().filter(|(_, failure)| exceptions.counts(failure));
    open.take(Sample::NAMED).map(|(node, failure)| has_failed(node, &failure.reason)).collect()
}

/// Those that could not stage or remove a release which the phase of the upgrade needs there, or gone: the same as where it
/// is not paused. One whose failure is open is named with that. In a phase without directives none can be retried.
pub(crate) fn open_stage_failures(view: &View<'_>) -> Vec<Reason> {
    let Some(service) = view.service().filter(|_| !gives_no_directives(view.upgrade)) else {
        return Vec::new();
    };
    let phase = &view.upgrade.phase;
    if matches!(phase, Phase::Stage | Phase::Roll { .. }) {
        let exceptions = view.exceptions();
        let is_open = |node: &NodeId| exceptions.failure(node).is_some_and(|f| exceptions.counts(f));
        let is_named_elsewhere = |node: &NodeId| exceptions.is_skipped(node) || is_open(node);
        let failed = service.stage_failed().each;
        return stage_failures(failed.filter(|instance| !is_named_elsewhere(&instance.node)));
    }
    let mut reasons = none_failed_to_stage(service, &target(view.upgrade).tag).reasons;
    if matches!(phase, Phase::Remove | Phase::RollingBack { step: RollbackStep::Lower, .. }) {
        reasons.extend(stage_failures(failed_to_remove(service).into_iter()));
    }
    reasons
}

pub(super) fn has_failed(node: &NodeId, why: &str) -> Reason {
    RollGate::Failed { node: node.clone(), why: why.to_owned() }.into()
}
