//! A person has a release tried once more.

use super::super::{OperationError, remarking, wish};
use super::{reply, revision, stream_name};
use crate::room::Room;
use crate::seat::Seat;
use tidegate_planner::ask;
use tidegate_proto::wire::v1::{ReleaseReply, RetryReleaseRequest};

/// Lets a release that failed wait again; hooks that failed are run anew.
pub async fn retry_release(
    room: &Room,
    seat: &Seat,
    asked: RetryReleaseRequest,
) -> Result<ReleaseReply, OperationError> {
    let (stream, revision) = (stream_name(&asked.stream)?, revision(asked.revision)?);
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let granted = wish::asked_of_stream(room, seat, |fleet, moment| {
        ask::release::retry(fleet, moment, &stream, revision, &asker)
    })
    .await?;
    reply(room, granted, format!("revision {revision} of {stream} is tried again")).await
}
