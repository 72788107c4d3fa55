//! A report that is written after a delay. A newer report replaces it until then.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_proto::record::report::Report;
use tokio::sync::Notify;

/// A report that is written when its time has come.
#[derive(Debug)]
pub(super) struct DelayedReport {
    /// None once it is being written.
    newest: Mutex<Option<Report>>,
    hurry: Notify,
}

impl DelayedReport {
    pub(super) fn new(report: Report) -> Self {
        Self { newest: Mutex::new(Some(report)), hurry: Notify::new() }
    }

    /// Puts a newer one in its place; gives it back where that is too late.
    pub(super) fn replace(&self, newer: Report) -> Option<Report> {
        match &mut *self.newest() {
            Some(newest) => {
                *newest = newer;
                None
            }
            None => Some(newer),
        }
    }

    /// Ends the delay.
    pub(super) fn send_now(&self) {
        self.hurry.notify_one();
    }

    /// The newest, after `pause` or as soon as it is hurried; once.
    pub(super) async fn when_due(&self, pause: Duration) -> Option<Report> {
        if !pause.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.hurry.notified() => {}
            }
        }
        self.newest().take()
    }

    fn newest(&self) -> MutexGuard<'_, Option<Report>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_proto::Revision;
    use tidegate_proto::record::report::Identity;

    /// Longer than any test may take.
    const EVER: Duration = Duration::from_secs(3600);

    fn report(generation: i64) -> Report {
        let identity = Identity { nonce: "n".to_owned(), boot: "b".to_owned() };
        let text = serde_json::json!({ "identity": identity, "generation": Revision(generation) });
        serde_json::from_value(text).unwrap()
    }

    #[tokio::test]
    async fn the_newest_is_written_and_only_once() {
        let delayed = DelayedReport::new(report(1));
        assert_eq!(delayed.replace(report(2)), None);
        delayed.send_now();
        assert_eq!(delayed.when_due(EVER).await, Some(report(2)));
        assert_eq!(delayed.replace(report(3)), Some(report(3)), "it is being written");
        assert_eq!(delayed.when_due(Duration::ZERO).await, None);
    }
}
