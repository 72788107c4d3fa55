//! One line of a ledger, as it is written and read. Times are milliseconds since the load's start.

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::load::plan::LoadError;

/// The columns of a ledger, in their order.
pub const COLUMNS: [&str; 15] = [
    "seq",
    "scheduled_ms",
    "sent_ms",
    "first_ms",
    "done_ms",
    "own_ms",
    "kind",
    "status",
    "outcome",
    "node",
    "version",
    "written_by",
    "bytes",
    "connection",
    "reason",
];

/// Whether a request was answered as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judged {
    /// It was.
    Ok,
    /// It was not.
    Failed,
    /// The generator itself was late, and did not send it: this says nothing of the service.
    NotSent,
}

/// The connection that a request was sent over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// One of its own.
    Fresh,
    /// One that an earlier request had made.
    Kept,
}

/// What became of one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its place in the order, from 0.
    pub seq: u64,
    /// When it was due.
    pub scheduled_ms: f64,
    /// When it was sent.
    pub sent_ms: f64,
    /// When the head of its answer was there; empty if none came.
    pub first_ms: Option<f64>,
    /// When its outcome was known.
    pub done_ms: f64,
    /// How long it takes by itself, without any fault of the service.
    pub own_ms: f64,
    /// What it did.
    pub kind: String,
    /// The status of its answer; empty if none came.
    pub status: Option<u16>,
    /// Whether all was well.
    pub outcome: Judged,
    /// Which node answered; empty if that is not known.
    pub node: String,
    /// Which version answered; empty if that is not known.
    pub version: Option<u32>,
    /// Which version had written what was read; empty where nothing was, or where that is not known.
    pub written_by: Option<u32>,
    /// Bytes of the answer.
    pub bytes: u64,
    /// The connection it was sent over.
    pub connection: Connection,
    /// What was wrong: the kind, a colon, and what was said.
    pub reason: String,
}

impl Entry {
    /// Whether all was well.
    pub fn is_ok(&self) -> bool {
        self.outcome == Judged::Ok
    }

    /// Whether it was sent, and not answered as it should be.
    pub fn is_failed(&self) -> bool {
        self.outcome == Judged::Failed
    }

    /// Whether it was sent: one that was not counts neither as an answer nor as a failure of the service.
    pub fn is_sent(&self) -> bool {
        self.outcome != Judged::NotSent
    }

    /// From its instant to its outcome, in milliseconds; of what takes long by itself: beyond that.
    pub fn latency_ms(&self) -> f64 {
        (self.done_ms - self.scheduled_ms - self.own_ms).max(0.0)
    }

    /// How late it was sent, in milliseconds.
    pub fn lag_ms(&self) -> f64 {
        (self.sent_ms - self.scheduled_ms).max(0.0)
    }

    /// Whether it read, through one version, what another one wrote.
    pub fn is_across(&self) -> bool {
        self.is_ok() && self.written_by.is_some() && self.written_by != self.version
    }

    /// The kind of its failure, without what was said.
    pub fn failure(&self) -> &str {
        self.reason.split(':').next().unwrap_or_default()
    }
}

/// The longest load, in milliseconds: thirty days.
const LONGEST_MS: f64 = 30.0 * 24.0 * 3_600_000.0;

/// Reads a ledger, in the order in which outcomes were known.
///
/// # Errors
/// When the file cannot be read or a line is not one of a ledger.
pub fn read(path: &Path) -> Result<Vec<Entry>, LoadError> {
    let failed =
        |source: std::io::Error| LoadError::Unreadable { path: path.to_owned(), source: source.into() };
    entries(std::fs::File::open(path).map_err(failed)?, path)
}

/// Reads the text of a ledger; `path` is for errors.
///
/// # Errors
/// When a line is not one of a ledger.
pub fn entries(text: impl Read, path: &Path) -> Result<Vec<Entry>, LoadError> {
    let failed = |source| LoadError::Unreadable { path: path.to_owned(), source };
    let mut lines = csv::Reader::from_reader(text);
    let mut entries = Vec::new();
    for (n, entry) in lines.deserialize().enumerate() {
        let entry: Entry = entry.map_err(failed)?;
        let times = [entry.scheduled_ms, entry.sent_ms, entry.done_ms, entry.own_ms].into_iter();
        let is_no_time = |ms: &f64| !(0.0..=LONGEST_MS).contains(ms);
        if let Some(wrong) = times.chain(entry.first_ms).find(is_no_time) {
            // The first line names the columns.
            return Err(LoadError::NoTime { path: path.to_owned(), line: n + 2, wrong });
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// A good answer, for tests.
#[cfg(test)]
pub(crate) fn good(seq: u64, node: &str, at_ms: f64, took_ms: f64) -> Entry {
    Entry {
        seq,
        scheduled_ms: at_ms,
        sent_ms: at_ms,
        first_ms: Some(at_ms + took_ms),
        done_ms: at_ms + took_ms,
        own_ms: 0.0,
        kind: "read".to_owned(),
        status: Some(200),
        outcome: Judged::Ok,
        node: node.to_owned(),
        version: Some(1),
        written_by: None,
        bytes: 9,
        connection: Connection::Fresh,
        reason: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_no_load_has_is_refused_with_its_line() {
        for (wrong, refused) in
            [("1e300", true), ("NaN", true), ("-1.0", true), ("1000000000000", true), ("2.5", false)]
        {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut lines = csv::Writer::from_path(file.path()).unwrap();
            lines.serialize(good(0, "n1", 1.0, 2.0)).unwrap();
            lines.serialize(good(1, "n1", 2.0, 2.0)).unwrap();
            drop(lines);
            let text = std::fs::read_to_string(file.path()).unwrap();
            std::fs::write(file.path(), text.replacen("\n1,2.0", &format!("\n1,{wrong}"), 1)).unwrap();
            let said = read(file.path()).map_err(|error| error.to_string());
            assert_eq!(said.is_err(), refused, "{wrong}: {said:?}");
            let line = ":3: ";
            assert!(said.is_ok() || said.as_ref().is_err_and(|said| said.contains(line)), "{said:?}");
        }
    }
}
