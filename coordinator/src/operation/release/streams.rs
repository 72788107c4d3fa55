//! Lists the streams, and shows the state of one.

use super::super::OperationError;
use super::{find, stream_name, view};
use crate::context::Context;
use tidegate_proto::wire::v1::{ListStreamsRequest, ShowStreamRequest};

/// Every stream, by name.
pub async fn list_streams(
    context: &Context,
    _: &ListStreamsRequest,
) -> Result<Vec<view::Stream>, OperationError> {
    let view = context.mirror.view();
    let fleet = &view.fleet;
    Ok(fleet.streams().map(|(name, stream)| view::Stream::of(fleet, name, stream)).collect())
}

pub async fn show_stream(
    context: &Context,
    asked: &ShowStreamRequest,
) -> Result<view::Stream, OperationError> {
    let name = stream_name(&asked.stream)?;
    let view = context.mirror.view();
    let stream = find(&view.fleet, &name)?;
    Ok(view::Stream::of(&view.fleet, &name, stream))
}
