//! A person calls an update off.

use super::super::{OperationError, explaining, mutation};
use super::{parse, reply};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::GroupName;
use tidegate_proto::wire::v1::{CancelMetadataRequest, MetadataReply};

/// Returns all to the former document.
pub async fn cancel_metadata(
    context: &Context,
    leadership: &Leadership,
    asked: CancelMetadataRequest,
) -> Result<MetadataReply, OperationError> {
    let group: GroupName = parse(&asked.group)?;
    let asker = explaining(&asked.who, &asked.why)?;
    let granted = mutation::settle_as_seen(context, leadership, |fleet, moment| {
        ask::metadata::cancel(fleet, moment, &group, &asker)
    })
    .await?;
    let what = match granted.0.commit.is_some() {
        true => format!("the update of {group} is called off: all are back at the former document"),
        false => format!("no update of {group} runs"),
    };
    Ok(reply(&group, granted, what))
}
