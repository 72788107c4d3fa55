//! The progress of a gate that runs: a line on standard error for each change.

use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::gate::picture::Picture;
use crate::gate::spectator::Spectator;

/// A count of failures that grows is said so often at the most.
const FAILURES_EVERY: Duration = Duration::from_secs(10);

/// Prints the progress.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    most: Duration,
    last: Mutex<Last>,
}

/// What was said last of an upgrade.
#[derive(Debug, Default)]
struct Last {
    stands: String,
    failed: u64,
    at: Option<Instant>,
}

impl Progress {
    /// From now on; the run may take `most`.
    pub fn new(most: Duration) -> Self {
        Self { began: Instant::now(), most, last: Mutex::default() }
    }

    /// Since it was made.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// How much of its time is left.
    pub fn time_left(&self) -> Duration {
        self.most.saturating_sub(self.elapsed())
    }

    /// Says what is done now.
    pub fn say(&self, what: &str) {
        let elapsed = self.elapsed();
        let left = self.most.saturating_sub(elapsed).as_secs();
        // The reader may be gone: what cannot be written is lost, and the gate goes on.
        let mut out = std::io::stderr().lock();
        let _ = writeln!(out, "{:7.1} s  {what}  (at most {left} s left)", elapsed.as_secs_f64());
    }

    /// Says how long the present part still takes, where that is not over.
    pub fn left(&self, left: Duration) {
        if !left.is_zero() {
            self.say(&format!("  {} s to go", left.as_secs_f64().round()));
        }
    }
}

impl Spectator for Progress {
    fn say(&self, what: &str) {
        Self::say(self, what);
    }

    fn sees_instances(&self) -> bool {
        false
    }

    /// Prints an upgrade's state, where that is new.
    fn look(&self, picture: &Picture) {
        let Some(seen) = &picture.upgrade else { return };
        let wave = seen.wave.map(|wave| format!(", wave {wave} of {}", seen.waves.len())).unwrap_or_default();
        let waits = picture.waits.first().map(|wait| format!(": {}", wait.what)).unwrap_or_default();
        let stands = format!("{}{wave}{waits}", seen.phase);
        let failed = picture.requests.failed;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = last.at.is_none_or(|at| at.elapsed() >= FAILURES_EVERY);
        if last.stands == stands && (last.failed == failed || !is_old) {
            return;
        }
        match failed {
            0 => self.say(&stands),
            failed => self.say(&format!("{stands} [{failed} requests failed]")),
        }
        *last = Last { stands, failed, at: Some(Instant::now()) };
    }
}
