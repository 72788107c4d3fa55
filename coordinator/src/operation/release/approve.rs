//! A person lets a release go out that waits for them.

use super::super::{OperationError, mutation, remarking};
use super::{reply, revision, stream_name};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::wire::v1::{ApproveReleaseRequest, ReleaseReply};

pub async fn approve_release(
    context: &Context,
    leadership: &Leadership,
    asked: ApproveReleaseRequest,
) -> Result<ReleaseReply, OperationError> {
    let (stream, revision) = (stream_name(&asked.stream)?, revision(asked.revision)?);
    let asker = remarking(&asked.who, "note", &asked.note)?;
    let granted = mutation::asked_of_stream(context, leadership, |fleet, moment| {
        ask::release::approve(fleet, moment, &stream, revision, &asker)
    })
    .await?;
    reply(context, granted, format!("revision {revision} of {stream} is approved by {}", asker.who)).await
}
