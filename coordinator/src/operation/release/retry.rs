//! A person has a release tried once more.

use super::super::{OperationError, mutation, remarking};
use super::{reply, revision, stream_name};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::wire::v1::{ReleaseReply, RetryReleaseRequest};

/// Resets a failed release to waiting; failed hooks run again.
pub async fn retry_release(
    context: &Context,
    leadership: &Leadership,
    asked: RetryReleaseRequest,
) -> Result<ReleaseReply, OperationError> {
    let (stream, revision) = (stream_name(&asked.stream)?, revision(asked.revision)?);
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let granted = mutation::asked_of_stream(context, leadership, |fleet, moment| {
        ask::release::retry(fleet, moment, &stream, revision, &asker)
    })
    .await?;
    reply(context, granted, format!("revision {revision} of {stream} is tried again")).await
}
