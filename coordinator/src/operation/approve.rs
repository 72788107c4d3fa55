//! A person lets a phase begin.

use super::{OperationError, mutation, parse, remarking, said};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask::{self, Asker};
use tidegate_proto::UpgradeId;
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::wire::v1::{ApproveUpgradeRequest, Done};

/// Approves a phase that waits for a person.
pub async fn approve_upgrade(
    context: &Context,
    leadership: &Leadership,
    asked: ApproveUpgradeRequest,
) -> Result<Done, OperationError> {
    let id: UpgradeId = parse(&asked.id)?;
    let point: ApprovalPoint = parse(&asked.phase)?;
    let accepts = asked.accepts.iter().map(|part| said("accept", part)).collect::<Result<_, _>>()?;
    let asker = Asker { accepts, ..remarking(&asked.who, "note", &asked.note)? };
    let revision =
        mutation::apply(context, leadership, |fleet, moment| ask::approve(fleet, moment, &id, point, &asker))
            .await?;
    Ok(Done { what: format!("upgrade {id}: {point} is approved by {}", asker.who), revision: revision.0 })
}
