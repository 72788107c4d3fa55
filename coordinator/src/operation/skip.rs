//! An operator skips an instance of a wave.

use super::{OperationError, explaining, mutation, parse};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::wire::v1::{Done, SkipInstanceRequest};
use tidegate_proto::{NodeId, UpgradeId};

/// Skips an instance of its wave; never of remove or contract.
pub async fn skip_instance(
    context: &Context,
    leadership: &Leadership,
    asked: SkipInstanceRequest,
) -> Result<Done, OperationError> {
    let id: UpgradeId = parse(&asked.id)?;
    let node: NodeId = parse(&asked.node)?;
    let asker = explaining(&asked.who, &asked.why)?;
    let revision =
        mutation::apply(context, leadership, |fleet, moment| ask::skip(fleet, moment, &id, &node, &asker))
            .await?;
    let what = format!("upgrade {id}: {node} is skipped in its wave; it still blocks remove and contract");
    Ok(Done { what, revision: revision.0 })
}
