//! How soon a batch must be on the disk: on SQLite, not before the fill's end.
//!
//! A commit that waits for the disk keeps the file's one write lock while it waits, and every writer
//! with it. In WAL mode a commit without that wait may be lost with the machine's power, but the
//! batch and its cursor are lost together; the step's own end waits for the disk again, and with it
//! for all that was before. PostgreSQL keeps its settings: leaving that wait out gained nothing (measured), and to
//! start the writing of evicted pages soon (`backend_flush_after`) makes the fill a tenth slower (measured).

use crate::database::{Dialect, Session, Value};
use crate::error::Error;

/// Batches need not wait for the disk, where that is safe.
pub(super) async fn relax(session: &mut Session) -> Result<(), Error> {
    if session.dialect() == Dialect::Sqlite {
        let ask = "PRAGMA journal_mode";
        let rows = session.read(ask, &[]).await.map_err(|f| Error::of(f, ask))?;
        // Outside WAL mode a lost wait can cost more than the last commits.
        if rows.first().and_then(|r| r.first()).and_then(Value::text) == Some("wal") {
            set(session, "PRAGMA synchronous = NORMAL").await?;
        }
    }
    Ok(())
}

/// Commits wait for the disk again.
pub(super) async fn restore(session: &mut Session) -> Result<(), Error> {
    if session.dialect() == Dialect::Sqlite {
        set(session, "PRAGMA synchronous = FULL").await?;
    }
    Ok(())
}

async fn set(session: &mut Session, sql: &str) -> Result<(), Error> {
    session.run(sql).await.map_err(|f| Error::of(f, sql))
}
