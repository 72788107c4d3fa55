//! Try a release again that failed, or whose image could not be removed.

use super::{Asked, find, find_head, granted};
use crate::ask::{Asker, Refusal};
use crate::fleet::Fleet;
use crate::moment::Moment;
use crate::stream::change::Change;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::stream::MAX_PENDING;
use tidegate_proto::{ReleaseRevision, StreamName};

/// A release in error waits again, unless a later one is deployed; failed hooks run again.
pub fn retry(
    fleet: &Fleet,
    moment: &Moment,
    name: &StreamName,
    revision: ReleaseRevision,
    asker: &Asker,
) -> Result<Asked, Refusal> {
    let stream = find(fleet, name)?;
    let head = find_head(stream, name, revision, "try again")?;
    let status = head.release.status;
    if let Some(deployed) = stream.deployed.as_ref().filter(|d| d.release.revision > revision)
        && status == ReleaseStatus::Error
    {
        return Err(Refusal::state(format!(
            "revision {} of {name} is deployed, and revisions only rise",
            deployed.release.revision
        )));
    }
    if status == ReleaseStatus::Error && stream.pending.len() >= MAX_PENDING {
        return Err(Refusal::state(format!("{MAX_PENDING} releases of {name} wait already")));
    }
    let mut change = Change::of(fleet, moment, name);
    match status {
        ReleaseStatus::Error => change.tried_again(revision).map_err(Refusal::state)?,
        ReleaseStatus::Deprecated => change.removed_again(revision),
        _ => {
            return Err(Refusal::state(format!(
                "revision {revision} of {name} is {status}: there is nothing to try again"
            )));
        }
    }
    let from = format!("revision {revision} {status}");
    Ok(granted(change, asker, Some(revision), from, format!("revision {revision} tried again")))
}
