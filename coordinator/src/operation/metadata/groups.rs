//! Which groups there are, and how one stands.

use super::super::OperationError;
use super::{find, parse, view};
use crate::room::Room;
use tidegate_proto::GroupName;
use tidegate_proto::wire::v1::{ListGroupsRequest, ShowGroupRequest};

/// Every group, by name.
pub async fn list_groups(room: &Room, _: &ListGroupsRequest) -> Result<Vec<view::Group>, OperationError> {
    let picture = room.mirror.picture();
    let fleet = &picture.fleet;
    Ok(fleet.groups().map(|(name, group)| view::Group::of(fleet, name, group)).collect())
}

/// One group.
pub async fn show_group(room: &Room, asked: &ShowGroupRequest) -> Result<view::Group, OperationError> {
    let name: GroupName = parse(&asked.group)?;
    let picture = room.mirror.picture();
    Ok(view::Group::of(&picture.fleet, &name, find(&picture.fleet, &name)?))
}
