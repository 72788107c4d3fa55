//! A person lets a paused upgrade go on.

use super::{OperationError, remarking, upgrade_id, wish};
use crate::room::Room;
use crate::seat::Seat;
use tidegate_planner::ask;
use tidegate_proto::wire::v1::{Done, ResumeUpgradeRequest};

/// Resumes a paused upgrade.
pub async fn resume_upgrade(
    room: &Room,
    seat: &Seat,
    asked: ResumeUpgradeRequest,
) -> Result<Done, OperationError> {
    let id = upgrade_id(&asked.id)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let revision = wish::grant(room, seat, |fleet, moment| ask::resume(fleet, moment, &id, &asker)).await?;
    Ok(Done { what: format!("upgrade {id} goes on"), revision: revision.0 })
}
