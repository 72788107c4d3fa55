//! The gate between a simulated process and everything outside of it. A process that is stalled (SIGSTOP) or killed
//! gets nothing through; what it had not sent by then is never sent, what it had is carried out without it.

use std::sync::Arc;
use tokio::sync::watch;

/// Whether a process goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    /// It does.
    Open,
    /// It is stopped for a while.
    Stalled,
    /// It was killed.
    Dead,
}

/// The gate of one process.
#[derive(Debug, Clone)]
pub(super) struct Gate(Arc<watch::Sender<Passage>>);

impl Gate {
    /// An open one.
    pub(super) fn open() -> Self {
        Self(Arc::new(watch::Sender::new(Passage::Open)))
    }

    /// Changes it. What was killed stays so.
    pub(super) fn set(&self, passage: Passage) {
        self.0.send_if_modified(|now| {
            let changes = *now != Passage::Dead && *now != passage;
            if changes {
                *now = passage;
            }
            changes
        });
    }

    /// Whether the process goes on.
    pub(super) fn is_open(&self) -> bool {
        *self.0.borrow() == Passage::Open
    }

    /// Whether the process was killed.
    pub(super) fn is_dead(&self) -> bool {
        *self.0.borrow() == Passage::Dead
    }

    /// Waits as long as the process is stopped.
    pub(super) async fn thaws(&self) {
        let mut passage = self.0.subscribe();
        // One that is gone is not stopped.
        let _ = passage.wait_for(|now| *now != Passage::Stalled).await;
    }

    /// Waits until the process goes on: for ever, where it was killed.
    pub(super) async fn passes(&self) {
        if *self.0.borrow() == Passage::Open {
            return;
        }
        let mut passage = self.0.subscribe();
        if passage.wait_for(|now| *now == Passage::Open).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
