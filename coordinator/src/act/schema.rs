//! The schema worker: one job at a time on the schema of each upgrade, in its own task, on the leader only. It reports
//! what it sees in the database to the planner as facts and wakes the leader loop; only the database's own history is
//! believed. When deposed or cancelled, it stops: unfinished work is undone or recorded in that history.

mod bind;
mod bound;
mod certify;
mod job;
mod look;
mod refused;
mod sessions;
mod term;

pub(crate) use bind::{Preview, bind, look_only};
pub(crate) use bound::{BY_HAND, Unbound};
pub(crate) use job::lacks;
pub(crate) use refused::unhear;
pub(crate) use sessions::recorded;

use crate::context::Context;
use crate::leadership::{Leadership, held};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_planner::{Action, Plan, Reason, SchemaJob};
use tidegate_proto::{UpgradeId, mutant};
use tidegate_store::process::spawn;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// After a first failure, doubled with each that follows: a database that is away is found soon when it is back.
const FIRST_REST: Duration = Duration::from_millis(500);

/// A database is not asked more often than this, however long it is away.
const LONGEST_REST: Duration = Duration::from_secs(15);

/// How long a cancelled job may take to stop. One that waits for a database that does not answer is then dropped: its
/// connection is closed, and its uncommitted work is lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a worker is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Job(SchemaJob),
    Certify,
}

struct Running {
    task: Task,
    cancel: CancellationToken,
    /// Set before the facts are reported to the planner, so that the turn that they wake may begin the next job.
    ended: Arc<AtomicBool>,
    handle: JoinHandle<bool>,
}

impl Running {
    fn is_contract(&self) -> bool {
        matches!(self.task, Task::Job(SchemaJob::Contract { .. }))
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.handle.is_finished()
    }
}

/// How the last attempts at a task went.
#[derive(Default)]
struct Attempts {
    failures: u32,
    not_before: Option<Instant>,
}

/// The jobs of one leadership.
pub(crate) struct Workers {
    context: Context,
    leadership: Arc<Leadership>,
    running: Mutex<BTreeMap<UpgradeId, Running>>,
    attempts: Mutex<BTreeMap<UpgradeId, Attempts>>,
    uncertified: Arc<Mutex<BTreeMap<UpgradeId, Vec<Reason>>>>,
}

impl Workers {
    /// No jobs yet.
    pub(crate) fn new(context: Context, leadership: Arc<Leadership>) -> Self {
        Self {
            context,
            leadership,
            running: Mutex::default(),
            attempts: Mutex::default(),
            uncertified: Arc::default(),
        }
    }

    /// Makes sure that a job runs; asking again while it does changes nothing.
    pub(crate) fn ensure_job(&self, upgrade: UpgradeId, job: SchemaJob) {
        self.begin(upgrade, Task::Job(job));
    }

    /// Makes sure that a certificate is being made.
    pub(crate) fn certifies(&self, upgrade: UpgradeId) {
        self.begin(upgrade, Task::Certify);
    }

    /// Adds, for every certificate that is asked for, why the last attempt at it did not succeed.
    pub(crate) fn add_certificate_failures(&self, plan: &mut Plan) {
        for action in &plan.actions {
            if let Action::Certify { upgrade } = action {
                let doubts = held(&self.uncertified).get(upgrade).cloned().unwrap_or_default();
                plan.waiting.entry(upgrade.clone()).or_default().extend(doubts);
            }
        }
    }

    /// Ends the jobs that a turn no longer asks for: the upgrade is paused, nothing acts, or an instance closes a gate while
    /// a certificate is made. Unfinished work is undone or recorded in the database's history, and continues from there when
    /// the job is requested again.
    pub(crate) fn stop_unrequested(&self, plan: &Plan) {
        let wanted: BTreeSet<&UpgradeId> = plan.actions.iter().filter_map(Action::schema_of).collect();
        for (upgrade, running) in held(&self.running).iter() {
            let is_kept = running.is_contract() && mutant::is("begun-contract-is-not-stopped");
            let is_unwanted = !wanted.contains(upgrade) && !is_kept;
            if is_unwanted && !running.has_ended() && !running.cancel.is_cancelled() {
                tracing::info!(%upgrade, "the schema job is no longer asked for, and ends");
                running.cancel.cancel();
            }
        }
    }

    /// Ends all jobs, and waits for them as long as they have to undo something.
    pub(crate) async fn stop(self) {
        let running = std::mem::take(&mut *held(&self.running));
        running.values().for_each(|running| running.cancel.cancel());
        let end = Instant::now() + PATIENCE;
        for (upgrade, Running { mut handle, .. }) in running {
            match tokio::time::timeout_at(end, &mut handle).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::error!(%upgrade, %error, "a schema job broke"),
                Err(_) => {
                    tracing::warn!(%upgrade, "a schema job does not stop: it is dropped, and sends its database no further statement");
                    handle.abort();
                }
            }
        }
    }

    fn begin(&self, upgrade: UpgradeId, task: Task) {
        let mut running = held(&self.running);
        if let Some(current) = running.get(&upgrade) {
            if !current.has_ended() {
                if current.task != task {
                    // Its end wakes the leader loop, and the next turn asks for the other one again.
                    current.cancel.cancel();
                }
                return;
            }
            running.remove(&upgrade);
        }
        if held(&self.attempts).get(&upgrade).is_some_and(Attempts::rests) {
            return;
        }
        // Counted as a failure until it is known to be none: a task that breaks must not spin.
        held(&self.attempts).entry(upgrade.clone()).or_default().failed();
        let cancel = self.leadership.lost.child_token();
        let ended = Arc::new(AtomicBool::new(false));
        let handle = spawn(self.attempt(upgrade.clone(), task, cancel.clone(), Arc::clone(&ended)));
        running.insert(upgrade, Running { task, cancel, ended, handle });
    }

    /// One attempt; whether it succeeded.
    fn attempt(
        &self,
        upgrade: UpgradeId,
        task: Task,
        cancel: CancellationToken,
        ended: Arc<AtomicBool>,
    ) -> impl Future<Output = bool> + use<> {
        let (context, leadership) = (self.context.clone(), Arc::clone(&self.leadership));
        let uncertified = Arc::clone(&self.uncertified);
        async move {
            match task {
                Task::Job(job) => {
                    let known = job::known(&leadership, &upgrade);
                    let done = job::run(&context, &leadership, &upgrade, job, &cancel).await;
                    let succeeded = done.is_ok();
                    ended.store(true, Ordering::Release);
                    match done {
                        // A cancelled job reports no end: its schema is read again when the job is requested again.
                        Err(_) if cancel.is_cancelled() => job::forget(&leadership, &upgrade),
                        done => job::report_end(&leadership, &upgrade, done),
                    }
                    // A job after which the database shows what was known before it rests as one that failed.
                    succeeded && job::known(&leadership, &upgrade) != known
                }
                Task::Certify => match certify::certify(&context, &leadership, &upgrade, &cancel).await {
                    Err(reasons) if !cancel.is_cancelled() => {
                        held(&uncertified).insert(upgrade, reasons);
                        false
                    }
                    // A cancelled one says nothing of the upgrade.
                    done => {
                        held(&uncertified).remove(&upgrade);
                        done.is_ok()
                    }
                },
            }
        }
    }

    /// Takes in what has ended: success forgets the failures before it.
    pub(crate) async fn reap(&self) {
        let ended: Vec<(UpgradeId, Running)> = {
            let mut running = held(&self.running);
            running.extract_if(.., |_, running| running.has_ended()).collect()
        };
        for (upgrade, running) in ended {
            let stopped = running.cancel.is_cancelled();
            match running.handle.await {
                // What was stopped has not failed.
                Ok(_) if stopped => drop(held(&self.attempts).remove(&upgrade)),
                Ok(true) => drop(held(&self.attempts).remove(&upgrade)),
                Ok(false) => held(&self.attempts).entry(upgrade).or_default().rest(),
                Err(error) => tracing::error!(%upgrade, %error, "a schema job broke"),
            }
        }
    }
}

impl Attempts {
    fn rests(&self) -> bool {
        self.not_before.is_some_and(|then| Instant::now() < then)
    }

    /// Failures count together where one follows soon upon the other.
    fn failed(&mut self) {
        if self.not_before.is_some_and(|then| then.elapsed() > LONGEST_REST) {
            self.failures = 0;
        }
        self.failures += 1;
        self.rest();
    }

    fn rest(&mut self) {
        if mutant::is("failed-job-is-not-tried-again") {
            self.not_before = Some(Instant::now() + Duration::from_secs(86_400));
            return;
        }
        let doubled = self.failures.saturating_sub(1).min(10);
        self.not_before = Some(Instant::now() + FIRST_REST.saturating_mul(1 << doubled).min(LONGEST_REST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rests_grow_from_the_end_of_each_attempt() {
        let mut attempts = Attempts::default();
        for rest in [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000] {
            attempts.failed();
            // It takes longer than any rest.
            tokio::time::advance(Duration::from_secs(60)).await;
            attempts.rest();
            tokio::time::advance(Duration::from_millis(rest - 1)).await;
            assert!(attempts.rests(), "{rest} ms");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(!attempts.rests(), "{rest} ms");
        }
        tokio::time::advance(Duration::from_secs(16)).await;
        attempts.failed();
        tokio::time::advance(FIRST_REST).await;
        assert!(!attempts.rests(), "the failures before it are long ago");
    }
}
