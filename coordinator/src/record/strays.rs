//! Results that belong to no task: a node's user may write any number of them below `results/<node>/`. No fleet keeps
//! them; the leader removes them from the store, by a task of its own, and names their nodes.

use crate::leadership::Leadership;
use crate::report::Mirror;
use crate::telemetry::Chain;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::commit::Precondition;
use tidegate_proto::key::Kind;
use tidegate_proto::{Commit, Key, NodeId, Revision, TaskId};
use tidegate_store::{CommitError, Reader, Scope, StoreError};

/// Between two looks: a node whose user goes on writing them is named once in this time.
const EVERY: Duration = Duration::from_secs(5);

/// How many results one transaction removes; each has a precondition of its own.
const AT_ONCE: usize = 60;

/// Why results were not removed; the next look is the retry.
#[derive(Debug, thiserror::Error)]
pub enum NotSwept {
    /// Their keys could not be read.
    #[error(transparent)]
    Unread(#[from] StoreError),
    /// They could not be removed.
    #[error(transparent)]
    Uncommitted(#[from] CommitError),
}

/// Looks after them for a leader, until it is dropped: once at first, then whenever another one was seen.
pub async fn look_after(store: Reader, mirror: Arc<Mirror>, leadership: Arc<Leadership>) {
    let (mut sync_status, mut swept) = (mirror.sync_status(), None);
    loop {
        let seen = mirror.view().fleet.strays();
        if swept != Some(seen) {
            match sweep(&store, &leadership).await {
                Ok(removed) => {
                    swept = Some(seen);
                    for (node, count) in removed {
                        tracing::warn!(%node, count, "results of tasks that do not exist were removed: look at what writes below results/ with this node's user");
                    }
                }
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "results of tasks that do not exist were not removed; tries again");
                }
            }
        }
        tokio::time::sleep(EVERY).await;
        if sync_status.changed().await.is_err() {
            return;
        }
    }
}

/// Removes every result that belongs to no task; returns how many per node.
///
/// # Errors
/// [`NotSwept`]; what was removed until then stays removed.
pub async fn sweep(store: &Reader, leadership: &Leadership) -> Result<BTreeMap<NodeId, usize>, NotSwept> {
    let results = store.keys(&Scope::Kind(Kind::TaskResult)).await?;
    let tasks: BTreeSet<Key> = store.keys(&Scope::Kind(Kind::Task)).await?.into_iter().collect();
    let mut removed = BTreeMap::new();
    let strays: Vec<(NodeId, TaskId)> = results
        .into_iter()
        .filter_map(|key| match key {
            Key::TaskResult(node, id) => Some((node, id)),
            _ => None,
        })
        .filter(|(node, id)| !tasks.contains(&Key::Task(node.clone(), id.clone())))
        .collect();
    for some in strays.chunks(AT_ONCE) {
        let commit = some.iter().fold(Commit::new(), |commit, (node, id)| {
            // One that was ordered meanwhile may have a result by now.
            let task = Key::Task(node.clone(), id.clone());
            commit
                .when(Precondition::At(task, Revision::ABSENT))
                .delete(Key::TaskResult(node.clone(), id.clone()))
        });
        leadership.commit(&commit).await?;
        some.iter().for_each(|(node, _)| *removed.entry(node.clone()).or_default() += 1);
    }
    Ok(removed)
}
