//! Everything that happened to a group, in order.

use super::super::{OperationError, history::read, store_error};
use super::parse;
use crate::context::Context;
use tidegate_proto::key::{Kind, Subject};
use tidegate_proto::wire::v1::{Event, GroupHistoryRequest};
use tidegate_store::Scope;

/// Lists the events of a group, those that cannot be read among them.
pub async fn group_history(
    context: &Context,
    asked: &GroupHistoryRequest,
) -> Result<Vec<Event>, OperationError> {
    let group = parse(&asked.group)?;
    let scope = Scope::Within(Kind::Event, Subject::Group(group).to_string());
    let found = context.store.list(&scope).await.map_err(store_error("list the events of the group"))?;
    Ok(found.entries.into_iter().map(read).collect())
}
