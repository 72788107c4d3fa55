//! The load as a running thing: started, watched, stopped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::load::attempt::{Outcome, attempt};
use crate::load::facts::Idle;
use crate::load::ledger::{Counts, Ledger};
use crate::load::plan::{LoadError, LoadPlan};
use crate::load::report::{LoadProgress, LoadReport};
use crate::load::step::Step;

/// The longest upload that a plan may ask for.
const LONGEST_UPLOAD: Duration = Duration::from_secs(60);

/// Starts loads.
#[derive(Debug)]
pub struct Load;

/// A load that runs; dropping it ends the schedule without a report.
#[derive(Debug)]
pub struct LoadHandle {
    counts: Arc<Counts>,
    stop: DropGuard,
    schedule: JoinHandle<()>,
    ledger: JoinHandle<Result<LoadReport, LoadError>>,
}

impl Load {
    /// Begins to send; the first request is due at once.
    ///
    /// # Errors
    /// When the plan contradicts itself or the ledger cannot be made.
    pub fn start(plan: LoadPlan) -> Result<LoadHandle, LoadError> {
        let period = plan.period()?;
        if plan.upload.0 > plan.upload.1 || plan.upload.1 > LONGEST_UPLOAD {
            return Err(LoadError::Upload(plan.upload.0, plan.upload.1));
        }
        let (began, counts, stop) = (Instant::now(), Arc::new(Counts::default()), CancellationToken::new());
        let ledger = Ledger::create(plan.ledger.clone(), began, Arc::clone(&counts))?;
        let (outcomes, written) = mpsc::unbounded_channel();
        let ledger = tokio::spawn(ledger.keep(written));
        let schedule =
            tokio::spawn(schedule(plan, period, began, Arc::clone(&counts), stop.clone(), outcomes));
        Ok(LoadHandle { counts, stop: stop.drop_guard(), schedule, ledger })
    }
}

/// Sends each request at its instant. When this task itself was late, it sends what is due and lets each count its own
/// lateness.
async fn schedule(
    plan: LoadPlan,
    period: Duration,
    began: Instant,
    counts: Arc<Counts>,
    stop: CancellationToken,
    outcomes: mpsc::UnboundedSender<Outcome>,
) {
    let idle = Arc::new(Idle::default());
    let mut dice = StdRng::seed_from_u64(plan.seed);
    let run = uuid::Uuid::new_v4().simple().to_string();
    let mut due = began;
    for seq in 0.. {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep_until(due) => {}
        }
        let step = Step::draw(seq, &run, &plan, &idle, &mut dice);
        let (idle, outcomes, target, scheduled) = (Arc::clone(&idle), outcomes.clone(), plan.target, due);
        counts.sent.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let outcome = attempt(seq, scheduled, step, target, &idle).await;
            // The ledger is gone only if its own task failed, which `stop` reports.
            let _ = outcomes.send(outcome);
        });
        due += period;
    }
}

impl LoadHandle {
    /// What holds now.
    pub fn progress(&self) -> LoadProgress {
        // Outcomes first: they never exceed what was sent when they are read before it.
        let (ok, failed) = (self.counts.ok.load(Ordering::SeqCst), self.counts.failed.load(Ordering::SeqCst));
        LoadProgress { sent: self.counts.sent.load(Ordering::SeqCst), ok, failed }
    }

    /// Sends nothing more, waits for what is in flight (at most its own limits) and accounts for everything.
    ///
    /// # Errors
    /// When the ledger could not be written, or the sums do not match.
    pub async fn stop(self) -> Result<LoadReport, LoadError> {
        drop(self.stop);
        self.schedule.await.map_err(LoadError::Broken)?;
        let mut report = self.ledger.await.map_err(LoadError::Broken)??;
        report.sent = self.counts.sent.load(Ordering::SeqCst);
        if report.sent == report.ok + report.failed {
            Ok(report)
        } else {
            Err(LoadError::Unbalanced { sent: report.sent, ok: report.ok, failed: report.failed })
        }
    }
}
