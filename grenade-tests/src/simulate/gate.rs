//! The gate between a simulated process and everything outside of it. A process that is stalled (SIGSTOP) or killed
//! gets nothing through; what it had not sent by then is never sent, what it had is carried out without it. One that is
//! stalled does nothing at all.

use std::sync::Arc;
use tidegate_store::process::{InProcess, Process};
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
pub(super) struct Gate {
    passage: Arc<watch::Sender<Passage>>,
    process: Process,
}

impl Gate {
    /// An open one.
    pub(super) fn open() -> Self {
        Self { passage: Arc::new(watch::Sender::new(Passage::Open)), process: Process::default() }
    }

    /// Does `work` as the process behind the gate: where that is stalled, nothing of it is done, also by tasks that it
    /// spawned.
    pub(super) fn run<F: Future>(&self, work: F) -> InProcess<F> {
        self.process.run(work)
    }

    /// Changes it. What was killed stays so.
    pub(super) fn set(&self, passage: Passage) {
        self.passage.send_if_modified(|now| {
            let changes = *now != Passage::Dead && *now != passage;
            if changes {
                *now = passage;
            }
            changes
        });
        let now = *self.passage.borrow();
        match now {
            Passage::Stalled => self.process.stop(),
            // Tasks of one that was killed end at the gate, or because they are cancelled.
            Passage::Open | Passage::Dead => self.process.go_on(),
        }
    }

    /// Whether the process goes on.
    pub(super) fn is_open(&self) -> bool {
        *self.passage.borrow() == Passage::Open
    }

    /// Whether the process was killed.
    pub(super) fn is_dead(&self) -> bool {
        *self.passage.borrow() == Passage::Dead
    }

    /// Waits as long as the process is stopped.
    pub(super) async fn thaws(&self) {
        let mut passage = self.passage.subscribe();
        // One that is gone is not stopped.
        let _ = passage.wait_for(|now| *now != Passage::Stalled).await;
    }

    /// Waits until the process goes on: for ever, where it was killed.
    pub(super) async fn passes(&self) {
        if *self.passage.borrow() == Passage::Open {
            return;
        }
        let mut passage = self.passage.subscribe();
        if passage.wait_for(|now| *now == Passage::Open).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate_store::process::spawn;
    use tokio::time::{Instant, sleep};

    /// Two tasks of one process sleep, one of them spawned by the other; after how long each went on.
    async fn sleep_twice(began: Instant) -> [Duration; 2] {
        let child = spawn(async move {
            sleep(Duration::from_secs(2)).await;
            began.elapsed()
        });
        sleep(Duration::from_secs(1)).await;
        [began.elapsed(), child.await.unwrap()]
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_process_notices_its_timers_when_it_goes_on() {
        let (gate, began) = (Gate::open(), Instant::now());
        let task = tokio::spawn(gate.run(sleep_twice(began)));
        sleep(Duration::from_millis(500)).await;
        gate.set(Passage::Stalled);
        sleep(Duration::from_secs(10)).await;
        assert!(!task.is_finished());
        gate.set(Passage::Open);
        let went_on = task.await.unwrap().map(|at| at.as_secs());
        assert_eq!(went_on, [10, 10], "at once, and not before");
    }

    #[tokio::test(start_paused = true)]
    async fn killed_process_is_neither_stalled_nor_resumed() {
        let (gate, began) = (Gate::open(), Instant::now());
        let task = tokio::spawn(gate.run(sleep_twice(began)));
        sleep(Duration::from_millis(500)).await;
        gate.set(Passage::Stalled);
        for passage in [Passage::Dead, Passage::Stalled, Passage::Open] {
            gate.set(passage);
            assert!(gate.is_dead());
        }
        assert_eq!(task.await.unwrap().map(|at| at.as_secs()), [1, 2], "its tasks end by themselves");
    }
}
