//! The ledger: one CSV line for each request, and the sums over them. The only writer of the file.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use tidegate_proto::printable::one_line;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::load::entry::{Connection, Entry, Judged};
use crate::load::outcome::Outcome;
use crate::load::plan::LoadError;
use crate::load::report::{LatencyMs, LoadReport};

/// Latencies above two minutes are all alike.
const SLOWEST_US: u64 = 120_000_000;
/// How many failures are kept in words.
const FIRST: usize = 20;

/// Counts that others may watch.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests that came due.
    pub sent: AtomicU64,
    /// Of these, answered as they should.
    pub ok: AtomicU64,
    /// Of these, failed.
    pub failed: AtomicU64,
}

/// The ledger while it is written.
pub struct Ledger {
    file: csv::Writer<File>,
    path: PathBuf,
    began: Instant,
    latencies: Histogram<u64>,
    report: LoadReport,
    counts: Arc<Counts>,
}

impl Ledger {
    /// Makes the file anew.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: PathBuf, began: Instant, counts: Arc<Counts>) -> Result<Self, LoadError> {
        let file = csv::Writer::from_path(&path)
            .map_err(|source| LoadError::Ledger { path: path.clone(), source })?;
        let latencies = Histogram::new_with_bounds(1, SLOWEST_US, 3)
            .expect("1 below 120,000,000 at 3 digits are valid bounds of a histogram");
        Ok(Self { file, path, began, latencies, report: LoadReport::default(), counts })
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
        while let Some(outcome) = outcomes.recv().await {
            let entry = self.entry(&outcome);
            written = written.and_then(|()| self.file.serialize(&entry));
            self.add(&entry);
        }
        written = written.and_then(|()| self.file.flush().map_err(csv::Error::from));
        written.map_err(|source| LoadError::Ledger { path: self.path.clone(), source })?;
        Ok(self.finish())
    }

    fn entry(&self, o: &Outcome) -> Entry {
        let ms = |at: Instant| at.saturating_duration_since(self.began).as_micros() as f64 / 1e3;
        let (outcome, reason) = match &o.failure {
            None => (Judged::Ok, String::new()),
            // On one line: a ledger is read with line tools too, and on terminals.
            Some(failure) => {
                let reason = format!("{failure}: {}", failure.detail());
                (Judged::Failed, one_line(reason.trim_end()).into_owned())
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
        let report = &mut self.report;
        if entry.is_ok() {
            self.latencies.saturating_record(((entry.latency_ms() * 1e3) as u64).clamp(1, SLOWEST_US));
            report.ok += 1;
            report.read_across += u64::from(entry.is_across());
            *report.by_version.entry(entry.version.unwrap_or_default()).or_default() += 1;
            *report.by_node.entry(entry.node.clone()).or_default() += 1;
            self.counts.ok.fetch_add(1, Ordering::SeqCst);
            return;
        }
        report.failed += 1;
        *report.failures.entry(entry.failure().to_owned()).or_default() += 1;
        if report.first_failures.len() < FIRST {
            report.first_failures.push(format!("{} {}: {}", entry.kind, entry.seq, entry.reason));
        }
        self.counts.failed.fetch_add(1, Ordering::SeqCst);
    }

    fn finish(mut self) -> LoadReport {
        let at = |quantile| self.latencies.value_at_quantile(quantile) as f64 / 1e3;
        if !self.latencies.is_empty() {
            let max = self.latencies.max() as f64 / 1e3;
            self.report.latency_ms = LatencyMs { p50: at(0.5), p99: at(0.99), p999: at(0.999), max };
        }
        self.report
    }
}
