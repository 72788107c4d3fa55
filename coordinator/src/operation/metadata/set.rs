//! A person, or CI, gives a group another document. Asked twice, it is given once.

use super::super::{OperationError, body, mutation, remarking};
use super::{parse, reply};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_proto::GroupName;
use tidegate_proto::metadata::{Pattern, UpdateRequest};
use tidegate_proto::wire::v1::{MetadataReply, SetMetadataRequest};

/// Sets the metadata of a group.
pub async fn set_metadata(
    context: &Context,
    leadership: &Leadership,
    asked: SetMetadataRequest,
) -> Result<MetadataReply, OperationError> {
    let group: GroupName = parse(&asked.group)?;
    let request: UpdateRequest = body::read("the update", &asked.body)?;
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let granted = mutation::settle_as_seen(context, leadership, |fleet, moment| {
        ask::metadata::set(fleet, moment, &group, &request, &asker)
    })
    .await?;
    let what = match (granted.0.commit.is_some(), request.pattern, granted.0.generation) {
        (true, Pattern::Immediate, Some(generation)) => {
            format!("generation {generation} of {group} is served to all")
        }
        (true, _, Some(generation)) => format!("generation {generation} of {group} is being exposed"),
        (_, _, Some(generation)) => format!("generation {generation} of {group} says the same already"),
        (_, _, None) => format!("{group} is as it was"),
    };
    Ok(reply(&group, granted, what))
}
