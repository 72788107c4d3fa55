//! Instances that report another version after the last wave, or after a rollback has moved the others: they were away, or
//! their code was changed by hand. The window refuses their admission; they get the directive of the others and are
//! moved like them.

use super::super::Draft;
use super::moving::{Moving, move_instances};
use crate::fleet::{Instance, Known, Standing, moved_from};
use tidegate_proto::record::report::Step;
use tidegate_proto::{Release, ServiceVersion, mutant};

/// Moves every instance to the one release that is wanted now, and removes others.
pub(super) fn move_to(draft: &mut Draft<'_>, release: &Release, because: &str) {
    move_keeping(draft, release, std::slice::from_ref(release), because);
}

/// The same, while these releases are kept on the nodes.
pub(super) fn move_keeping(draft: &mut Draft<'_>, release: &Release, releases: &[Release], because: &str) {
    draft.direct(releases, because);
    let Some(service) = draft.service() else { return };
    if draft.has_commits() || mutant::is("stragglers-are-only-named") {
        return;
    }
    let moved_from = moved_from(draft.upgrade);
    let is_unreplaced = |i: &Instance| moved_from.is_some_and(|tag| i.names_release(tag));
    let may_begin = |i: &Instance| {
        (is_elsewhere(i, release.version) || is_unreplaced(i)) && i.has_staged(std::slice::from_ref(release))
    };
    let around = Moving {
        service,
        up_to: u32::MAX,
        target: release.clone(),
        releases: releases.to_vec(),
        moved_from,
        may_begin: &may_begin,
        has_failed: &|_| false,
        overdue: false,
    };
    move_instances(draft, &around, service.each_standing(Standing::Ready, u32::MAX));
}

/// Whether it runs another version, was refused as one, has never run anything that its agent knows of, or was not
/// healthy under its last directive and was last admitted as another version: nothing else starts the wanted one there.
/// An unknown version alone is no reason to restart an instance.
fn is_elsewhere(instance: &Instance, version: ServiceVersion) -> bool {
    let step = instance.report.as_ref().map(|report| &report.step);
    let refused = matches!(step, Some(Step::Refused { .. }));
    let is_new = matches!(step, Some(Step::Starting)) && instance.inventory.is_none();
    let was_elsewhere = instance.inventory.as_ref().is_some_and(|last| last.version != version);
    let has_failed = was_elsewhere && instance.has_failed_verifying();
    match instance.known() {
        // What is known is the lower of its report and its last admission: it may run a higher one that was refused.
        Known::At(known) => known != version || refused && instance.last_seen() != Some(version),
        Known::Unknown => refused || is_new || has_failed,
        Known::Silent => false,
    }
}
