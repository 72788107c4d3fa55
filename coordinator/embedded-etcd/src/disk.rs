//! The file of a store, written by one thread of its own.
//!
//! Group commit: the thread takes everything that waits for it, writes it as one redb transaction and fsyncs once;
//! each change keeps its own revision, and each writer is answered after that fsync. A lone writer never waits for
//! company. Reads never come here.
//!
//! Where a write fails for lack of space, the thread waits for space and writes it again ([`full`]). After any other failed
//! write it stops: what the file then holds is known only after it is opened again, by another process.

mod full;
pub(crate) mod layout;
mod record;

pub(crate) use record::{LeaseChange, Record};

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
};

use redb::Database;
use tokio::sync::oneshot;

use self::layout::Loaded;
use crate::{durable::Durable, error::OpenError, lock::DirLock, refusal::Refusal};

/// Most changes that one fsync covers: bounds the memory of one redb transaction.
const MAX_BATCH: usize = 4096;

enum Message {
    Write(u64, Record),
    Defragment(oneshot::Sender<Result<(), String>>),
    Close(oneshot::Sender<()>),
}

/// The sending half: what the store hands its changes to.
#[derive(Debug)]
pub(crate) struct Disk {
    messages: Sender<Message>,
    file: PathBuf,
}

impl Disk {
    /// Locks the directory, opens the file and reads it, then starts to write for `durable`, which is made from what
    /// was read.
    pub(crate) async fn open(dir: &Path, holder: &str) -> Result<(Self, Loaded, Arc<Durable>), OpenError> {
        let (opened, answer) = oneshot::channel();
        let (messages, inbox) = channel();
        let (dir, holder) = (dir.to_path_buf(), holder.to_owned());
        let file = dir.join(layout::FILE);
        std::thread::Builder::new()
            .name("embedded-store".to_owned())
            .spawn(move || {
                // The lock is dropped last, when the file is closed.
                match lock_and_load(&dir, &holder) {
                    Err(error) => drop(opened.send(Err(error))),
                    Ok((lock, database, loaded)) => {
                        let durable = Arc::new(Durable::new(loaded.kv.revision()));
                        if opened.send(Ok((loaded, durable.clone()))).is_ok() {
                            run(&dir, database, &inbox, &durable, lock);
                        }
                    }
                }
            })
            .map_err(|source| OpenError::Thread { source })?;
        let (loaded, durable) = answer.await.map_err(|_| OpenError::Interrupted)??;
        Ok((Self { messages, file }, loaded, durable))
    }

    /// Hands over the next change. Where the thread has ended, `durable` gives the reason to every waiter.
    pub(crate) fn send(&self, sequence: u64, record: Record) {
        drop(self.messages.send(Message::Write(sequence, record)));
    }

    /// Bytes of the file.
    pub(crate) fn size(&self) -> i64 {
        std::fs::metadata(&self.file).map_or(0, |file| i64::try_from(file.len()).unwrap_or(i64::MAX))
    }

    /// Gives unused space of the file back to the file system.
    pub(crate) async fn defragment(&self) -> Result<(), Refusal> {
        let (done, answer) = oneshot::channel();
        drop(self.messages.send(Message::Defragment(done)));
        answer.await.map_err(|_| Refusal::Stopped)?.map_err(Refusal::Disk)
    }

    /// Returns when everything handed over is written, the file is closed and the directory unlocked.
    pub(crate) async fn close(&self) {
        let (done, answer) = oneshot::channel();
        drop(self.messages.send(Message::Close(done)));
        // An error means that the thread had ended before: there is nothing left to close.
        drop(answer.await);
    }
}

fn lock_and_load(dir: &Path, holder: &str) -> Result<(DirLock, Database, Loaded), OpenError> {
    std::fs::create_dir_all(dir).map_err(|source| OpenError::Directory { dir: dir.to_path_buf(), source })?;
    let lock = DirLock::take(dir, holder)?;
    let database = layout::open(dir)?;
    let loaded = layout::load(&database, &dir.join(layout::FILE))?;
    Ok((lock, database, loaded))
}

/// However the thread ends, its waiters are released.
struct Ending<'a>(&'a Durable);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.fail("the thread that writes it has ended");
    }
}

fn run(dir: &Path, mut database: Database, inbox: &Receiver<Message>, durable: &Durable, lock: DirLock) {
    let _ending = Ending(durable);
    let mut carried = None;
    while let Some(message) = carried.take().or_else(|| inbox.recv().ok()) {
        match message {
            Message::Close(done) => {
                drop(database);
                drop(lock);
                let _ = done.send(());
                return;
            }
            Message::Defragment(done) => {
                let compacted = database.compact().map(drop).map_err(|error| error.to_string());
                drop(done.send(compacted));
            }
            Message::Write(sequence, record) => {
                let mut batch = vec![record];
                carried = gather(inbox, &mut batch);
                let mut last = sequence + batch.len() as u64 - 1;
                if let Err(error) = layout::write(&database, &batch) {
                    if !full::may_pass(&error) {
                        return stop(durable, &error.to_string());
                    }
                    // One process may have the file open once.
                    drop(database);
                    match full::wait(dir, inbox, carried.take(), durable, &mut batch, last, &error) {
                        full::End::Written { database: reopened, last: written } => {
                            (database, last) = (reopened, written);
                        }
                        full::End::Closed(done) => {
                            drop(lock);
                            let _ = done.send(());
                            return;
                        }
                        full::End::Broken(why) => return stop(durable, &why),
                        full::End::Dropped => return,
                    }
                }
                let revisions: Vec<_> = batch.into_iter().filter_map(|record| record.revision).collect();
                durable.reached(last, &revisions);
            }
        }
    }
}

fn stop(durable: &Durable, why: &str) {
    tracing::error!(error = why, "could not write to the embedded store; it no longer answers");
    durable.fail(why);
}

/// Adds the writes that wait already; answers the first message that is something else.
fn gather(inbox: &Receiver<Message>, batch: &mut Vec<Record>) -> Option<Message> {
    while batch.len() < MAX_BATCH {
        match inbox.try_recv() {
            Ok(Message::Write(_, record)) => batch.push(record),
            Ok(other) => return Some(other),
            Err(_) => return None,
        }
    }
    None
}
