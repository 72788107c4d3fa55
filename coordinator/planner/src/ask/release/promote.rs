//! Promote: a person decides that a release begins its canary, goes to more starts, or goes out.

use super::roll_back::is_warmed_up;
use super::{Asked, find, find_head, granted, heeds_manual, sentence};
use crate::ask::{Asker, Refusal};
use crate::fleet::Fleet;
use crate::gate::release::deploy;
use crate::gate::release::storage::may_meet_storage;
use crate::gate::task::being_removed;
use crate::moment::Moment;
use crate::stream::change::Change;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::{Fraction, ReleaseRevision, StreamName};

/// With a fraction: that share of starts uses it from now on. Without: all of them, and it is deployed. A person's decision
/// replaces the strategy, the prewarm, the trial and the canary's count; not storage, evidence or an approval.
pub fn promote(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
    revision: ReleaseRevision,
    fraction: Option<Fraction>,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    let stream = find(fleet, name)?;
    let head = find_head(stream, name, revision, "promote")?;
    let status = head.release.status;
    let same_share = status == ReleaseStatus::Canary && fraction.is_some() && head.fraction == fraction;
    if same_share || (status == ReleaseStatus::Deployed && fraction.is_none()) {
        return Ok(Asked::already(name, Some(revision)));
    }
    if !matches!(status, ReleaseStatus::Pending | ReleaseStatus::Canary) {
        return Err(Refusal::state(format!(
            "cannot promote revision {revision} of {name}: it is {status}, neither pending nor in canary"
        )));
    }
    heeds_manual(stream, name, &head.release.tag)?;
    is_warmed_up(name, head)?;
    let other = stream.canary.as_ref().map(|canary| canary.release.revision).filter(|r| *r != revision);
    if let (Some(other), Some(_)) = (other, fraction) {
        return Err(Refusal::state(format!(
            "revision {other} of {name} is in canary: one at a time; promote that one or roll back"
        )));
    }
    if fraction.is_some() && stream.deployed.is_none() {
        return Err(Refusal::state(format!(
            "nothing of {name} is deployed, so that the other starts would have nothing"
        )));
    }
    if let Some(deployed) = stream.deployed.as_ref().filter(|d| d.release.revision > revision) {
        return Err(Refusal::state(format!(
            "revision {} of {name} is deployed, and revisions only rise",
            deployed.release.revision
        )));
    }
    let mut reasons = Vec::new();
    reasons.extend(deploy::waiting_rollback(stream, revision));
    reasons.extend(deploy::approved(name, stream, &head.release).err());
    reasons.extend(being_removed(fleet, name, &head.release.tag));
    let compares = may_meet_storage(fleet, &stream.settings, &head.release)
        .map_err(|found| reasons.extend(found))
        .unwrap_or_default();
    if !reasons.is_empty() {
        return Err(Refusal::state(format!(
            "cannot promote revision {revision} of {name}: {}",
            sentence(&reasons)
        )));
    }
    let mut change = Change::of(fleet, moment, name);
    change.relies_on(compares);
    let moved = match (fraction, &mut change.stream.canary) {
        (Some(share), Some(canary)) => {
            canary.fraction = Some(share);
            Ok(())
        }
        (Some(share), None) => change.begins_canary(revision, share),
        (None, _) => change.goes_out(revision),
    };
    moved.map_err(Refusal::state)?;
    let to = match fraction {
        Some(share) => format!("revision {revision} in canary for {share} of starts"),
        None => format!("revision {revision} deployed"),
    };
    Ok(granted(change, asker, Some(revision), format!("revision {revision} {status}"), to))
}
