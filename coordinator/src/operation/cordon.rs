//! A person keeps a node out of rotation and out of upgrades, and lets it back.

use super::{OperationError, explaining, mutation, parse, remarking};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::NodeId;
use tidegate_proto::wire::v1::{CordonNodeRequest, Done, UncordonNodeRequest};

/// Keeps a node out.
pub async fn cordon_node(
    context: &Context,
    leadership: &Leadership,
    asked: CordonNodeRequest,
) -> Result<Done, OperationError> {
    let node: NodeId = parse(&asked.node)?;
    let asker = explaining(&asked.who, &asked.why)?;
    let revision = mutation::apply_on_any_store(context, leadership, |fleet, moment| {
        ask::cordon(fleet, moment, &node, &asker)
    })
    .await?;
    Ok(Done {
        what: format!("{node} is cordoned: upgrades leave it alone and count it as out"),
        revision: revision.0,
    })
}

/// Lets a node back.
pub async fn uncordon_node(
    context: &Context,
    leadership: &Leadership,
    asked: UncordonNodeRequest,
) -> Result<Done, OperationError> {
    let node: NodeId = parse(&asked.node)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let revision =
        mutation::apply(context, leadership, |fleet, moment| ask::uncordon(fleet, moment, &node, &asker))
            .await?;
    Ok(Done { what: format!("{node} takes part again"), revision: revision.0 })
}
