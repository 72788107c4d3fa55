//! How far the disk has come: what answers wait for, and what makes revisions visible to watches.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{kv::Revision, refusal::Refusal, watch::Hub};

#[derive(Debug, Clone, Default)]
struct Progress {
    sequence: u64,
    failed: Option<Arc<str>>,
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
    /// told first: who has its answer finds its own write in every watch's past.
    pub(crate) fn reached(&self, sequence: u64, revisions: &[Arc<Revision>]) {
        if !revisions.is_empty() {
            self.hub.publish(revisions);
        }
        self.progress.send_modify(|progress| progress.sequence = sequence);
    }

    /// The disk refused: nothing after the last durable change can be answered any more. The first reason stays.
    pub(crate) fn fail(&self, reason: &str) {
        self.progress.send_modify(|progress| {
            progress.failed.get_or_insert_with(|| reason.into());
        });
    }

    /// Waits until change number `sequence` is durable.
    pub(crate) async fn wait_for(&self, sequence: u64) -> Result<(), Refusal> {
        if self.progress.borrow().sequence >= sequence {
            return Ok(());
        }
        let mut progress = self.progress.subscribe();
        let reached = progress
            .wait_for(|progress| progress.sequence >= sequence || progress.failed.is_some())
            .await
            .map_err(|_| Refusal::Stopped)?;
        match &reached.failed {
            Some(reason) if reached.sequence < sequence => Err(Refusal::Disk(reason.to_string())),
            _ => Ok(()),
        }
    }
}
