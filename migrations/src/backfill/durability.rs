//! How soon a batch must be on the disk: on SQLite, not before the fill's end.
//!
//! A commit that waits for the disk keeps the file's one write lock while it waits, and every writer
//! with it. In WAL mode a commit without that wait may be lost with the machine's power, but the
//! batch and its cursor are lost together; the step's own end waits for the disk again, and with it
//! for all that was before. PostgreSQL keeps its settings: leaving that wait out gained nothing (measured), and to
//! start the writing of evicted pages soon (`backend_flush_after`) makes the fill a tenth slower (measured), which is worth
//! it beside others only.

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
    match session.dialect() {
        Dialect::Sqlite => set(session, "PRAGMA synchronous = FULL").await,
        Dialect::Postgres => share(session, false).await,
    }
}

/// While others write, evicted pages are written to the disk soon: left to the kernel they go with the checkpoint's end,
/// all at once, and every commit waits for them (measured: 60 to 110 ms; so 13 to 25 ms).
pub(super) async fn share(session: &mut Session, shared: bool) -> Result<(), Error> {
    let flush = if shared { "'256kB'" } else { "DEFAULT" };
    match session.dialect() {
        Dialect::Postgres => set(session, &format!("SET backend_flush_after = {flush}")).await,
        Dialect::Sqlite => Ok(()),
    }
}

async fn set(session: &mut Session, sql: &str) -> Result<(), Error> {
    session.run(sql).await.map_err(|f| Error::of(f, sql))
}
