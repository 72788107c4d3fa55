//! Why an upgrade does not move: what it waits for, who can end the wait, which command helps.

use super::{OperationError, answer, find, upgrade_id};
use crate::room::Room;
use tidegate_proto::wire::v1::{ExplainUpgradeReply, ExplainUpgradeRequest};

/// Explains what an upgrade waits for.
pub fn explain(room: &Room, asked: &ExplainUpgradeRequest) -> Result<ExplainUpgradeReply, OperationError> {
    let id = upgrade_id(&asked.id)?;
    let trouble = room.trouble();
    let picture = room.mirror.picture();
    let upgrade = find(&picture.fleet, &id)?;
    let waiting = picture.waiting.get(&id).map(|stored| stored.record.body.clone());
    Ok(ExplainUpgradeReply {
        upgrade: Some(answer::summary(&picture.fleet, &id, upgrade)),
        at: waiting.as_ref().map(|waiting| waiting.at.0),
        more: waiting.as_ref().map_or(0, |waiting| waiting.more),
        reasons: waiting
            .map(|waiting| waiting.reasons.into_iter().map(Into::into).collect())
            .unwrap_or_default(),
        trouble: trouble.filter(|_| !upgrade.phase.is_over()),
    })
}
