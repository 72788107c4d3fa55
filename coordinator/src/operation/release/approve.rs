//! A person lets a release go out that waits for them.

use super::super::{OperationError, remarking, wish};
use super::{reply, revision, stream_name};
use crate::room::Room;
use crate::seat::Seat;
use tidegate_planner::ask;
use tidegate_proto::wire::v1::{ApproveReleaseRequest, ReleaseReply};

/// Approves a release.
pub async fn approve_release(
    room: &Room,
    seat: &Seat,
    asked: ApproveReleaseRequest,
) -> Result<ReleaseReply, OperationError> {
    let (stream, revision) = (stream_name(&asked.stream)?, revision(asked.revision)?);
    let asker = remarking(&asked.who, "note", &asked.note)?;
    let granted = wish::asked_of_stream(room, seat, |fleet, moment| {
        ask::release::approve(fleet, moment, &stream, revision, &asker)
    })
    .await?;
    reply(room, granted, format!("revision {revision} of {stream} is approved by {}", asker.who)).await
}
