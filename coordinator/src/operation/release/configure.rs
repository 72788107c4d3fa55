//! A person says how a stream is run.

use super::super::{OperationError, mutation, remarking};
use super::{body, reply, stream_name};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::record::stream::StreamSettings;
use tidegate_proto::wire::v1::{ConfigureStreamRequest, ReleaseReply};

/// Replaces a stream's settings.
pub async fn configure_stream(
    context: &Context,
    leadership: &Leadership,
    asked: ConfigureStreamRequest,
) -> Result<ReleaseReply, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let settings: StreamSettings = body("the settings", &asked.settings)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let granted = mutation::asked_of_stream(context, leadership, |fleet, moment| {
        ask::release::configure(fleet, moment, &stream, &settings, &asker)
    })
    .await?;
    reply(context, granted, format!("stream {stream} is run by these settings")).await
}
