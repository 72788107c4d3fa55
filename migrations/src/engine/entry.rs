//! What a phase writes into the history between its steps: short transactions, as values.

use crate::error::Error;
use crate::history::{self, Entry, PHASE};
use crate::ladder::Ladder;
use crate::leader::Leader;
use crate::progress::ProgressSender;
use crate::unit::Phase;
use std::fmt;

/// A change of the history alone.
pub(super) enum Write<'a> {
    /// Begins a row, unless it is there.
    Begin { entry: &'a Entry, summary: &'a str, note: Option<&'a str> },
    /// Ends a row.
    Finish(&'a Entry),
    /// Ends the row of an undo, and lays aside what it undid; rows of what is still there stay.
    FinishUndo { entry: &'a Entry, stay: &'a [(Phase, i64)] },
    /// Opens fills again from their beginning.
    Reopen(&'a [Entry]),
}

/// Names it: `begin expand`, `end migrate step 1`.
impl fmt::Display for Write<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, entry) = match self {
            Self::Begin { entry, .. } => ("begin", *entry),
            Self::Finish(entry) | Self::FinishUndo { entry, .. } => ("end", *entry),
            Self::Reopen(_) => return f.write_str("open fills again"),
        };
        match entry.step {
            PHASE => write!(f, "{verb} {}", entry.phase),
            step => write!(f, "{verb} {} step {}", entry.phase, step + 1),
        }
    }
}

/// Writes, tried until the lock is granted; answers the row of `Begin` if it was there.
pub(super) async fn write(
    leader: &mut Leader,
    progress: &ProgressSender<'_>,
    write: Write<'_>,
) -> Result<Option<Entry>, Error> {
    let cancel = leader.cancel.clone();
    let mut ladder = Ladder::new(&cancel);
    loop {
        match attempt(leader, &write).await {
            Ok(kept) => return Ok(kept),
            Err(error) => {
                leader.session.rollback().await;
                ladder.rest(error, "the history", progress).await?;
            }
        }
    }
}

async fn attempt(leader: &mut Leader, write: &Write<'_>) -> Result<Option<Entry>, Error> {
    leader.begin().await?;
    let term = leader.term.clone();
    let session = &mut leader.session;
    let mut kept = None;
    match write {
        Write::Begin { entry, summary, note } => {
            // Most rows begin here: the history is read only where this one is there already.
            if !history::begin_entry(session, entry, summary, *note, &term).await? {
                kept = history::entries(session).await?.into_iter().find(|e| e.same_place(entry));
            }
        }
        Write::Finish(entry) => history::finish_entry(session, entry, &term).await?,
        Write::FinishUndo { entry, stay } => {
            history::finish_entry(session, entry, &term).await?;
            history::undo_entries(session, &entry.migration, stay).await?;
        }
        Write::Reopen(entries) => {
            for entry in *entries {
                history::reopen_entry(session, entry).await?;
            }
        }
    }
    leader.commit(&write.to_string()).await?;
    Ok(kept)
}
