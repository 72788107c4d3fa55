//! Everything that happened to a group, in order.

use super::super::{OperationError, history::read, store_error};
use super::{find, parse};
use crate::context::Context;
use tidegate_proto::GroupName;
use tidegate_proto::key::{Kind, Subject};
use tidegate_proto::wire::v1::{Event, GroupHistoryRequest};
use tidegate_store::Scope;

/// Lists the events of a group, those that cannot be read among them.
pub async fn group_history(
    context: &Context,
    asked: &GroupHistoryRequest,
) -> Result<Vec<Event>, OperationError> {
    let group: GroupName = parse(&asked.group)?;
    let scope = Scope::Within(Kind::Event, Subject::Group(group.clone()).to_string());
    let found = context.store.list(&scope).await.map_err(store_error("list the events of the group"))?;
    // A group is made with an event. That is there also where this view is late.
    if found.entries.is_empty() {
        find(&context.mirror.view().fleet, &group)?;
    }
    Ok(found.entries.into_iter().map(read).collect())
}
