//! A person says how a stream is run.

use super::super::{OperationError, remarking, wish};
use super::{body, reply, stream_name};
use crate::room::Room;
use crate::seat::Seat;
use tidegate_planner::ask;
use tidegate_proto::record::stream::StreamSettings;
use tidegate_proto::wire::v1::{ConfigureStreamRequest, ReleaseReply};

/// Replaces a stream's settings.
pub async fn configure_stream(
    room: &Room,
    seat: &Seat,
    asked: ConfigureStreamRequest,
) -> Result<ReleaseReply, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let settings: StreamSettings = body("the settings", &asked.settings)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let granted = wish::asked_of_stream(room, seat, |fleet, moment| {
        ask::release::configure(fleet, moment, &stream, &settings, &asker)
    })
    .await?;
    reply(room, granted, format!("stream {stream} is run by these settings")).await
}
