//! The release that runs before the upgrade: what a rollback returns to.

use super::is_cut_off;
use crate::fleet::{Instance, Known, ServiceFleet};
use crate::reason::Sample;
use std::collections::BTreeMap;
use tidegate_proto::spec::Spec;
use tidegate_proto::{Digest, NodeId, Release, ReleaseTag};

/// The one release that the instances at `from` run, or why there is none to return to.
pub(super) fn former_release(service: &ServiceFleet, spec: &Spec) -> Result<Release, String> {
    let version = spec.from;
    let is_done = |instance: &Instance| is_cut_off(service, spec) && instance.known() == Known::At(spec.to);
    let mut seen: BTreeMap<(ReleaseTag, Digest), &NodeId> = BTreeMap::new();
    let (mut unnamed, mut unpinned) = (Vec::new(), Vec::new());
    for instance in service.instances().filter(|instance| !is_done(instance)) {
        let Some(report) = &instance.report else { continue };
        match (&report.release, report.release_digest) {
            (Some(tag), Some(digest)) => drop(seen.insert((tag.clone(), digest), &instance.node)),
            (Some(tag), None) => unpinned.push((instance, tag)),
            (None, _) => unnamed.push(&instance.node),
        }
    }
    if !unnamed.is_empty() {
        return Err(format!(
            "which release runs is not known on {}, and a rollback needs one to return to: in the agent's config give \
             exactly one [service.{}.artifact.\"TAG\"] version = {version}",
            Sample::of(unnamed.iter().copied(), unnamed.len()),
            service.name(),
        ));
    }
    if let Some((instance, tag)) = unpinned.first() {
        let nodes = Sample::of(unpinned.iter().map(|(instance, _)| &instance.node), unpinned.len());
        return Err(format!(
            "the sha256 of release {tag}, which runs, is not known on {nodes}, and a rollback needs it: {}",
            why_unpinned(instance, tag, service)
        ));
    }
    let releases: Vec<String> = seen
        .iter()
        .map(|((tag, sha256), node)| format!("{tag} with sha256 {} ({node})", words(sha256)))
        .collect();
    match seen.into_keys().next().filter(|_| releases.len() == 1) {
        Some((tag, sha256)) => Ok(Release { tag, sha256, version }),
        None => Err(format!(
            "instances run different releases at version {version}, and a rollback returns to one: {}",
            releases.join(", ")
        )),
    }
}

/// What its agent found when it staged the running release; where it has not said so, what may be missing.
fn why_unpinned(instance: &Instance, tag: &ReleaseTag, service: &ServiceFleet) -> String {
    let failed = instance.stage_failures().find(|(failed, _)| failed == tag);
    match failed {
        Some((_, why)) => format!("on {}: {why}", instance.node),
        None => format!(
            "its agent is staging it. If this does not end, set sha256 in [service.{}.artifact.\"{tag}\"] of the agent's \
             config to that of the file that runs, or to \"absent\", and restart the agent",
            service.name()
        ),
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

fn words(digest: &Digest) -> String {
    if digest.is_absent() { "absent".to_owned() } else { digest.to_string() }
}
