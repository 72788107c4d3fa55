//! Pin a compute to a release of its own, and unpin it.

use super::roll_back::is_warmed_up;
use super::{Asked, find, find_head, granted, sentence};
use crate::ask::{Asker, Refusal, demand_why};
use crate::fleet::Fleet;
use crate::gate::Reason;
use crate::gate::release::deploy;
use crate::gate::release::storage::may_meet_storage;
use crate::gate::task::being_removed;
use crate::moment::Moment;
use crate::stream::change::Change;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::stream::{MAX_PINS, Pin};
use tidegate_proto::{ComputeId, ReleaseRevision, StreamName};

/// Pins a compute: it starts with that release, which is kept as long, and which storage must not fall below.
pub fn pin(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
    compute: &ComputeId,
    revision: ReleaseRevision,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    demand_why(asker, "pinning a compute")?;
    let stream = find(fleet, name)?;
    if stream.pins.get(compute).is_some_and(|pin| pin.revision == revision) {
        return Ok(Asked::already(name, Some(revision)));
    }
    let head = find_head(stream, name, revision, "pin")?;
    if matches!(head.release.status, ReleaseStatus::Deprecated | ReleaseStatus::Error) {
        return Err(Refusal::state(format!(
            "cannot pin {compute} to revision {revision} of {name}: it is {}",
            head.release.status
        )));
    }
    is_warmed_up(name, head)?;
    if stream.pins.len() >= MAX_PINS && !stream.pins.contains_key(compute) {
        return Err(Refusal::state(format!(
            "{name} has {MAX_PINS} pins, which is the most: unpin one first"
        )));
    }
    let refused = |reasons: Vec<Reason>| {
        Refusal::state(format!(
            "cannot pin {compute} to revision {revision} of {name}: {}",
            sentence(&reasons)
        ))
    };
    // What was deployed once had the approval that was asked for then.
    if head.release.deployed_at.is_none() {
        deploy::approved(name, stream, &head.release).map_err(|reason| refused(vec![reason]))?;
    }
    let compares = may_meet_storage(fleet, &stream.settings, &head.release).map_err(refused)?;
    let removals = being_removed(fleet, name, &head.release.tag);
    if !removals.is_empty() {
        return Err(refused(removals));
    }
    let mut change = Change::of(fleet, moment, name);
    change.relies_on(compares);
    let word = Pin { revision, who: asker.who.clone(), why: asker.why.clone(), at: moment.wall };
    let former = change.stream.pins.insert(compute.clone(), word);
    let from =
        former.map_or(format!("{compute}"), |pin| format!("{compute} pinned to revision {}", pin.revision));
    Ok(granted(change, asker, Some(revision), from, format!("{compute} pinned to revision {revision}")))
}

/// Lets a compute go: it starts with what others start with.
pub fn unpin(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
    compute: &ComputeId,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    let stream = find(fleet, name)?;
    let Some(held) = stream.pins.get(compute) else {
        return Err(Refusal::not_found(format!("{compute} is not pinned in {name}")));
    };
    let revision = held.revision;
    let mut change = Change::of(fleet, moment, name);
    change.stream.pins.remove(compute);
    let from = format!("{compute} pinned to revision {revision}");
    Ok(granted(change, asker, Some(revision), from, format!("{compute} unpinned")))
}
