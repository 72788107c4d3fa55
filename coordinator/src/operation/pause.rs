//! An operator pauses an upgrade in its phase.

use super::{OperationError, explaining, mutation, parse};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::UpgradeId;
use tidegate_proto::wire::v1::{Done, PauseUpgradeRequest};

/// Pauses an upgrade: what is out comes back or finishes, nothing new begins.
pub async fn pause_upgrade(
    context: &Context,
    leadership: &Leadership,
    asked: PauseUpgradeRequest,
) -> Result<Done, OperationError> {
    let id: UpgradeId = parse(&asked.id)?;
    let asker = explaining(&asked.who, &asked.why)?;
    let revision = mutation::apply_on_any_store(context, leadership, |fleet, moment| {
        ask::pause(fleet, moment, &id, &asker)
    })
    .await?;
    Ok(Done { what: format!("upgrade {id} is paused: nothing new begins"), revision: revision.0 })
}
