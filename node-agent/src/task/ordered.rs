//! The tasks that the store has for this node.

use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::record::task::Task;
use tidegate_proto::{Key, NodeId, Revision, TaskId, Value};
use tidegate_store::{Change, Entry, Seen};

#[derive(Debug)]
pub(super) struct Ordered {
    node: NodeId,
    /// With their mod_revisions.
    tasks: BTreeMap<TaskId, (Task, Revision)>,
    /// Those that are not for this agent any more.
    left: BTreeSet<TaskId>,
}

impl Ordered {
    pub(super) fn new(node: NodeId) -> Self {
        Self { node, tasks: BTreeMap::new(), left: BTreeSet::new() }
    }

    /// The task that waits longest, and its mod_revision.
    pub(super) fn oldest(&self) -> Option<(TaskId, Task, Revision)> {
        let waiting = self.tasks.iter().filter(|(id, _)| !self.left.contains(*id));
        let (id, (task, at)) = waiting.min_by_key(|(_, (_, at))| *at)?;
        Some((id.clone(), task.clone(), *at))
    }

    /// The task is not taken up again until it changes.
    pub(super) fn leave(&mut self, id: TaskId) {
        self.left.insert(id);
    }

    pub(super) fn take_in(&mut self, seen: Seen) {
        match seen {
            Seen::Listed(snapshot) => {
                let before = std::mem::take(&mut self.tasks);
                snapshot.entries.into_iter().for_each(|entry| self.put(entry));
                self.left.retain(|id| before.get(id).is_some_and(|old| self.tasks.get(id) == Some(old)));
            }
            Seen::Changed { changes, .. } => {
                for change in changes {
                    match change {
                        Change::Put(entry) => self.put(entry),
                        Change::Gone { key: Key::Task(_, id), .. } => {
                            self.tasks.remove(&id);
                            self.left.remove(&id);
                        }
                        Change::Gone { .. } | Change::Foreign { .. } => {}
                    }
                }
            }
            // Such as that it may not: the rest of the agent has a watch of its own.
            Seen::Lost { why, .. } => {
                tracing::warn!(%why, "cannot follow tasks/{}/; tries again, and everything else goes on", self.node)
            }
            _ => {}
        }
    }

    fn put(&mut self, entry: Entry) {
        let Key::Task(_, id) = &entry.key else { return };
        match entry.value {
            Ok(Value::Task(record)) if !record.is_newer() => {
                self.left.remove(id);
                self.tasks.insert(id.clone(), (record.body, entry.mod_revision));
            }
            Ok(_) => tracing::error!(task = %id, "a newer program ordered this task; it is left alone"),
            Err(error) => tracing::error!(task = %id, %error, "a task cannot be read; it is left alone"),
        }
    }
}
