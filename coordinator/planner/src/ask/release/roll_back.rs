//! Roll back: a new revision with the body of one that was deployed before, which goes out at once. It overtakes
//! whatever waits or is in canary, and may go back in version.

use super::{Asked, find, granted, heeds_manual, refuse, sentence};
use crate::ask::{Asker, Refusal, RefusalKind};
use crate::fleet::{Fleet, Stored};
use crate::moment::Moment;
use crate::release::compatibility::may_meet_storage;
use crate::stream::change::Change;
use tidegate_proto::commit::Precondition;
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus, TagRecord};
use tidegate_proto::{Key, ReleaseRevision, StreamName};

/// Goes back to `target`, the record of a revision that was deployed before, as it was read; it is compared. A person
/// who rolls back does not wait: nothing is approved, prewarmed or tried, but storage and evidence must let it out.
pub fn roll_back(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
    target: &Stored<ComputeRelease>,
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
        return refuse(
            RefusalKind::State,
            format!(
                "cannot roll back to revision {} of {name}: it was never deployed ({})",
                wanted.revision, wanted.status
            ),
        );
    }
    if wanted.status == ReleaseStatus::Deprecated {
        return refuse(
            RefusalKind::State,
            format!(
                "cannot roll back to revision {} of {name}: it was collected, and its image may be gone; create its release anew",
                wanted.revision
            ),
        );
    }
    heeds_manual(stream, name, &wanted.tag)?;
    let mut change = Change::of(fleet, moment, name);
    let compares = may_meet_storage(fleet, &change.stream.settings, wanted).map_err(|reasons| Refusal {
        kind: RefusalKind::State,
        message: format!(
            "cannot roll back to revision {} of {name} ({}): {}",
            wanted.revision,
            wanted.tag,
            sentence(&reasons)
        ),
    })?;
    change.relies_on(compares);
    change.relies_on([Precondition::At(Key::Release(name.clone(), wanted.revision), target.at)]);
    let revision = again(&mut change, wanted, &asker.who)?;
    let from = deployed.map(described).unwrap_or_default();
    let to = format!("revision {revision} ({}) deployed, back to revision {}", wanted.tag, wanted.revision);
    Ok(granted(change, asker, Some(revision), from, to))
}

/// Adds a revision with an old body that goes out at once; its number.
pub(crate) fn again(
    change: &mut Change<'_>,
    wanted: &ComputeRelease,
    who: &str,
) -> Result<ReleaseRevision, Refusal> {
    let revision = ReleaseRevision::after(change.stream.latest.as_ref().map(|latest| latest.revision));
    change.created(ComputeRelease {
        revision,
        rollback_of: Some(wanted.revision),
        status: ReleaseStatus::Pending,
        because: String::new(),
        by: who.to_owned(),
        created_at: change.moment.wall,
        approved: None,
        deployed_at: None,
        ..wanted.clone()
    });
    change
        .goes_out(revision)
        .map_err(|refused| Refusal { kind: RefusalKind::State, message: refused.to_string() })?;
    // Whoever writes a tag's record rewrites the stream too, so the stream's compare is enough.
    let key = Key::ReleaseTag(change.name.clone(), wanted.tag.clone());
    let body = TagRecord { revision, version: wanted.version };
    change.also(|commit| commit.put(key, body));
    Ok(revision)
}

fn described(release: &ComputeRelease) -> String {
    format!("revision {} ({}) {}", release.revision, release.tag, release.status)
}
