//! How far a phase is: what a person sees while it runs.

use tokio::sync::watch;

/// A phase under way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PhaseProgress {
    /// The migration that runs now.
    pub migration: String,
    /// Which step runs now, from 1; 0 before the first.
    pub step: usize,
    /// How many steps its phase has.
    pub steps: usize,
    /// The step in words.
    pub doing: String,
    /// Rows looked at by this step.
    pub rows_done: u64,
    /// Rows that were there when the step began.
    pub rows_total: u64,
    /// Rows a second of late, pauses included.
    pub rows_per_second: f64,
    /// Seconds until the step is done at that rate.
    pub seconds_left: Option<u64>,
    /// What it waits for, if it waits.
    pub waiting: Option<String>,
}

/// The sender's side. A receiver is optional.
#[derive(Clone)]
pub(crate) struct ProgressSender<'a>(pub &'a watch::Sender<PhaseProgress>);

impl ProgressSender<'_> {
    pub(crate) fn step(&self, migration: &str, step: usize, steps: usize, doing: String) {
        let migration = migration.to_owned();
        self.0.send_replace(PhaseProgress { migration, step, steps, doing, ..PhaseProgress::default() });
    }

    pub(crate) fn waiting(&self, reason: Option<String>) {
        self.0.send_if_modified(|p| {
            let changed = p.waiting != reason;
            p.waiting = reason;
            changed
        });
    }

    pub(crate) fn rows(&self, done: u64, total: u64, rate: f64) {
        self.0.send_modify(|p| {
            (p.rows_done, p.rows_total, p.rows_per_second) = (done, total.max(done), rate);
            let left = total.saturating_sub(done) as f64;
            p.seconds_left = (rate > 0.0).then(|| (left / rate).ceil() as u64);
            p.waiting = None;
        });
    }
}
