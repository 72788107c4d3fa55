//! Tasks: named one-shot hooks that a coordinator orders on this node, such as one that warms up a compute release. The record
//! names a hook that this node's configuration defines; nothing else is ever run.
//!
//! ```text
//!            claimed by a transaction       its runner has begun        outcome found
//!   taking ────────────────────────► begun ───────────────────► (runs) ──────────────► ended ──► reported, forgotten
//! ```
//!
//! # Invariants
//! * A hook runs at most once for a task: each step is journalled before the next, and an agent that starts again asks the
//!   journal, the runner and what it left, in that order. If none of them knows, the outcome is reported as unknown, and a
//!   person settles it.
//! * No hook begins once its task was settled or removed.
//! * One runs at a time. It continues when the agent ends: its own runner waits for it and keeps its outcome.
//! * A claim by another agent is left alone. Only the agent that reports the services of the node claims.

pub mod ledger;
mod ordered;
mod reports;
pub mod run;

use crate::config::settings::Node;
use crate::config::task_hook::{OURS, TaskHook};
use crate::file_error::FileError;
use crate::host::{Host, RunState, TaskEnd, TaskRuns};
use crate::link::Link;
use crate::pair::state::{StateError, StateFile};
use ledger::{Active, Ledger, Stage};
use ordered::Ordered;
use std::collections::BTreeMap;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Kind;
use tidegate_proto::record::report::Identity;
use tidegate_proto::record::task::{Outcome, Task, TaskResult};
use tidegate_proto::{Chain, HookName, Key, NodeId, Revision, TaskId, Value};
use tidegate_store::{CommitError, Entry, Scope, Store, StoreError};
use tokio_util::sync::CancellationToken;

/// Between two attempts at what the store did not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How often a running hook is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How often a runner is started that ends before its hook has begun.
const STARTS: u32 = 3;

/// Whether the next step follows at once; else after how long, or none: when a task is ordered.
type Step = ControlFlow<Option<Duration>>;

#[derive(Debug, thiserror::Error)]
enum TaskError {
    #[error("could not read from the store")]
    Store(#[from] StoreError),
    #[error("could not write to the store")]
    Commit(#[from] CommitError),
    #[error("could not journal a task")]
    Journal(#[from] StateError),
    #[error("{0} is absent or another agent's: only the agent that reports a node claims its tasks")]
    NotReported(Box<Key>),
}

/// Runs the tasks of this node, one after the other.
pub struct Worker {
    node: NodeId,
    identity: Identity,
    hooks: BTreeMap<HookName, TaskHook>,
    file: StateFile<Ledger>,
    ledger: Ledger,
    runs: Arc<dyn TaskRuns>,
    ordered: Ordered,
    reports: Vec<Key>,
    starts: u32,
    /// As it was logged.
    last_error: Option<String>,
}

impl Worker {
    /// One that takes up what is journalled below the agent's state directory.
    ///
    /// # Errors
    /// `StateError`, if that cannot be read: then it is not known what ran.
    pub fn open(host: &Arc<dyn Host>, node: &Node, identity: &Identity) -> Result<Self, StateError> {
        // No service has a name that begins so.
        let home = node.state_dir.join(".tasks");
        host.make_directory(&home)
            .map_err(FileError::at("make the directory of the journal of tasks", &home))?;
        let mut file = StateFile::<Ledger>::within(host, &home);
        let ledger = file.read()?;
        let runs = host.task_runs(&home);
        runs.forget_all_but(ledger.active.as_ref().map(|active| &active.id));
        Ok(Self {
            node: node.name.clone(),
            identity: identity.clone(),
            hooks: node.hooks.clone(),
            file,
            ledger,
            runs,
            ordered: Ordered::new(node.name.clone()),
            reports: reports::keys(node),
            starts: 0,
            last_error: None,
        })
    }

    /// Claims and runs what is ordered, until `cancel`. A hook that runs then goes on, and is found again.
    pub async fn run(mut self, link: Link, cancel: CancellationToken) {
        let Some(store) = link.connected(&cancel).await else { return };
        let scope = Scope::Within(Kind::Task, self.node.to_string());
        let mut stream = store.watch(vec![scope], cancel.clone());
        // What is ordered is known once it was listed; until then only what was begun is brought to its end.
        loop {
            let again = self.advance(&store).await;
            let first = tokio::select! {
                seen = stream.recv() => seen,
                () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => continue,
            };
            let Some(first) = first else { return };
            self.ordered.take_in(first);
            while let Some(next) = stream.try_recv() {
                self.ordered.take_in(next);
            }
        }
    }

    /// Goes as far as it can; when to look again, where nothing of the store is waited for.
    async fn advance(&mut self, store: &Store) -> Option<Duration> {
        loop {
            let step = match self.ledger.active.clone() {
                Some(active) => self.resume(store, active).await,
                None => self.claim_oldest(store).await,
            };
            match step {
                Err(error) => {
                    self.log_error(&error);
                    return Some(RETRY_AFTER);
                }
                Ok(step) => {
                    self.last_error = None;
                    if let Break(pause) = step {
                        return pause;
                    }
                }
            }
        }
    }

    /// Logs an error, once for as long as it stays the same.
    fn log_error(&mut self, error: &TaskError) {
        let why = Chain(error).to_string();
        if self.last_error.as_ref() != Some(&why) {
            tracing::warn!(%why, "a task does not move on; tries again");
            self.last_error = Some(why);
        }
    }

    async fn claim_oldest(&mut self, store: &Store) -> Result<Step, TaskError> {
        let Some((id, task, at)) = self.ordered.oldest() else { return Ok(Break(None)) };
        let found = store.get(&self.result(&id)).await?;
        let stage = match found {
            None if task.settled.is_some() => None,
            None => Some(self.begin(&id, &task)),
            Some(entry) => self.claimed_before(&id, &task, &entry),
        };
        match stage {
            Some(stage) => self.keep(Active { id, task, order: at, stage })?,
            None => self.ordered.leave(id),
        }
        Ok(Continue(()))
    }

    /// The first stage of an unclaimed task.
    fn begin(&self, id: &TaskId, task: &Task) -> Stage {
        if let Some(ended) = self.ended_before(id, task, Revision::ABSENT) {
            return ended;
        }
        if self.hooks.contains_key(&task.hook) {
            return Stage::Taking;
        }
        let defined: Vec<&str> = self.hooks.keys().map(HookName::as_str).collect();
        let defined = if defined.is_empty() { "none".to_owned() } else { defined.join(", ") };
        let why = format!(
            "the configuration of {} defines no hook {}; it defines: {defined}",
            self.node, task.hook
        );
        Stage::Ended { claim: Revision::ABSENT, end: TaskEnd::short(Outcome::Failed { why }) }
    }

    /// Reports again how a task ended here, where the store has lost that.
    fn ended_before(&self, id: &TaskId, task: &Task, claim: Revision) -> Option<Stage> {
        let end = self.ledger.remembers(id, task)?;
        tracing::warn!(task = %id, "this task has ended here before: the store was restored; its result is reported again, and it is not run again");
        Some(Stage::Ended { claim, end })
    }

    /// What to do with a task that has a result but is not in the journal.
    fn claimed_before(&self, id: &TaskId, task: &Task, entry: &Entry) -> Option<Stage> {
        let Ok(Value::TaskResult(result)) = &entry.value else {
            tracing::error!(task = %id, "its result cannot be read; it is left alone");
            return None;
        };
        if result.body.outcome != Outcome::Claimed {
            return None;
        }
        if !self.is_ours(&result.body) {
            tracing::warn!(task = %id, by = ?result.body.by, "another agent of this node has claimed it; it is left alone");
            return None;
        }
        if let Some(ended) = self.ended_before(id, task, entry.mod_revision) {
            return Some(ended);
        }
        let why = "this agent has claimed it, and its journal knows nothing of that: it was lost".to_owned();
        Some(Stage::Ended { claim: entry.mod_revision, end: TaskEnd::short(Outcome::Unknown { why }) })
    }

    async fn resume(&mut self, store: &Store, active: Active) -> Result<Step, TaskError> {
        match &active.stage {
            Stage::Taking => self.claim(store, active).await,
            Stage::Begun { claim, boot } => {
                let (claim, stand) = (*claim, self.runs.look(&active.id, boot));
                let end = match stand {
                    RunState::Runs => return Ok(Break(Some(POLL_INTERVAL))),
                    RunState::Ended(end) => end,
                    RunState::Lost(why) => TaskEnd::short(Outcome::Unknown { why }),
                    RunState::NotBegun => {
                        let order = Key::Task(self.node.clone(), active.id.clone());
                        if ordered::is_over(store.get(&order).await?.as_ref()) {
                            let why = "it was settled or removed before its hook had begun: it is not run";
                            TaskEnd::short(Outcome::Unknown { why: why.to_owned() })
                        } else {
                            match self.start(&active) {
                                Ok(()) => return Ok(Break(Some(POLL_INTERVAL))),
                                Err(why) => TaskEnd::short(Outcome::Failed { why }),
                            }
                        }
                    }
                };
                tracing::info!(task = %active.id, outcome = end.outcome.word(), "a task has ended");
                self.keep(Active { stage: Stage::Ended { claim, end }, ..active })?;
                Ok(Continue(()))
            }
            Stage::Ended { claim, end } => self.report(store, &active, *claim, end).await,
        }
    }

    /// Claims a task: only the agent of the node can, and only while it is ordered.
    async fn claim(&mut self, store: &Store, active: Active) -> Result<Step, TaskError> {
        let held = reports::held(store, &self.reports, &self.identity).await?;
        let commit = self.first_result(&active, TaskEnd::short(Outcome::Claimed), held);
        let claim = match store.commit(&commit).await {
            Ok(committed) => Some(committed.revision),
            // Only this agent has its nonce: a claim with it is this one, whose answer was lost.
            Err(CommitError::Conflict { broken, .. }) if !reports::are_among(&broken) => {
                store.get(&self.result(&active.id)).await?.and_then(|entry| match &entry.value {
                    Ok(Value::TaskResult(found))
                        if found.body.outcome == Outcome::Claimed && self.is_ours(&found.body) =>
                    {
                        Some(entry.mod_revision)
                    }
                    _ => None,
                })
            }
            Err(error) => return Err(error.into()),
        };
        match claim {
            Some(claim) => {
                tracing::info!(task = %active.id, hook = %active.task.hook, "claimed a task");
                let stage = Stage::Begun { claim, boot: self.identity.boot.clone() };
                self.starts = 0;
                self.keep(Active { stage, ..active })?;
            }
            None => {
                tracing::info!(task = %active.id, "a task was changed, or claimed by another, meanwhile");
                self.drop_active()?;
            }
        }
        Ok(Continue(()))
    }

    fn start(&mut self, active: &Active) -> Result<(), String> {
        let Some(hook) = self.hooks.get(&active.task.hook) else {
            return Err(format!("hook {} is no longer in this node's configuration", active.task.hook));
        };
        if self.starts == STARTS {
            return Err(format!("what should run the hook ended {STARTS} times before it had begun"));
        }
        self.starts += 1;
        let words = words(&self.node, &active.id, &active.task);
        let fill = |text: &String| {
            words.iter().fold(text.clone(), |text, (word, value)| text.replace(&format!("{{{word}}}"), value))
        };
        let argv: Vec<String> = hook.argv.iter().map(fill).collect();
        let own = words.iter().map(|(word, value)| (format!("{OURS}{}", word.to_uppercase()), value.clone()));
        let env: BTreeMap<String, String> = hook.env.clone().into_iter().chain(own).collect();
        self.runs.start(&active.id, &argv, &env, hook.timeout).map_err(|e| format!("could not start it: {e}"))
    }

    /// Reports how it ended, where it is still asked for, and forgets it.
    async fn report(
        &mut self,
        store: &Store,
        active: &Active,
        claim: Revision,
        end: &TaskEnd,
    ) -> Result<Step, TaskError> {
        let commit = if claim == Revision::ABSENT {
            let held = reports::held(store, &self.reports, &self.identity).await?;
            self.first_result(active, end.clone(), held)
        } else {
            let result = self.result(&active.id);
            Commit::new()
                .when(Precondition::At(result.clone(), claim))
                .put(result, self.task_result(end.clone()))
        };
        let conflict = match store.commit(&commit).await {
            Ok(_) => false,
            Err(CommitError::Conflict { broken, .. }) if !reports::are_among(&broken) => true,
            Err(error) => return Err(error.into()),
        };
        self.ledger.note(&active.id, &active.task, end);
        if conflict && claim != Revision::ABSENT {
            // Reported already, and the answer was lost; or the task is gone; or a restored store knows nothing of the claim
            // and still asks for the result: what it has is looked at again.
            tracing::debug!(task = %active.id, "its claim is not in the store any more");
            self.write(self.ledger.with(None))?;
        } else {
            self.drop_active()?;
        }
        self.runs.forget(&active.id);
        Ok(Continue(()))
    }

    /// What gives a task its first result: while it is ordered as it was, has none yet, and this agent reports the node.
    fn first_result(&self, active: &Active, end: TaskEnd, held: Vec<Precondition>) -> Commit {
        let (task, result) = (Key::Task(self.node.clone(), active.id.clone()), self.result(&active.id));
        let commit = Commit::new()
            .when(Precondition::At(task, active.order))
            .when(Precondition::At(result.clone(), Revision::ABSENT))
            .put(result, self.task_result(end));
        held.into_iter().fold(commit, Commit::when)
    }

    fn task_result(&self, end: TaskEnd) -> TaskResult {
        TaskResult {
            by: Some(self.identity.clone()),
            output: end.output,
            ..TaskResult::new(end.outcome, crate::admit::now())
        }
    }

    /// The same state directory made the claim; in another boot perhaps.
    fn is_ours(&self, result: &TaskResult) -> bool {
        result.by.as_ref().is_some_and(|by| by.nonce == self.identity.nonce)
    }

    fn result(&self, id: &TaskId) -> Key {
        Key::TaskResult(self.node.clone(), id.clone())
    }

    fn keep(&mut self, active: Active) -> Result<(), StateError> {
        self.write(self.ledger.with(Some(active)))
    }

    /// Nothing is gone on from that is not on the disk.
    fn write(&mut self, ledger: Ledger) -> Result<(), StateError> {
        self.file.write(&ledger)?;
        self.ledger = ledger;
        Ok(())
    }

    fn drop_active(&mut self) -> Result<(), StateError> {
        let left = self.ledger.active.as_ref().map(|active| active.id.clone());
        self.write(self.ledger.with(None))?;
        left.into_iter().for_each(|id| self.ordered.leave(id));
        Ok(())
    }
}

/// The placeholders of a hook: names and numbers, each checked when the record was read.
fn words(node: &NodeId, id: &TaskId, task: &Task) -> [(&'static str, String); 6] {
    [
        ("hook", task.hook.to_string()),
        ("task", id.to_string()),
        ("node", node.to_string()),
        ("stream", task.release.stream.to_string()),
        ("revision", task.release.revision.to_string()),
        ("tag", task.release.tag.to_string()),
    ]
}
