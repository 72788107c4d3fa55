//! Lists the groups, and shows the state of one.

use super::super::OperationError;
use super::{find, parse, view};
use crate::context::Context;
use tidegate_proto::GroupName;
use tidegate_proto::wire::v1::{ListGroupsRequest, ShowGroupRequest};

/// Every group, by name.
pub async fn list_groups(
    context: &Context,
    _: &ListGroupsRequest,
) -> Result<Vec<view::Group>, OperationError> {
    let view = context.mirror.view();
    let fleet = &view.fleet;
    Ok(fleet.groups().map(|(name, group)| view::Group::of(fleet, name, group)).collect())
}

pub async fn show_group(context: &Context, asked: &ShowGroupRequest) -> Result<view::Group, OperationError> {
    let name: GroupName = parse(&asked.group)?;
    let view = context.mirror.view();
    Ok(view::Group::of(&view.fleet, &name, find(&view.fleet, &name)?))
}
