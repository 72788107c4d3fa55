//! Everything that happened to a stream, in order.

use super::super::{OperationError, history::read, store_error};
use super::{find, stream_name};
use crate::context::Context;
use tidegate_proto::key::{Kind, Subject};
use tidegate_proto::wire::v1::{Event, StreamHistoryRequest};
use tidegate_store::Scope;

/// Lists the events of a stream, those that cannot be read among them.
pub async fn stream_history(
    context: &Context,
    asked: &StreamHistoryRequest,
) -> Result<Vec<Event>, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let scope = Scope::Within(Kind::Event, Subject::Stream(stream.clone()).to_string());
    let found = context.store.list(&scope).await.map_err(store_error("list the events of the stream"))?;
    // A stream is made with an event. That is there also where this view is late.
    if found.entries.is_empty() {
        find(&context.mirror.view().fleet, &stream)?;
    }
    Ok(found.entries.into_iter().map(read).collect())
}
