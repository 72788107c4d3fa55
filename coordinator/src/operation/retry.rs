//! A person has an instance that failed tried again.

use super::{OperationError, mutation, parse, remarking};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::wire::v1::{Done, RetryInstanceRequest};
use tidegate_proto::{NodeId, UpgradeId};

/// Has an instance that failed tried once more, under a new directive.
pub async fn retry_instance(
    context: &Context,
    leadership: &Leadership,
    asked: RetryInstanceRequest,
) -> Result<Done, OperationError> {
    let id: UpgradeId = parse(&asked.id)?;
    let node: NodeId = parse(&asked.node)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let ask = if asked.declare_stopped { ask::retry_stopped } else { ask::retry };
    let revision =
        mutation::apply(context, leadership, |fleet, moment| ask(fleet, moment, &id, &node, &asker)).await?;
    let declared = if asked.declare_stopped { ", declared stopped" } else { "" };
    let what = format!("upgrade {id}: {node} is retried{declared}");
    Ok(Done { what, revision: revision.0 })
}
