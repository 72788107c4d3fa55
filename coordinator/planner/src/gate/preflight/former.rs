//! The release that runs before the upgrade: what a rollback returns to.

use super::cut_off::is_cut_off;
use super::finding::{Finding, blocker, ended_by, named_by};
use crate::fleet::{Instance, Known, ServiceFleet};
use crate::gate::Sample;
use crate::gate::description::decommission;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::record::report::{Health, Report, Rotation, Step};
use tidegate_proto::spec::Spec;
use tidegate_proto::{Digest, NodeId, Release, ReleaseTag, ServiceVersion};

/// The one release that the instances at `from` run, or why there is none to return to.
pub(super) fn former_release(service: &ServiceFleet, spec: &Spec) -> Result<Release, Finding> {
    let version = spec.from;
    let is_done = |instance: &Instance| is_cut_off(service, spec) && instance.known() == Known::At(spec.to);
    let mut seen: BTreeMap<(ReleaseTag, Digest), &NodeId> = BTreeMap::new();
    let mut others: BTreeMap<ServiceVersion, Vec<&NodeId>> = BTreeMap::new();
    let (mut unanswering, mut unnamed, mut unpinned) = (Vec::new(), Vec::new(), Vec::new());
    let left = leftovers(service, spec);
    let is_left = |instance: &Instance| left.iter().any(|other| other.node == instance.node);
    for instance in service.instances().filter(|instance| !is_done(instance) && !is_left(instance)) {
        let Some(report) = &instance.report else { continue };
        match (&report.release, report.release_digest) {
            (Some(tag), Some(digest)) => drop(seen.insert((tag.clone(), digest), &instance.node)),
            (Some(tag), None) => unpinned.push((instance, tag)),
            (None, _) => match report.runs() {
                None => unanswering.push(&instance.node),
                Some(runs) if runs == version => unnamed.push(&instance.node),
                Some(runs) => others.entry(runs).or_default().push(&instance.node),
            },
        }
    }
    if let Some((runs, nodes)) = others.first_key_value() {
        return Err(blocker(format!(
            "version {runs} is answered on {}, not `from` ({version}), so that it is not known which release ran there, and a \
             rollback needs one to return to{}",
            Sample::of(nodes.iter().copied(), nodes.len()),
            started(service, spec).map(|how| format!(": {how}")).unwrap_or_default(),
        )));
    }
    if !unnamed.is_empty() {
        return Err(blocker(format!(
            "which release runs is not known on {}, and a rollback needs one to return to: {}",
            Sample::of(unnamed.iter().copied(), unnamed.len()),
            named_by(service.name(), version),
        )));
    }
    if !unanswering.is_empty() {
        let nodes = Sample::of(unanswering.iter().copied(), unanswering.len());
        return Err(blocker(format!(
            "no version is answered on {nodes}, so that it is not known which release runs there, and a rollback needs one \
             to return to: wait until it answers{}",
            started(service, spec).map(|how| format!(", or {how}")).unwrap_or_default(),
        ))
        .until(format!("the service answers its version on {nodes}")));
    }
    if let Some((instance, tag)) = unpinned.first() {
        let nodes = Sample::of(unpinned.iter().map(|(instance, _)| &instance.node), unpinned.len());
        return Err(not_pinned(&nodes, instance, tag, service));
    }
    let releases: Vec<String> = seen
        .iter()
        .map(|((tag, sha256), node)| format!("{tag} with sha256 {} ({node})", sha256.declared()))
        .collect();
    if releases.is_empty() {
        return Err(blocker(format!(
            "no instance reports a release of `from` ({version}), and a rollback needs one to return to"
        )));
    }
    match seen.into_keys().next().filter(|_| releases.len() == 1) {
        Some((tag, sha256)) => Ok(Release { tag, sha256, version }),
        None => Err(blocker(format!(
            "instances run different releases, and a rollback returns to one: {}. Stop each instance that does not run the \
             release of `from`, and its agent, and decommission it: `{}`",
            releases.join(", "),
            decommission(service.name(), &"NODE"),
        ))),
    }
}

/// What a person does about an instance whose release is not known; none where the window refuses `from`. What the window says
/// is found as well: `hop`.
fn started(service: &ServiceFleet, spec: &Spec) -> Option<String> {
    let is_admitted = service.window().is_none_or(|window| window.admits(spec.from));
    is_admitted.then(|| ended_by(service.name(), "the release of `from`"))
}

/// Instances that serve nothing, whose version is not known: what ran `from` there has ended; or another release was put on
/// them, which has never become ready there, which is what an upgrade leaves that ended, or was cut off, between stop and start.
fn leftovers<'a>(service: &'a ServiceFleet, spec: &Spec) -> Vec<&'a Instance> {
    let at_from = service.instances().filter(|instance| instance.known() == Known::At(spec.from));
    let former: BTreeSet<&ReleaseTag> = at_from.filter_map(release).collect();
    let serves_nothing = |instance: &Instance| {
        let report = instance.report.as_ref();
        let serves = |r: &Report| r.health == Health::Healthy || r.rotation == Rotation::In;
        // One that was refused says what it runs.
        let says = |r: &Report| r.probed.is_some() || matches!(r.step, Step::Refused { .. });
        report.is_some_and(|r| !serves(r) && !says(r))
    };
    let is_left = |instance: &&Instance| {
        instance.known() == Known::Unknown
            && instance.unreadable.is_empty()
            && serves_nothing(instance)
            && (instance.has_ended_at(spec.from)
                || release(instance).is_some_and(|tag| !former.contains(tag)))
    };
    match former.is_empty() {
        true => Vec::new(),
        false => service.unknown().each.filter(is_left).collect(),
    }
}

/// Those of them that the roll replaces. An agent whose claim was disregarded obeys no order of this store.
pub(super) fn replaced_leftovers<'a>(service: &'a ServiceFleet, spec: &Spec) -> Vec<&'a Instance> {
    leftovers(service, spec).into_iter().filter(|instance| !instance.disregarded).collect()
}

fn release(instance: &Instance) -> Option<&ReleaseTag> {
    instance.report.as_ref()?.release.as_ref()
}

/// What its agent found when it staged the running release; where it has not said so, what may be missing.
fn not_pinned(nodes: &Sample, instance: &Instance, tag: &ReleaseTag, service: &ServiceFleet) -> Finding {
    let found =
        format!("the sha256 of release {tag}, which runs, is not known on {nodes}, and a rollback needs it");
    let failed = instance.stage_failures().find(|(failed, _)| failed == tag);
    match failed {
        Some((_, why)) => blocker(format!(
            "{found}: on {}: {why}. Correct the artifact or the hook there: its agent tries again once a minute",
            instance.node
        )),
        None => blocker(format!(
            "{found}: its agent is staging it. If this does not end, set sha256 in [service.{}.artifact.\"{tag}\"] of the \
             agent's config to that of the file that runs, or to \"absent\", and restart the agent",
            service.name()
        ))
        .until(format!("the agent on {} has staged {tag}", instance.node)),
    }
}

/// What a rollback can do where the digest was declared absent.
pub(super) fn unverified(release: &Release) -> String {
    format!(
        "the agents' config declares that {tag}, to which a rollback would return, has no sha256: a rollback runs the stage \
         hook for {tag} again and starts what it brings, unverified",
        tag = release.tag
    )
}
