//! A person turns an upgrade back.

use super::{OperationError, explaining, upgrade_id, wish};
use crate::room::Room;
use crate::seat::Seat;
use tidegate_planner::ask;
use tidegate_proto::wire::v1::{Done, RollBackUpgradeRequest};

/// Rolls an upgrade back, from where it stands.
pub async fn roll_back_upgrade(
    room: &Room,
    seat: &Seat,
    asked: RollBackUpgradeRequest,
) -> Result<Done, OperationError> {
    let id = upgrade_id(&asked.id)?;
    let asker = explaining(&asked.who, &asked.why)?;
    let revision =
        wish::grant_on_any_store(room, seat, |fleet, moment| ask::roll_back(fleet, moment, &id, &asker))
            .await?;
    Ok(Done { what: format!("upgrade {id} is being rolled back"), revision: revision.0 })
}
