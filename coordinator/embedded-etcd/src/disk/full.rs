//! A full disk: the file is opened again and the same rows are written again until there is space.
//!
//! redb refuses every use of a file after one failed write, and what the file then holds is known only after it is opened
//! again: all of the batch or none of it. Each row of a batch says a state, not a change, so writing it twice is the same
//! as writing it once.

use std::{
    io,
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use redb::Database;

use super::record::Record;
use super::{Message, layout};
use crate::durable::Durable;

/// Between two attempts.
const RETRY: Duration = Duration::from_secs(1);

/// How an outage ended.
pub(super) enum End {
    /// Everything up to this change is on the disk.
    Written { database: Database, last: u64 },
    /// The store was closed meanwhile: what was never answered as done is not in the file.
    Closed(tokio::sync::oneshot::Sender<()>),
    /// Something else than space is wrong.
    Broken(String),
    /// No handle on the store is left.
    Dropped,
}

/// Whether an error may pass by itself: there is no space on the file system, of a quota or within the limit of a file's
/// size; or an earlier use failed so, and redb refuses the file until it is opened again.
pub(super) fn may_pass(error: &redb::Error) -> bool {
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
    match error {
        redb::Error::Io(cause) => full.contains(&cause.kind()),
        redb::Error::PreviousIo => true,
        _ => false,
    }
}

/// Waits for space, and writes `batch`, whose last change is number `last`, with what was handed over meanwhile.
pub(super) fn wait(
    dir: &Path,
    inbox: &Receiver<Message>,
    mut carried: Option<Message>,
    durable: &Durable,
    batch: &mut Vec<Record>,
    mut last: u64,
    why: &redb::Error,
) -> End {
    tracing::error!(error = %why, dir = %dir.display(), "no space is left for the embedded store: it refuses every request until there is some");
    durable.pause(&why.to_string());
    loop {
        match carried.take().map_or_else(|| inbox.recv_timeout(RETRY), Ok) {
            // Changes that were made before the failure was known.
            Ok(Message::Write(sequence, record)) => {
                batch.push(record);
                last = sequence;
                continue;
            }
            Ok(Message::Defragment(done)) => {
                drop(done.send(Err(why.to_string())));
                continue;
            }
            Ok(Message::Close(done)) => return End::Closed(done),
            Err(RecvTimeoutError::Disconnected) => return End::Dropped,
            Err(RecvTimeoutError::Timeout) => {}
        }
        match attempt(dir, batch) {
            Ok(database) => {
                tracing::info!(dir = %dir.display(), "the embedded store has space again and goes on");
                return End::Written { database, last };
            }
            Err(error) if may_pass(&error) => {}
            Err(error) => return End::Broken(error.to_string()),
        }
    }
}

fn attempt(dir: &Path, batch: &[Record]) -> Result<Database, redb::Error> {
    // Never made: an empty file in the place of one that is gone would lose everything.
    let database = Database::builder().set_cache_size(layout::CACHE_BYTES).open(dir.join(layout::FILE))?;
    layout::write(&database, batch)?;
    Ok(database)
}
