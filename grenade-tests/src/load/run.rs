//! The load as a running thing: started, watched, stopped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::load::ledger::{Counts, Ledger};
use crate::load::outcome::Outcome;
use crate::load::plan::{Due, LoadError, Pace};
use crate::load::report::{LoadProgress, LoadReport};
use crate::load::requests::Requests;

/// At a low rate, a schedule that is stopped ends within this.
const STOPS_WITHIN: Duration = Duration::from_millis(50);

/// Starts loads.
#[derive(Debug)]
pub struct Load;

/// A load that runs; dropping it ends the schedule without a report.
#[derive(Debug)]
pub struct LoadHandle {
    began: Instant,
    counts: Arc<Counts>,
    stop: DropGuard,
    schedule: JoinHandle<()>,
    ledger: JoinHandle<Result<LoadReport, LoadError>>,
}

impl Load {
    /// Begins to send; the first request is due at once.
    ///
    /// # Errors
    /// When the rate cannot be kept or the ledger cannot be made.
    pub fn of(pace: Pace, requests: Arc<Requests>) -> Result<LoadHandle, LoadError> {
        Self::at(pace, requests, Instant::now())
    }

    /// The same, with an instant for the first request.
    ///
    /// # Errors
    /// As [`Load::of`].
    pub fn at(pace: Pace, requests: Arc<Requests>, began: Instant) -> Result<LoadHandle, LoadError> {
        let period = pace.period()?;
        let (counts, stop) = (Arc::new(Counts::default()), CancellationToken::new());
        let ledger = Ledger::create(pace.ledger, began, Arc::clone(&counts))?;
        let (outcomes, written) = mpsc::unbounded_channel();
        let ledger = tokio::spawn(ledger.keep(written));
        let jitter = pace.jitter.map(StdRng::seed_from_u64);
        let (counted, stopped) = (Arc::clone(&counts), stop.clone());
        let schedule = Schedule { period, began, jitter, counts: counted, stop: stopped, outcomes };
        let (runtime, dice) = (Handle::current(), StdRng::seed_from_u64(pace.seed));
        let schedule = tokio::task::spawn_blocking(move || schedule.keep(&runtime, dice, requests));
        Ok(LoadHandle { began, counts, stop: stop.drop_guard(), schedule, ledger })
    }
}

/// The counts of a load, to be watched while it runs.
#[derive(Debug, Clone, Default)]
pub struct Watched(Arc<Counts>);

impl Watched {
    /// What holds now.
    pub fn progress(&self) -> LoadProgress {
        let Self(counts) = self;
        // Outcomes first: they never exceed what was sent when they are read before it.
        let [ok, failed, not_sent] =
            [&counts.ok, &counts.failed, &counts.not_sent].map(|count| count.load(Ordering::SeqCst));
        LoadProgress { sent: counts.sent.load(Ordering::SeqCst), ok, failed, not_sent }
    }
}

struct Schedule {
    period: Duration,
    began: Instant,
    jitter: Option<StdRng>,
    counts: Arc<Counts>,
    stop: CancellationToken,
    outcomes: mpsc::UnboundedSender<Outcome>,
}

impl Schedule {
    /// Sends each request at its instant. When this thread itself was late, it sends what is due and lets each count its
    /// own lateness. A thread of its own: the runtime's timers are a millisecond coarse.
    fn keep(mut self, runtime: &Handle, mut dice: StdRng, requests: Arc<Requests>) {
        let mut begins = self.began;
        for seq in 0.. {
            let part = self.jitter.as_mut().map_or(0.0, |dice| dice.random_range(0.0..1.0));
            let at = begins + self.period.mul_f64(part);
            while let left = at.saturating_duration_since(Instant::now())
                && !left.is_zero()
                && !self.stop.is_cancelled()
            {
                std::thread::sleep(left.min(STOPS_WITHIN));
            }
            if self.stop.is_cancelled() {
                return;
            }
            let drawn = requests.draw(&mut dice);
            let (requests, outcomes, due) = (Arc::clone(&requests), self.outcomes.clone(), Due { seq, at });
            self.counts.sent.fetch_add(1, Ordering::SeqCst);
            runtime.spawn(async move {
                let outcome = requests.attempt(due, drawn).await;
                // The ledger is gone only if its own task failed, which `stop` reports.
                let _ = outcomes.send(outcome);
            });
            begins += self.period;
        }
    }
}

impl LoadHandle {
    /// The instant from which its ledger counts.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// What holds now.
    pub fn progress(&self) -> LoadProgress {
        self.watched().progress()
    }

    /// Its counts.
    pub fn watched(&self) -> Watched {
        Watched(Arc::clone(&self.counts))
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
        let LoadReport { sent, ok, failed, not_sent, .. } = report;
        match sent == ok + failed + not_sent {
            true => Ok(report),
            false => Err(LoadError::Unbalanced { sent, ok, failed, not_sent }),
        }
    }
}
