//! The event log of a run: a line with its time for each event, on the screen and in a file, with its last lines in memory.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context;

/// How many of the last lines are printed of a failed run.
const LAST: usize = 400;

/// A handle; clones write to the same log.
#[derive(Debug, Clone)]
pub(super) struct EventLog {
    began: Instant,
    recorded: Arc<Mutex<Lines>>,
    aloud: bool,
}

#[derive(Debug)]
struct Lines {
    file: File,
    lines: Vec<String>,
}

impl EventLog {
    /// Begins now, in a file; `aloud` prints each line too.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(super) fn begin(path: &Path, aloud: bool) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("could not make {}", path.display()))?;
        let recorded = Arc::new(Mutex::new(Lines { file, lines: Vec::new() }));
        Ok(Self { began: Instant::now(), recorded, aloud })
    }

    /// Milliseconds since it began.
    pub(super) fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    /// The same at another instant.
    pub(super) fn at(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    /// The same with its fraction: what lies within one millisecond keeps its order.
    pub(super) fn exactly(&self, instant: Instant) -> f64 {
        instant.saturating_duration_since(self.began).as_secs_f64() * 1e3
    }

    /// One more line.
    pub(super) fn log(&self, line: impl AsRef<str>) {
        let now = self.now();
        let text = format!("{:>5}.{:03} {}", now / 1000, now % 1000, line.as_ref());
        if self.aloud {
            println!("{text}");
        }
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        // A line that cannot be written to the disk is still printed.
        let _ = writeln!(recorded.file, "{text}");
        recorded.lines.push(text);
    }

    /// Its last lines.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.lines[recorded.lines.len().saturating_sub(LAST)..].to_vec()
    }
}
