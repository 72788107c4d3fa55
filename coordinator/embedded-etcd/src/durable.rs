//! How far the disk has come: what answers wait for, and what makes revisions visible to watches.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{hub::Hub, kv::Revision, refusal::Refusal};

#[derive(Debug, Clone, Default)]
struct Progress {
    sequence: u64,
    fault: Option<Fault>,
}

/// Why the disk takes no change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no space; it goes on when there is.
    Full(Arc<str>),
    /// It ended for good.
    Ended(Arc<str>),
}

/// The number of the last durable change, with the watches that follow it.
#[derive(Debug)]
pub(crate) struct Durable {
    progress: watch::Sender<Progress>,
    hub: Hub,
}

impl Durable {
    pub(crate) fn new(revision: i64) -> Self {
        Self { progress: watch::Sender::new(Progress::default()), hub: Hub::new(revision) }
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Everything up to change number `sequence` is durable; `revisions` are those that were not before. Watches are
    /// notified first: a client that has its answer finds its own write in every watch's past.
    pub(crate) fn reached(&self, sequence: u64, revisions: &[Arc<Revision>]) {
        if !revisions.is_empty() {
            self.hub.publish(revisions);
        }
        self.progress.send_modify(|progress| *progress = Progress { sequence, fault: None });
    }

    /// The disk is full: nothing after the last durable change can be answered until more is reached.
    pub(crate) fn pause(&self, reason: &str) {
        self.progress.send_modify(|progress| progress.fault = Some(Fault::Full(reason.into())));
    }

    /// The disk refused: nothing after the last durable change can be answered any more. The first reason stays.
    pub(crate) fn fail(&self, reason: &str) {
        self.progress.send_modify(|progress| {
            if !matches!(progress.fault, Some(Fault::Ended(_))) {
                progress.fault = Some(Fault::Ended(reason.into()));
            }
        });
    }

    /// Why the disk takes no change now.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.progress.borrow().fault.clone()
    }

    /// Waits until the disk takes no change; why not.
    pub(crate) async fn faulty(&self) -> Fault {
        self.until(|fault| Some(fault.clone())).await
    }

    /// Waits until the disk takes no change any more; why not.
    pub(crate) async fn ended(&self) -> Arc<str> {
        self.until(|fault| match fault {
            Fault::Ended(why) => Some(why.clone()),
            Fault::Full(_) => None,
        })
        .await
    }

    async fn until<T>(&self, wanted: impl Fn(&Fault) -> Option<T>) -> T {
        let mut progress = self.progress.subscribe();
        loop {
            if let Some(found) = progress.borrow_and_update().fault.as_ref().and_then(&wanted) {
                return found;
            }
            // The sender lives as long as `self`.
            let _ = progress.changed().await;
        }
    }

    /// Waits until change number `sequence` is durable.
    pub(crate) async fn wait_for(&self, sequence: u64) -> Result<(), Refusal> {
        if self.progress.borrow().sequence >= sequence {
            return Ok(());
        }
        let mut progress = self.progress.subscribe();
        let reached = progress
            .wait_for(|progress| progress.sequence >= sequence || progress.fault.is_some())
            .await
            .map_err(|_| Refusal::Stopped)?;
        match &reached.fault {
            Some(fault) if reached.sequence < sequence => Err(fault.in_flight()),
            _ => Ok(()),
        }
    }
}

impl Fault {
    /// The error for a request whose change was made and is not known to be durable.
    fn in_flight(&self) -> Refusal {
        match self {
            Self::Full(why) => Refusal::FullInFlight(why.to_string()),
            Self::Ended(why) => Refusal::Disk(why.to_string()),
        }
    }

    /// The error for a request that was not started.
    pub(crate) fn refusal(&self) -> Refusal {
        match self {
            Self::Full(why) => Refusal::Full(why.to_string()),
            Self::Ended(why) => Refusal::Disk(why.to_string()),
        }
    }
}
