//! What happens, told line by line with its time: to the screen, to a file, and to whoever asks for the end of it.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context;

/// How many of the last lines are told of a failed run.
const LAST: usize = 400;

/// A handle; clones tell the same story.
#[derive(Debug, Clone)]
pub(super) struct Tale {
    began: Instant,
    told: Arc<Mutex<Told>>,
    aloud: bool,
}

#[derive(Debug)]
struct Told {
    file: File,
    lines: Vec<String>,
}

impl Tale {
    /// Begins now, in a file; `aloud` prints each line too.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(super) fn begin(path: &Path, aloud: bool) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("could not make {}", path.display()))?;
        let told = Arc::new(Mutex::new(Told { file, lines: Vec::new() }));
        Ok(Self { began: Instant::now(), told, aloud })
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
    pub(super) fn tell(&self, line: impl AsRef<str>) {
        let now = self.now();
        let text = format!("{:>5}.{:03} {}", now / 1000, now % 1000, line.as_ref());
        if self.aloud {
            println!("{text}");
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // A story that cannot be kept on the disk is still told.
        let _ = writeln!(told.file, "{text}");
        told.lines.push(text);
    }

    /// Its last lines.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.lines[told.lines.len().saturating_sub(LAST)..].to_vec()
    }
}
