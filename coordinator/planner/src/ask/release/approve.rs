//! Approve a release that waits for a person.

use super::{Asked, find, find_head, granted};
use crate::ask::{Asker, Refusal};
use crate::fleet::Fleet;
use crate::moment::Moment;
use crate::stream::change::Change;
use std::collections::BTreeSet;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::stream::ApprovalRule;
use tidegate_proto::record::upgrade::Decision;
use tidegate_proto::{ReleaseRevision, StreamName};

/// Approves a release that is pending or in canary; refused where the stream asks for no approval.
pub fn approve(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
    revision: ReleaseRevision,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    let stream = find(fleet, name)?;
    let head = find_head(stream, name, revision, "approve")?;
    if head.release.approved.is_some() {
        return Ok(Asked::already(name, Some(revision)));
    }
    let status = head.release.status;
    if !matches!(status, ReleaseStatus::Pending | ReleaseStatus::Canary) {
        return Err(Refusal::state(format!(
            "cannot approve revision {revision} of {name}: it is {status}, neither pending nor in canary"
        )));
    }
    if stream.settings.approval == ApprovalRule::None {
        return Err(Refusal::state(format!("stream {name} asks for no approval")));
    }
    let mut change = Change::of(fleet, moment, name);
    let word = Decision {
        who: asker.who.clone(),
        why: asker.why.clone(),
        accepts: BTreeSet::new(),
        at: moment.wall,
    };
    let moving = change.stream.pending.iter_mut().chain(change.stream.canary.as_deref_mut());
    for head in moving.filter(|head| head.release.revision == revision) {
        head.release.approved = Some(word.clone());
    }
    let (from, to) = (format!("revision {revision} {status}"), format!("revision {revision} approved"));
    Ok(granted(change, asker, Some(revision), from, to))
}
