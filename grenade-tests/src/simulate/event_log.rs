//! The event log of a simulated world: a line with its time for each event, and a digest of all lines, which two runs of
//! one seed share.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// The time of a line.
pub(super) fn seconds(at_ms: u64) -> String {
    format!("{:>4}.{:03}", at_ms / 1000, at_ms % 1000)
}

/// An event log.
#[derive(Debug, Clone, Default)]
pub(super) struct EventLog {
    hash: Sha256,
    lines: Vec<String>,
    keeps: bool,
}

impl EventLog {
    /// An empty log; it keeps its lines if `keeps` is set, and their digest in any case.
    pub(super) fn new(keeps: bool) -> Self {
        Self { hash: Sha256::new(), lines: Vec::new(), keeps }
    }

    /// One more line, at so many milliseconds from the beginning.
    pub(super) fn log(&mut self, at_ms: u64, line: &str) {
        let text = format!("{} {line}", seconds(at_ms));
        self.hash.update(&text);
        self.hash.update("\n");
        if self.keeps {
            self.lines.push(text);
        }
    }

    /// The lines that were kept.
    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The digest of all lines so far.
    pub(super) fn digest(&self) -> String {
        let mut text = String::new();
        for byte in self.hash.clone().finalize().iter().take(8) {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}
