//! Why an update does not move: who has not told yet, what happens by itself.

use super::super::{OperationError, unreadable, wish};
use super::parse;
use crate::room::Room;
use crate::seat::Seat;
use tidegate_planner::ask;
use tidegate_planner::reason::Waits;
use tidegate_proto::key::Subject;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::wire::v1::ExplainGroupRequest;
use tidegate_proto::{GroupName, Key};

/// Explains; the leader answers, because it counts the time. Nothing = no update runs, or it is about to move.
pub async fn explain_group(
    room: &Room,
    seat: &Seat,
    asked: &ExplainGroupRequest,
) -> Result<Vec<WaitingFor>, OperationError> {
    let group: GroupName = parse(&asked.group)?;
    let records = [Key::Group(group.clone()), Key::Members(group.clone())];
    unreadable::refuse(room, &format!("metadata group {group} does not move"), &records)?;
    let picture = room.mirror.picture();
    let fleet = &picture.fleet;
    let reasons = seat.plan(&picture, |moment| ask::metadata::explain(fleet, moment, &group), |_| 0);
    let reasons = reasons.map_err(wish::refused)?;
    let refused = seat.refused(&Subject::Group(group.clone()));
    Ok(reasons.iter().chain(&refused).map(|reason| reason.explained(Waits::Group(&group))).collect())
}
