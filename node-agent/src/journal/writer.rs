//! Writes the journal in the background.

use super::Journal;
use crate::host::{self, Host};
use crate::pair::state::{StateError, StateFile};
use std::io;
use std::sync::Arc;
use tidegate_proto::mutant;
use tokio::sync::oneshot;

/// Writes the journal beside what else the agent does: one write at a time, in order. What must be on the disk first waits
/// for it: an act, and a report on which others build.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    host: Arc<dyn Host>,
    file: StateFile<Journal>,
    /// The journal has changed since the last write was begun.
    changed: bool,
    writes: Option<oneshot::Receiver<(StateFile<Journal>, Result<(), StateError>)>>,
}

impl JournalWriter {
    /// For a file that was read.
    pub(crate) fn new(host: &Arc<dyn Host>, file: StateFile<Journal>) -> Self {
        Self { host: Arc::clone(host), file, changed: false, writes: None }
    }

    /// The journal has changed: it is written before the next act with an effect, the next report, the next rest.
    pub(crate) fn mark_changed(&mut self) {
        self.changed = true;
    }

    /// Begins to write `journal` where it has changed, after what is being written.
    pub(crate) async fn begin(&mut self, journal: &Journal) -> Result<(), StateError> {
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        self.ended().await?;
        let (mut file, journal) = (self.file.clone(), journal.clone());
        self.writes = Some(host::aside(self.host.as_ref(), move || {
            let written = file.write(&journal);
            (file, written)
        }));
        Ok(())
    }

    /// Waits until `journal` is on the disk.
    pub(crate) async fn flush(&mut self, journal: &Journal) -> Result<(), StateError> {
        self.begin(journal).await?;
        self.ended().await
    }

    /// The same, before what the journal must outlast: an act, or a report on which others build.
    pub(crate) async fn flush_first(&mut self, journal: &Journal) -> Result<(), StateError> {
        if mutant::is("journal-is-written-after-the-act") {
            return Ok(());
        }
        self.flush(journal).await
    }

    /// Writes `journal` before a look. Where a stop or a start follows from that look, it is on the disk first: what happens
    /// while the disk writes is seen.
    pub(crate) async fn write_before_look(&mut self, journal: &Journal) -> Result<(), StateError> {
        match journal.phase.precedes_stop_or_start() {
            true => self.flush_first(journal).await,
            false => self.begin(journal).await,
        }
    }

    async fn ended(&mut self) -> Result<(), StateError> {
        let Some(writes) = &mut self.writes else { return Ok(()) };
        let ended = writes.await;
        self.writes = None;
        let (file, written) = ended.map_err(|broken| self.file.failed("write")(io::Error::other(broken)))?;
        self.file = file;
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Target;
    use crate::journal::Phase;
    use crate::machine::Machine;
    use tidegate_proto::ServiceVersion;

    #[tokio::test]
    async fn stop_and_start_are_on_the_disk_before_the_look() {
        let (room, host) = (tempfile::tempdir().unwrap(), Machine::shared());
        let mut file = StateFile::<Journal>::within(&host, room.path());
        file.read().unwrap();
        let mut writer = JournalWriter::new(&host, file);
        let target =
            Target { tag: "pantry-2".parse().unwrap(), version: ServiceVersion::default(), sha256: None };
        for (phase, waits) in [
            (Phase::Drained { forced: false }, false),
            (Phase::Stopping, true),
            (Phase::Stopped, false),
            (Phase::Starting { target }, true),
            (Phase::Verifying, false),
        ] {
            let journal = Journal { phase, ..Journal::default() };
            writer.mark_changed();
            writer.write_before_look(&journal).await.unwrap();
            assert_eq!(writer.writes.is_none(), waits, "{:?}", journal.phase);
            writer.flush(&journal).await.unwrap();
            let written = StateFile::<Journal>::within(&host, room.path()).read().unwrap();
            assert_eq!(written, journal);
        }
    }
}
