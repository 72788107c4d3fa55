//! Which release a compute starts with: answered from memory, by any coordinator, also while the store is away. The
//! answer may lag behind the last change by the delay of a watch; a change made through this coordinator is
//! acknowledged once this coordinator sees it.

use super::super::OperationError;
use super::{parse, stream_name, view};
use crate::context::Context;
use tidegate_planner::release::canary;
use tidegate_proto::ComputeId;
use tidegate_proto::wire::v1::StartComputeRequest;

/// Answers for one compute.
pub async fn start_compute(
    context: &Context,
    asked: &StartComputeRequest,
) -> Result<view::Start, OperationError> {
    started(context, asked)
}

/// The same at once, for the one route that is asked by the ten thousand a second.
pub fn started(context: &Context, asked: &StartComputeRequest) -> Result<view::Start, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let compute: ComputeId = parse(&asked.compute_id)?;
    let view = context.mirror.view();
    let found = view.fleet.stream(&stream).and_then(|found| canary::start(&stream, found, &compute));
    let start = found.ok_or_else(|| {
        OperationError::NotFound(format!(
            "nothing of {stream} is deployed yet, so {compute} has nothing to start with"
        ))
    })?;
    Ok(view::Start {
        revision: start.head.release.revision,
        version: start.head.release.version,
        tag: start.head.release.tag.clone(),
        because: start.by.word().to_owned(),
        compute_id: compute,
    })
}
