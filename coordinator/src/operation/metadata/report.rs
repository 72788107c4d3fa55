//! Records an instance's signal of success or failure. Each instance has its own key, so none waits for another.

use super::super::{OperationError, mutation, remarking};
use super::{parse, reply};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask::metadata::{self as ask, MetadataSignal};
use tidegate_proto::wire::v1::{MetadataReply, ReportMetadataRequest};
use tidegate_proto::{GroupName, MetadataGeneration, NodeId};

/// Keeps the word of an instance.
pub async fn report_metadata(
    context: &Context,
    leadership: &Leadership,
    asked: ReportMetadataRequest,
) -> Result<MetadataReply, OperationError> {
    let (group, node): (GroupName, NodeId) = (parse(&asked.group)?, parse(&asked.instance)?);
    let generation = match asked.generation {
        0 => None,
        number => Some(MetadataGeneration::new(number).map_err(|e| OperationError::BadInput(e.to_string()))?),
    };
    let failure = (!asked.failure.is_empty()).then(|| parse(&asked.failure)).transpose()?;
    let signal = MetadataSignal { generation, success: asked.success, failure };
    let asker = remarking(&asked.who, "why", &asked.why)?;
    let granted = mutation::settle_as_seen(context, leadership, |fleet, moment| {
        ask::signal(fleet, moment, &group, &node, &signal, &asker)
    })
    .await?;
    let reported = if asked.success { "success" } else { "failure" };
    Ok(reply(&group, granted, format!("{node} signalled {reported} for the document of {group}")))
}
