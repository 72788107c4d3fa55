//! A person gives a compute a release of its own, or takes it back.

use super::super::{OperationError, explaining, mutation, remarking};
use super::{parse, reply, revision, stream_name};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::ComputeId;
use tidegate_proto::wire::v1::{PinComputeRequest, ReleaseReply, UnpinComputeRequest};

pub async fn pin_compute(
    context: &Context,
    leadership: &Leadership,
    asked: PinComputeRequest,
) -> Result<ReleaseReply, OperationError> {
    let (stream, revision) = (stream_name(&asked.stream)?, revision(asked.revision)?);
    let compute: ComputeId = parse(&asked.compute)?;
    let asker = explaining(&asked.who, &asked.why)?;
    let granted = mutation::asked_of_stream(context, leadership, |fleet, moment| {
        ask::release::pin(fleet, moment, &stream, &compute, revision, &asker)
    })
    .await?;
    reply(context, granted, format!("{compute} starts with revision {revision} of {stream}")).await
}

/// Lets a compute go.
pub async fn unpin_compute(
    context: &Context,
    leadership: &Leadership,
    asked: UnpinComputeRequest,
) -> Result<ReleaseReply, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let compute: ComputeId = parse(&asked.compute)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let granted = mutation::asked_of_stream(context, leadership, |fleet, moment| {
        ask::release::unpin(fleet, moment, &stream, &compute, &asker)
    })
    .await?;
    reply(context, granted, format!("{compute} starts with what others start with")).await
}
