//! One line of a ledger, as it is written and read. Times are milliseconds since the load's start.

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

/// Reads a ledger, in the order in which outcomes were known.
///
/// # Errors
/// When the file cannot be read or a line is not one of a ledger.
pub fn read(path: &Path) -> Result<Vec<Entry>, LoadError> {
    let failed = |source| LoadError::Unreadable { path: path.to_owned(), source };
    let mut lines = csv::Reader::from_path(path).map_err(failed)?;
    lines.deserialize().collect::<Result<_, _>>().map_err(failed)
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
