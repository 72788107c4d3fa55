//! A person lets a phase begin.

use super::{OperationError, remarking, said, upgrade_id, wish};
use crate::room::Room;
use crate::seat::Seat;
use tidegate_planner::ask::{self, Asker};
use tidegate_proto::spec::{ApprovalPoint, NotAnApprovalPoint};
use tidegate_proto::wire::v1::{ApproveUpgradeRequest, Done};

/// Approves a phase that waits for a person.
pub async fn approve_upgrade(
    room: &Room,
    seat: &Seat,
    asked: ApproveUpgradeRequest,
) -> Result<Done, OperationError> {
    let id = upgrade_id(&asked.id)?;
    let point: ApprovalPoint =
        asked.phase.parse().map_err(|e: NotAnApprovalPoint| OperationError::BadInput(e.to_string()))?;
    let accepts = asked.accepts.iter().map(|part| said("accept", part)).collect::<Result<_, _>>()?;
    let asker = Asker { accepts, ..remarking(&asked.who, "note", &asked.note)? };
    let revision =
        wish::grant(room, seat, |fleet, moment| ask::approve(fleet, moment, &id, point, &asker)).await?;
    Ok(Done { what: format!("upgrade {id}: {point} is approved by {}", asker.who), revision: revision.0 })
}
