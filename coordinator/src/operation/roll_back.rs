//! A person turns an upgrade back.

use super::{OperationError, explaining, mutation, parse};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::UpgradeId;
use tidegate_proto::wire::v1::{Done, RollBackUpgradeRequest};

/// Rolls an upgrade back, from its phase.
pub async fn roll_back_upgrade(
    context: &Context,
    leadership: &Leadership,
    asked: RollBackUpgradeRequest,
) -> Result<Done, OperationError> {
    let id: UpgradeId = parse(&asked.id)?;
    let asker = explaining(&asked.who, &asked.why)?;
    let revision = mutation::apply_on_any_store(context, leadership, |fleet, moment| {
        ask::roll_back(fleet, moment, &id, &asker)
    })
    .await?;
    Ok(Done { what: format!("upgrade {id} is being rolled back"), revision: revision.0 })
}
