//! What is told while a gate runs: a line on standard error for each thing that changes.

use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::gate::picture::Picture;
use crate::gate::spectator::Spectator;

/// Tells how it goes.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    most: Duration,
    last: Mutex<String>,
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
        // Nobody may be reading: what cannot be written is lost, and the gate goes on.
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

    /// Says where an upgrade stands, where that is new.
    fn look(&self, picture: &Picture) {
        let Some(seen) = &picture.upgrade else { return };
        let wave = seen.wave.map(|wave| format!(", wave {wave} of {}", seen.waves.len())).unwrap_or_default();
        let waits = picture.waits.first().map(|wait| format!(": {}", wait.what)).unwrap_or_default();
        let failed = match picture.requests.failed {
            0 => String::new(),
            failed => format!(" [{failed} requests failed]"),
        };
        let line = format!("{}{wave}{waits}{failed}", seen.phase);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != line {
            self.say(&line);
            *last = line;
        }
    }
}
