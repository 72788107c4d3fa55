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
                self.tasks.clear();
                // A store that was restored may have the same tasks without their results: each is looked at again.
                self.left.clear();
                snapshot.entries.into_iter().for_each(|entry| self.put(entry));
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
            // A store that was restored to after the last order sends no listing, because it has all that was sent of these
            // keys. It may have lost results nevertheless, which are under others: each task is looked at again.
            Seen::Regained => self.left.clear(),
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

/// Whether no hook may begin for a task: it was removed, or a person has stated how it ended.
pub(super) fn is_over(found: Option<&Entry>) -> bool {
    match found.map(|entry| &entry.value) {
        None => true,
        Some(Ok(Value::Task(task))) => task.body.settled.is_some(),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_proto::Record;
    use tidegate_proto::record::Timestamp;
    use tidegate_proto::record::task::TaskRelease;
    use tidegate_store::Snapshot;

    /// A node that has one task, and what a watch lists of it.
    fn with_a_task() -> (NodeId, TaskId, Seen) {
        let (node, id): (NodeId, TaskId) = ("n1".parse().unwrap(), "prewarm-1".parse().unwrap());
        let release = TaskRelease {
            stream: "compute".parse().unwrap(),
            revision: "7".parse().unwrap(),
            tag: "release-7".parse().unwrap(),
        };
        let task = Task { hook: "pull".parse().unwrap(), release, at: Timestamp(7), settled: None };
        let entry = Entry {
            key: Key::Task(node.clone(), id.clone()),
            value: Ok(Value::Task(Record::new(task))),
            bytes_len: 0,
            mod_revision: Revision(5),
            create_revision: Revision(5),
            lease: 0,
        };
        (node, id, Seen::Listed(Snapshot { entries: vec![entry], ..Snapshot::default() }))
    }

    #[test]
    fn tasks_that_were_left_are_looked_at_again_in_each_listing() {
        let (node, id, listed) = with_a_task();
        let mut ordered = Ordered::new(node);
        ordered.take_in(listed.clone());
        ordered.leave(id.clone());
        assert_eq!(ordered.oldest(), None);
        ordered.take_in(listed);
        assert_eq!(ordered.oldest().map(|(id, _, _)| id), Some(id));
    }

    #[test]
    fn left_task_is_looked_at_again_once_the_store_is_back() {
        let (node, id, listed) = with_a_task();
        let mut ordered = Ordered::new(node);
        ordered.take_in(listed);
        ordered.leave(id.clone());
        let lost = Seen::Lost { since: tokio::time::Instant::now(), why: "cut off".into() };
        for (seen, expected) in
            [(Seen::Progress { revision: Revision(9) }, None), (lost, None), (Seen::Regained, Some(id))]
        {
            ordered.take_in(seen.clone());
            assert_eq!(ordered.oldest().map(|(id, _, _)| id), expected, "after {seen:?}");
        }
    }
}
