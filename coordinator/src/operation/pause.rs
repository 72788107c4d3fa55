//! A person holds an upgrade where it stands.

use super::{OperationError, explaining, upgrade_id, wish};
use crate::room::Room;
use crate::seat::Seat;
use tidegate_planner::ask;
use tidegate_proto::wire::v1::{Done, PauseUpgradeRequest};

/// Pauses an upgrade: what is out comes back or finishes, nothing new begins.
pub async fn pause_upgrade(
    room: &Room,
    seat: &Seat,
    asked: PauseUpgradeRequest,
) -> Result<Done, OperationError> {
    let id = upgrade_id(&asked.id)?;
    let asker = explaining(&asked.who, &asked.why)?;
    let revision =
        wish::grant_on_any_store(room, seat, |fleet, moment| ask::pause(fleet, moment, &id, &asker)).await?;
    Ok(Done { what: format!("upgrade {id} is paused: nothing new begins"), revision: revision.0 })
}
