//! The ledger: one CSV line for each request, and the sums over them. The only writer of the file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant};

use crate::load::attempt::Outcome;
use crate::load::plan::LoadError;
use crate::load::report::{LatencyMs, LoadReport};

/// The first line of the ledger. Times are milliseconds since the load's start.
pub const HEADER: &str = "seq,scheduled_ms,sent_ms,done_ms,kind,status,outcome,node,version,bytes,reason";
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
    file: BufWriter<File>,
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
        let made = File::create(&path).and_then(|file| {
            let mut file = BufWriter::new(file);
            writeln!(file, "{HEADER}").map(|()| file)
        });
        let file = made.map_err(|source| LoadError::Ledger { path: path.clone(), source })?;
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
            written = written.and_then(|()| self.write(&outcome));
            self.add(&outcome);
        }
        written = written.and_then(|()| self.file.flush());
        written.map_err(|source| LoadError::Ledger { path: self.path.clone(), source })?;
        Ok(self.finish())
    }

    fn write(&mut self, o: &Outcome) -> std::io::Result<()> {
        let ms = |at: Instant| at.saturating_duration_since(self.began).as_micros() as f64 / 1e3;
        let (scheduled, sent, done) = (ms(o.scheduled), ms(o.sent), ms(o.done));
        let (outcome, reason) = match &o.failure {
            None => ("ok", String::new()),
            Some(failure) => ("failed", quoted(&format!("{failure}: {}", failure.detail()))),
        };
        let status = o.status.map_or(String::new(), |status| status.to_string());
        let version = o.version.map_or(String::new(), |version| version.to_string());
        writeln!(
            self.file,
            "{},{scheduled:.3},{sent:.3},{done:.3},{},{status},{outcome},{},{version},{},{reason}",
            o.seq,
            o.kind,
            quoted(&o.node),
            o.bytes,
        )
    }

    fn add(&mut self, o: &Outcome) {
        let in_flight = o.done.saturating_duration_since(o.sent).as_secs_f64() * 1e3;
        self.report.slowest_in_flight_ms = self.report.slowest_in_flight_ms.max(in_flight);
        match &o.failure {
            None => {
                let taken = o.done.saturating_duration_since(o.scheduled).saturating_sub(o.own_length);
                self.latencies.saturating_record(in_us(taken));
                self.report.ok += 1;
                self.report.read_across += u64::from(o.across);
                *self.report.by_version.entry(o.version.unwrap_or_default()).or_default() += 1;
                *self.report.by_node.entry(o.node.clone()).or_default() += 1;
                self.counts.ok.fetch_add(1, Ordering::SeqCst);
            }
            Some(failure) => {
                self.report.failed += 1;
                *self.report.failures.entry(failure.to_string()).or_default() += 1;
                if self.report.first_failures.len() < FIRST {
                    let line = format!("{} {}: {failure}: {}", o.kind, o.seq, failure.detail());
                    self.report.first_failures.push(line);
                }
                self.counts.failed.fetch_add(1, Ordering::SeqCst);
            }
        }
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

fn in_us(taken: Duration) -> u64 {
    u64::try_from(taken.as_micros()).unwrap_or(SLOWEST_US).max(1)
}

/// A CSV field: in quotes where it must be, and always on one line.
fn quoted(text: &str) -> String {
    if !text.contains([',', '"', '\n', '\r']) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " "))
}
