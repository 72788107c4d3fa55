//! When a document that failed is applied again: after growing pauses, so that a hook that cannot succeed costs little,
//! and one that a person has repaired does not wait for the next document.

use super::kept::Outcome;
use std::time::Duration;
use tokio::time::Instant;

/// After the first failure.
const FIRST: Duration = Duration::from_secs(5);

/// After many.
const LONGEST: Duration = Duration::from_secs(300);

/// When to try again.
#[derive(Debug, Default)]
pub(super) struct Retry {
    wait: Duration,
    due: Option<Instant>,
}

impl Retry {
    /// How long to wait still; nothing where it is due, or nothing failed.
    pub(super) fn left(&self) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()))
    }

    /// A document was taken, with this outcome; `again` = it is the one that was taken before.
    pub(super) fn after(&mut self, outcome: &Outcome, again: bool) {
        *self = match outcome {
            Outcome::Good => Self::default(),
            Outcome::Failed { .. } => {
                let wait = if again { (self.wait * 2).clamp(FIRST, LONGEST) } else { FIRST };
                Self { wait, due: Some(Instant::now() + wait) }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_doubles_up_to_the_limit_and_a_new_document_resets_it() {
        let failed = Outcome::Failed { kind: "hook".into(), why: "exit status: 1".into() };
        let mut retry = Retry::default();
        assert!(retry.left().is_zero());
        let mut waits = Vec::new();
        for again in [false, true, true, true, true, true, true, true] {
            retry.after(&failed, again);
            waits.push(retry.wait.as_secs());
            assert!(retry.left() > retry.wait - FIRST / 2);
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
        retry.after(&failed, false);
        assert_eq!(retry.wait, FIRST);
        retry.after(&Outcome::Good, true);
        assert!(retry.left().is_zero());
    }
}
