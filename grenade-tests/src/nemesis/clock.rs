//! Wall clocks that step. Linux gives a namespace no wall clock of its own, so a library of ours is loaded into the
//! processes, which adds to the wall clock what a file says. (Debian's libfaketime also takes over sleeps: with the
//! monotonic clock left alone, its clock_nanosleep fails with EINVAL.)

use anyhow::{Context, ensure};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::world::program;

/// The library's source; the compiler is there wherever Rust links.
const SOURCE: &str = include_str!("clock.c");
const SECOND_NS: i64 = 1_000_000_000;

/// The clocks of a world.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    directory: PathBuf,
    library: PathBuf,
}

impl Clock {
    /// Builds the library in `directory`, where the clocks' files lie too.
    ///
    /// # Errors
    /// When there is no compiler, or it refuses.
    pub(super) fn new(directory: &Path) -> anyhow::Result<Self> {
        let (source, library) = (directory.join("clock.c"), directory.join("clock.so"));
        std::fs::write(&source, SOURCE).context("could not write the source of the clock's library")?;
        let done = Command::new(program::outside("cc")?)
            .args(["-shared", "-fPIC", "-O2", "-o"])
            .args([&library, &source])
            .stdin(Stdio::null())
            .output()
            .context("could not run cc")?;
        ensure!(done.status.success(), "cc refused clock.c: {}", String::from_utf8_lossy(&done.stderr));
        Ok(Self { directory: directory.to_owned(), library })
    }

    fn file(&self, of: &str) -> PathBuf {
        self.directory.join(format!("clock-{of}"))
    }

    /// What a process must be started with so that its clock is that of `of`.
    ///
    /// # Errors
    /// When the clock's file cannot be made.
    pub(super) fn env(&self, of: &str) -> anyhow::Result<Vec<(String, String)>> {
        let file = self.file(of);
        if !file.exists() {
            self.step(of, 0)?;
        }
        let named = |name: &str, path: &Path| (name.to_owned(), path.display().to_string());
        Ok(vec![named("LD_PRELOAD", &self.library), named("TIDEGATE_CLOCK", &file)])
    }

    /// Sets the clock of `of` to the right time and so many seconds.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn step(&self, of: &str, seconds: i64) -> anyhow::Result<()> {
        let path = self.file(of);
        let nanoseconds = seconds.saturating_mul(SECOND_NS).to_ne_bytes();
        // In place: processes have the file in their memory.
        let mut file = std::fs::File::options().create(true).truncate(false).write(true).open(&path);
        file.as_mut()
            .map_err(|e| std::io::Error::from(e.kind()))
            .and_then(|file| file.rewind().and_then(|()| file.write_all(&nanoseconds)))
            .with_context(|| format!("could not write {}", path.display()))
    }
}
