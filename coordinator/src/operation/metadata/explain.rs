//! Why an update does not move: which instances have not signalled yet, what happens without an operator.

use super::super::{OperationError, mutation, unreadable};
use super::parse;
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_planner::gate::Waits;
use tidegate_proto::key::Subject;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::wire::v1::ExplainGroupRequest;
use tidegate_proto::{GroupName, Key};

/// Explains; the leader answers, because it counts the time. Nothing = no update runs, or it is about to move.
pub async fn explain_group(
    context: &Context,
    leadership: &Leadership,
    asked: &ExplainGroupRequest,
) -> Result<Vec<WaitingFor>, OperationError> {
    let group: GroupName = parse(&asked.group)?;
    let records = [Key::Group(group.clone()), Key::Members(group.clone())];
    unreadable::refuse(context, &format!("metadata group {group} does not move"), &records)?;
    let view = context.mirror.view();
    let fleet = &view.fleet;
    let reasons = leadership.plan(&view, |moment| ask::metadata::explain(fleet, moment, &group), |_| 0);
    let reasons = reasons.map_err(mutation::refused)?;
    let refused = leadership.refused(&Subject::Group(group.clone()));
    Ok(reasons.iter().chain(&refused).map(|reason| reason.explained(Waits::Group(&group))).collect())
}
