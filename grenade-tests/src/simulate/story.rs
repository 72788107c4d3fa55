//! What happened in a simulated world, line by line with its time, and a digest over all of it: two runs of one seed have
//! the same.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// A story as it is told.
#[derive(Debug, Clone, Default)]
pub(super) struct Story {
    hash: Sha256,
    lines: Vec<String>,
    keeps: bool,
}

impl Story {
    /// An empty one; it keeps its lines where that is asked, and their digest in any case.
    pub(super) fn new(keeps: bool) -> Self {
        Self { hash: Sha256::new(), lines: Vec::new(), keeps }
    }

    /// One more line, at so many milliseconds from the beginning.
    pub(super) fn tell(&mut self, at_ms: u64, line: &str) {
        let text = format!("{:>4}.{:03} {line}", at_ms / 1000, at_ms % 1000);
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
