//! How often and how patiently a lock is asked for: short tries, growing rests, a last one.

use crate::error::Error;
use crate::progress::ProgressSender;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long one try may wait for a table's lock. Every session after us in the lock's queue stalls as long as we wait
/// (measured: the reader's stall equals it), hence 100 ms and never none.
pub const LOCK_LIMIT: Duration = Duration::from_millis(100);

const FIRST_REST: Duration = Duration::from_millis(50);
const LONGEST_REST: Duration = Duration::from_secs(5);
const GROWTH: f64 = 1.6;

/// After this the verb answers that the lock cannot be had; the caller may call again.
const BUDGET: Duration = Duration::from_secs(600);

/// The tries for one lock.
pub(crate) struct Ladder<'a> {
    tries: u32,
    rest: Duration,
    since: Instant,
    cancel: &'a CancellationToken,
}

impl<'a> Ladder<'a> {
    pub(crate) fn new(cancel: &'a CancellationToken) -> Self {
        Ladder { tries: 0, rest: FIRST_REST, since: Instant::now(), cancel }
    }

    /// Rests after a refused try, or passes on what no further try would change.
    pub(crate) async fn rest(
        &mut self,
        refused: Error,
        step: &str,
        progress: &ProgressSender<'_>,
    ) -> Result<(), Error> {
        self.rest_for(refused, step, None, progress).await
    }

    /// The same, where it is known who holds the lock.
    pub(crate) async fn rest_for(
        &mut self,
        refused: Error,
        step: &str,
        held_by: Option<String>,
        progress: &ProgressSender<'_>,
    ) -> Result<(), Error> {
        if !refused.lock_refused() {
            return Err(refused);
        }
        self.tries += 1;
        let held = held_by.map(|by| format!("; held by {by}")).unwrap_or_default();
        if self.since.elapsed() > BUDGET {
            return Err(Error::LockTimeout { step: step.to_owned(), tries: self.tries, held });
        }
        progress.waiting(Some(format!("a lock for `{step}`, {} tries so far{held}", self.tries)));
        // Jitter: two that lost to each other must not meet again.
        let rest = self.rest.mul_f64(rand::random_range(0.5..1.5));
        self.rest = self.rest.mul_f64(GROWTH).min(LONGEST_REST);
        tokio::select! {
            () = tokio::time::sleep(rest) => Ok(()),
            () = self.cancel.cancelled() => Err(Error::Cancelled),
        }
    }
}
