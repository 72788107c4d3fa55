//! Settle a task: a person declares that the process of a claimed task has ended, and how, where its agent cannot find
//! out.

use super::{Asker, Refusal, demand_why, with_event};
use crate::fleet::Fleet;
use crate::moment::Moment;
use crate::task::{TaskState, state};
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::task::{Ended, Settlement};
use tidegate_proto::{Key, NodeId, TaskId};

/// Records the outcome that an operator states; refused for a task that was not begun, and for one that has ended. It
/// compares what the agent has reported, so that an agent that finds out after all is first.
///
/// # Errors
/// A refusal that says what was found.
pub fn settle_task(
    fleet: &Fleet,
    moment: &Moment,
    (node, id): (&NodeId, &TaskId),
    ended: Ended,
    asker: &Asker,
) -> Result<Commit, Refusal> {
    demand_why(asker, "settling a task")?;
    let Some(task) = fleet.task(node, id) else {
        return Err(Refusal::not_found(format!(
            "there is no task {id} for {node}: `tidegate task list` shows those that there are"
        )));
    };
    let found = state(fleet, node, id);
    let Some(result) = fleet.task_result(node, id) else {
        return Err(Refusal::state(format!(
            "{id} has not started on {node}, so it has no outcome to settle. To stop waiting for that node, change the settings of stream {}",
            task.release.stream
        )));
    };
    if !found.is_open() {
        return Err(Refusal::state(format!("{id} on {node} has ended: it {}", found.word())));
    }
    let key = Key::Task(node.clone(), id.clone());
    let settled = Settlement { ended, who: asker.who.clone(), why: asker.why.clone(), at: moment.wall };
    let mut body = task.record.body.clone();
    body.settled = Some(settled);
    let subject = Subject::Stream(task.release.stream.clone());
    let was = match found {
        TaskState::Unknown(why) => format!("task {id} on {node} unknown ({why})"),
        other => format!("task {id} on {node} {}", other.word()),
    };
    Ok(with_event(moment, subject, asker, &was, &format!("task {id} on {node} settled as {ended}"))
        .when(Precondition::At(key.clone(), task.at))
        .when(Precondition::At(Key::TaskResult(node.clone(), id.clone()), result.at))
        .put(key, task.record.with(body)))
}
