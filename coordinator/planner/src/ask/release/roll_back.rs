//! Roll back: a new revision with the body of one that was deployed before. It goes out at once, or as soon as its image
//! is warmed up where that was removed. It overtakes whatever waits or is in canary, and may go back in version.

use super::{Asked, find, granted, heeds_manual, sentence};
use crate::ask::{Asker, Refusal};
use crate::fleet::{Fleet, Stored};
use crate::gate::release::storage::may_meet_storage;
use crate::gate::task::{being_removed, removal_runs};
use crate::moment::Moment;
use crate::stream::change::Change;
use crate::stream::image;
use crate::stream::returning::{again, created_with_body, emergency, while_removed};
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus};
use tidegate_proto::record::stream::{Head, MAX_PENDING, Stream};
use tidegate_proto::{Key, StreamName, mutant};

/// Goes back to `target`, the record of a revision that was deployed before, as it was read; it is compared. A person
/// who rolls back does not wait: nothing is approved or tried, but storage and evidence must let it out, and an image
/// that was removed is warmed up first unless `prewarm` is false; that is refused while an agent removes the image.
pub fn roll_back(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
    target: &Stored<ComputeRelease>,
    prewarm: bool,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    let stream = find(fleet, name)?;
    let wanted = &target.record.body;
    let latest = stream.latest.as_ref();
    let deployed = stream.deployed.as_ref().map(|head| &head.release);
    if let Some(deployed) = deployed.filter(|deployed| deployed.digest == wanted.digest)
        && latest.is_some_and(|latest| latest.revision == deployed.revision)
    {
        return Ok(Asked::already(name, Some(deployed.revision)));
    }
    if wanted.deployed_at.is_none() {
        return Err(Refusal::state(format!(
            "cannot roll back to revision {} of {name}: it was never deployed ({})",
            wanted.revision, wanted.status
        )));
    }
    if wanted.status == ReleaseStatus::Deprecated && mutant::is("collected-release-stays-away") {
        return Err(Refusal::state(format!(
            "cannot roll back to revision {} of {name}: it was collected",
            wanted.revision
        )));
    }
    heeds_manual(stream, name, &wanted.tag)?;
    let warms_up = prewarm && is_image_gone(fleet, stream, name, wanted);
    let under_way =
        stream.pending.last().filter(|head| head.returns() && head.release.digest == wanted.digest);
    if let Some(head) = under_way.filter(|head| warms_up || head.at_once) {
        return Ok(Asked::already(name, Some(head.release.revision)));
    }
    match warms_up {
        true => can_warm_up(stream, name, wanted)?,
        false => is_not_being_removed(fleet, name, wanted)?,
    }
    let compares = may_meet_storage(fleet, &stream.settings, wanted).map_err(|reasons| {
        Refusal::state(format!(
            "cannot roll back to revision {} of {name} ({}): {}",
            wanted.revision,
            wanted.tag,
            sentence(&reasons)
        ))
    })?;
    let begun = || {
        let mut change = Change::of(fleet, moment, name);
        change.relies_on(compares.clone());
        change.relies_on([Precondition::At(Key::Release(name.clone(), wanted.revision), target.at)]);
        change
    };
    let back = format!("back to revision {}", wanted.revision);
    let from = deployed.map(described).unwrap_or_default();
    let waits = |at_once: bool, until: &str| {
        let mut change = begun();
        let revision = created_with_body(&mut change, wanted, &asker.who);
        let heads = change.stream.pending.iter_mut().filter(|head| head.release.revision == revision);
        heads.for_each(|head| head.at_once = at_once);
        let to = format!("revision {revision} ({}) waits until {until}, {back}", wanted.tag);
        granted(change, asker, Some(revision), from.clone(), to)
    };
    if warms_up {
        return Ok(waits(false, "its image is warmed up"));
    }
    let mut change = begun();
    let revision = again(&mut change, wanted, &asker.who).map_err(Refusal::state)?;
    let to = format!("revision {revision} ({}) deployed, {back}", wanted.tag);
    let asked = granted(change, asker, Some(revision), from.clone(), to);
    let withdrawn = |commit: &Commit| image::is_withdrawn(fleet, commit, name, &wanted.tag);
    match asked.commit.as_ref().is_none_or(withdrawn) {
        true => Ok(asked),
        // More than one transaction can hold: the rest is withdrawn by turns, and it goes out after that.
        false => Ok(waits(true, "the removals of its image are withdrawn")),
    }
}

/// Refuses what would have computes start with a rollback whose image may be gone: one that has not gone out.
pub(super) fn is_warmed_up(name: &StreamName, head: &Head) -> Result<(), Refusal> {
    let (revision, status) = (head.release.revision, head.release.status);
    let Some(target) = head.release.rollback_of.filter(|_| head.release.deployed_at.is_none()) else {
        return Ok(());
    };
    let state = match status {
        ReleaseStatus::Pending => format!(
            "goes out by itself once its image is there (`tidegate release explain {revision} --stream {name}`)"
        ),
        _ => format!(
            "is {status}: it never went out, and its image may be gone. To have its image warmed up: `tidegate release rollback {target} --stream {name} --why …`"
        ),
    };
    Err(Refusal::state(format!(
        "revision {revision} of {name} goes back to revision {target} and {state}. {}",
        emergency(name, target)
    )))
}

/// Whether the image of a release may have been removed: it was collected, where collected images are or were removed,
/// or are warmed up again, and no other release shows that the image is there.
fn is_image_gone(fleet: &Fleet, stream: &Stream, name: &StreamName, wanted: &ComputeRelease) -> bool {
    let settings = &stream.settings;
    wanted.status == ReleaseStatus::Deprecated
        && (settings.removal.is_some() || settings.prewarm.is_some() || stream.removed_images)
        && (!image::is_there(stream, &wanted.tag) || !being_removed(fleet, name, &wanted.tag).is_empty())
        && !mutant::is("removed-image-is-not-warmed-up")
}

fn can_warm_up(stream: &Stream, name: &StreamName, wanted: &ComputeRelease) -> Result<(), Refusal> {
    let revision = wanted.revision;
    let lacks = match () {
        () if stream.settings.prewarm.is_none() => {
            format!("{name} has no prewarm hook (`tidegate release stream {name} --set FILE`)")
        }
        () if stream.pending.len() >= MAX_PENDING => format!("{MAX_PENDING} releases of {name} wait already"),
        () => return Ok(()),
    };
    Err(Refusal::state(format!(
        "cannot roll back to revision {revision} of {name}: it was collected, its image may be gone, and {lacks}; what is deployed stays. {}",
        emergency(name, revision)
    )))
}

/// An image is not known to be there while a hook that removes it runs.
fn is_not_being_removed(fleet: &Fleet, name: &StreamName, wanted: &ComputeRelease) -> Result<(), Refusal> {
    let revision = wanted.revision;
    match removal_runs(fleet, name, &wanted.tag) {
        Some(reason) => Err(Refusal::state(format!(
            "cannot roll back to revision {revision} of {name}: {}",
            while_removed(&reason)
        ))),
        None => Ok(()),
    }
}

fn described(release: &ComputeRelease) -> String {
    format!("revision {} ({}) {}", release.revision, release.tag, release.status)
}
