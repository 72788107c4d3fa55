//! Hooks that were ordered on nodes: their outcome, and a declaration by a person where their agents cannot find out.

use super::{OperationError, explaining, mutation, parse, parse_given};
use crate::context::Context;
use crate::leadership::Leadership;
use tidegate_planner::ask;
use tidegate_planner::task::{TaskState, state};
use tidegate_planner::{Fleet, Stored};
use tidegate_proto::record::task::{Ended, Task};
use tidegate_proto::wire::v1::{self, Done, ListTasksRequest, SettleTaskRequest};
use tidegate_proto::{NodeId, TaskId};

/// Every task that is kept, by node: those that wait, run, or whose outcome is still asked for.
pub async fn list_tasks(
    context: &Context,
    asked: &ListTasksRequest,
) -> Result<Vec<v1::Task>, OperationError> {
    let node: Option<NodeId> = parse_given(&asked.node)?;
    let id: Option<TaskId> = parse_given(&asked.task)?;
    let view = context.mirror.view();
    let fleet = &view.fleet;
    let meant = |of: &NodeId, task: &TaskId| {
        node.as_ref().is_none_or(|node| node == of) && id.as_ref().is_none_or(|id| id == task)
    };
    let found = fleet.tasks().filter(|(of, task, _)| meant(of, task));
    let found: Vec<v1::Task> = found.map(|(node, id, task)| seen(fleet, node, id, task)).collect();
    match (found.is_empty(), &node, &id) {
        (true, Some(node), Some(id)) => Err(OperationError::NotFound(format!(
            "there is no task {id} for {node}: `tidegate task list` shows those that there are"
        ))),
        _ => Ok(found),
    }
}

/// Records how a task ended where its agent cannot report it.
pub async fn settle_task(
    context: &Context,
    leadership: &Leadership,
    asked: SettleTaskRequest,
) -> Result<Done, OperationError> {
    let (node, id): (NodeId, TaskId) = (parse(&asked.node)?, parse(&asked.task)?);
    let ended: Ended = parse(&asked.outcome)?;
    let asker = explaining(&asked.who, &asked.why)?;
    let revision = mutation::apply(context, leadership, |fleet, moment| {
        ask::settle_task(fleet, moment, (&node, &id), ended, &asker)
    })
    .await?;
    Ok(Done { what: format!("task {id} on {node} counts as {ended}"), revision: revision.0 })
}

fn seen(fleet: &Fleet, node: &NodeId, id: &TaskId, task: &Stored<Task>) -> v1::Task {
    let (state, result) = (state(fleet, node, id), fleet.task_result(node, id));
    let why = match &state {
        TaskState::Failed(why) | TaskState::Unknown(why) => Some(why.clone()),
        TaskState::Untaken | TaskState::Claimed | TaskState::Succeeded => None,
    };
    // The records' own times; the `at` beside them is their mod_revision.
    let (task, result) = (&task.record.body, result.map(|result| &result.record.body));
    let claimed_by = result.and_then(|result| result.by.as_ref()).map(|by| by.nonce.clone());
    let settled = task.settled.as_ref().map(|word| v1::Settled {
        outcome: word.ended.to_string(),
        who: word.who.clone(),
        why: word.why.clone(),
        at: word.at.0,
    });
    v1::Task {
        node: node.to_string(),
        id: id.to_string(),
        hook: task.hook.to_string(),
        stream: task.release.stream.to_string(),
        revision: task.release.revision.get(),
        tag: task.release.tag.to_string(),
        ordered_at: task.at.0,
        state: state.word().to_owned(),
        why,
        reported_at: result.map(|result| result.at.0),
        claimed_by,
        output: result.map(|result| result.output.clone()).unwrap_or_default(),
        settled,
    }
}
