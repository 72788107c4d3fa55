//! The ledger: one CSV line for each request, and the sums over them. The only writer of the file.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::load::entry::{Connection, Entry, Judged};
use crate::load::outcome::{Failure, Outcome};
use crate::load::plan::LoadError;
use crate::load::report::LoadReport;
use crate::load::tally::Tally;

/// How many lines are written at once where they come fast.
const AT_ONCE: usize = 256;

/// Counts that others may watch.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests that came due.
    pub sent: AtomicU64,
    /// Of these, answered as they should.
    pub ok: AtomicU64,
    /// Of these, failed.
    pub failed: AtomicU64,
    /// Of these, not sent in time.
    pub not_sent: AtomicU64,
}

/// The ledger while it is written.
pub struct Ledger {
    file: csv::Writer<File>,
    path: PathBuf,
    began: Instant,
    tally: Tally,
    counts: Arc<Counts>,
}

impl Ledger {
    /// Creates the file empty.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: PathBuf, began: Instant, counts: Arc<Counts>) -> Result<Self, LoadError> {
        let file = csv::Writer::from_path(&path)
            .map_err(|source| LoadError::Ledger { path: path.clone(), source })?;
        Ok(Self { file, path, began, tally: Tally::default(), counts })
    }

    /// Writes down what comes until the last sender is gone.
    ///
    /// # Errors
    /// When the file cannot be written any more.
    pub async fn keep(
        mut self,
        mut outcomes: mpsc::UnboundedReceiver<Outcome>,
    ) -> Result<LoadReport, LoadError> {
        let mut written = Ok(());
        let mut some = Vec::with_capacity(AT_ONCE);
        while outcomes.recv_many(&mut some, AT_ONCE).await > 0 {
            for outcome in some.drain(..) {
                let entry = self.entry(&outcome);
                written = written.and_then(|()| self.file.serialize(&entry));
                self.add(&entry);
            }
        }
        written = written.and_then(|()| self.file.flush().map_err(csv::Error::from));
        written.map_err(|source| LoadError::Ledger { path: self.path.clone(), source })?;
        Ok(self.tally.finish())
    }

    fn entry(&self, o: &Outcome) -> Entry {
        let ms = |at: Instant| at.saturating_duration_since(self.began).as_micros() as f64 / 1e3;
        let (outcome, reason) = match &o.failure {
            None => (Judged::Ok, String::new()),
            Some(failure) => {
                let judged =
                    if matches!(failure, Failure::NotSent) { Judged::NotSent } else { Judged::Failed };
                (judged, format!("{failure}: {}", failure.detail()))
            }
        };
        Entry {
            seq: o.seq,
            scheduled_ms: ms(o.scheduled),
            sent_ms: ms(o.sent),
            first_ms: o.first.map(ms),
            done_ms: ms(o.done),
            own_ms: o.own_length.as_micros() as f64 / 1e3,
            kind: o.kind.clone().into_owned(),
            status: o.status,
            outcome,
            node: o.node.clone(),
            version: o.version,
            written_by: o.written_by,
            bytes: o.bytes as u64,
            connection: if o.kept { Connection::Kept } else { Connection::Fresh },
            reason,
        }
    }

    fn add(&mut self, entry: &Entry) {
        self.tally.add(entry);
        let count = match entry.outcome {
            Judged::Ok => &self.counts.ok,
            Judged::Failed => &self.counts.failed,
            Judged::NotSent => &self.counts.not_sent,
        };
        count.fetch_add(1, Ordering::SeqCst);
    }
}
