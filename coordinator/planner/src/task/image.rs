//! Hooks for the image of a tag, of every release of its stream that has this tag.

use super::{Purpose, TaskState, state};
use crate::fleet::{Fleet, Stored};
use tidegate_proto::record::task::Task;
use tidegate_proto::{NodeId, ReleaseTag, StreamName, TaskId};

/// A hook that was ordered on a node for the image of a tag.
pub(crate) struct ImageHook<'a> {
    pub(crate) node: &'a NodeId,
    pub(crate) id: &'a TaskId,
    pub(crate) task: &'a Stored<Task>,
    pub(crate) state: TaskState,
}

impl ImageHook<'_> {
    fn is_for(&self, purpose: Purpose) -> bool {
        Purpose::of(self.id) == Some(purpose)
    }
}

fn hooks<'a>(
    fleet: &'a Fleet,
    stream: &'a StreamName,
    tag: &'a ReleaseTag,
) -> impl Iterator<Item = ImageHook<'a>> {
    let of = move |task: &Task| task.release.stream == *stream && task.release.tag == *tag;
    let tasks = fleet.tasks().filter(move |(.., task)| of(task));
    tasks.map(|(node, id, task)| ImageHook { node, id, task, state: state(fleet, node, id) })
}

/// A hook for the same image that is open on that node under another name: nothing is run beside it.
pub(crate) fn open_on<'a>(
    fleet: &'a Fleet,
    node: &NodeId,
    stream: &'a StreamName,
    tag: &'a ReleaseTag,
    id: &TaskId,
) -> Option<ImageHook<'a>> {
    hooks(fleet, stream, tag).find(|hook| hook.state.is_open() && hook.node == node && hook.id != id)
}

/// Whether a hook for the image with this purpose is open on any node.
pub(crate) fn is_open(fleet: &Fleet, stream: &StreamName, purpose: Purpose, tag: &ReleaseTag) -> bool {
    hooks(fleet, stream, tag).any(|hook| hook.state.is_open() && hook.is_for(purpose))
}

/// Every removal of the image.
pub(crate) fn removals<'a>(
    fleet: &'a Fleet,
    stream: &'a StreamName,
    tag: &'a ReleaseTag,
) -> impl Iterator<Item = ImageHook<'a>> {
    hooks(fleet, stream, tag).filter(|hook| hook.is_for(Purpose::Removal))
}
