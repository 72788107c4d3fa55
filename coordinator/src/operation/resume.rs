//! A person lets a paused upgrade go on.

use super::{OperationError, mutation, parse, remarking};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::UpgradeId;
use tidegate_proto::wire::v1::{Done, ResumeUpgradeRequest};

/// Resumes a paused upgrade.
pub async fn resume_upgrade(
    context: &Context,
    leadership: &Leadership,
    asked: ResumeUpgradeRequest,
) -> Result<Done, OperationError> {
    let id: UpgradeId = parse(&asked.id)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let revision =
        mutation::apply(context, leadership, |fleet, moment| ask::resume(fleet, moment, &id, &asker)).await?;
    Ok(Done { what: format!("upgrade {id} goes on"), revision: revision.0 })
}
