//! What was applied, in the database itself: one row for the schema, one for each step.
//!
//! `tidegate_schema` has one row: the schema's random id, and the term that is obeyed.
//! `tidegate_history` has a row for every step that began and, as step -1, for every phase. Rows of
//! a migration that was undone stay, in state `undone`, and count no more.

mod owner;
mod record;
mod term;

pub(crate) use owner::{owner_argument, owner_of};
pub(crate) use record::{
    Entry, State, begin_entry, entries, finish_entry, reopen_entry, save_cursor, undo_entries,
};
pub(crate) use term::{Stored, raise, stored, stored_locked};

use crate::database::{Dialect, Session, Value};
use crate::error::Error;

/// The step number under which a phase itself is recorded.
pub(crate) const PHASE: i64 = -1;

/// Which tables are there, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// None of them.
    Missing,
    /// As a program made them before owners were recorded.
    WithoutOwners,
    /// As this program makes them.
    Complete,
}

/// The layout: one question, and none where this session has seen it complete. The tables and their columns are never
/// taken away while it lasts. Tables in a later schema of the search path are the history of that schema, which has a lock
/// of its own.
pub(crate) async fn layout(session: &mut Session) -> Result<Layout, Error> {
    if session.history_is_complete {
        return Ok(Layout::Complete);
    }
    let sql = match session.dialect() {
        Dialect::Postgres => {
            "SELECT (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = current_schema() AND c.relname IN ('tidegate_schema', 'tidegate_history')), \
             (SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
             JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() \
             AND c.relname = 'tidegate_history' AND a.attname = 'owner' AND NOT a.attisdropped)"
        }
        Dialect::Sqlite => {
            "SELECT (SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('tidegate_schema', \
             'tidegate_history')), (SELECT count(*) FROM pragma_table_info('tidegate_history') WHERE name = 'owner')"
        }
    };
    let rows = read(session, sql, &[]).await?;
    let layout = match rows.first().map(Vec::as_slice) {
        Some([Value::Int(0), _]) => Layout::Missing,
        Some([Value::Int(2), Value::Int(0)]) => Layout::WithoutOwners,
        Some([Value::Int(2), _]) => Layout::Complete,
        _ => {
            let found = "one of tidegate_schema and tidegate_history is missing".into();
            return Err(Error::History { found });
        }
    };
    session.history_is_complete = layout == Layout::Complete;
    Ok(layout)
}

/// Adds the column of owners to tables of an earlier program, which can still write to them. Inside a transaction, under
/// the lock. Rows that are there keep no owner.
pub(crate) async fn add_owners(session: &mut Session) -> Result<(), Error> {
    let sql = "ALTER TABLE tidegate_history ADD COLUMN owner TEXT";
    session.run(sql).await.map_err(|f| Error::of(f, sql))
}

/// Makes the tables and the schema's id. Inside a transaction, under the lock.
pub(crate) async fn create(session: &mut Session, schema_id: &str) -> Result<(), Error> {
    let seq = match session.dialect() {
        Dialect::Postgres => "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        Dialect::Sqlite => "INTEGER PRIMARY KEY AUTOINCREMENT",
    };
    let sql = format!(
        "CREATE TABLE tidegate_schema (
             only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
             format INTEGER NOT NULL,
             schema_id TEXT NOT NULL,
             term_revision BIGINT NOT NULL,
             term_id TEXT NOT NULL,
             last_leader TEXT NOT NULL
         );
         CREATE TABLE tidegate_history (
             seq {seq},
             migration TEXT NOT NULL,
             phase TEXT NOT NULL,
             step BIGINT NOT NULL,
             summary TEXT NOT NULL,
             checksum TEXT NOT NULL,
             state TEXT NOT NULL CHECK (state IN ('running', 'done', 'undone')),
             cursor TEXT,
             rows_done BIGINT NOT NULL DEFAULT 0,
             rows_total BIGINT NOT NULL DEFAULT 0,
             term_revision BIGINT NOT NULL,
             term_id TEXT NOT NULL,
             note TEXT,
             owner TEXT,
             started TEXT NOT NULL,
             ended TEXT
         );
         CREATE UNIQUE INDEX tidegate_history_live ON tidegate_history (migration, phase, step)
             WHERE state <> 'undone';"
    );
    session.run(&sql).await.map_err(|f| Error::of(f, "create table tidegate_history"))?;
    // Term 0 is below every real one: an etcd revision is at least 1.
    let first = "INSERT INTO tidegate_schema (only_row, format, schema_id, term_revision, term_id, last_leader) \
                 VALUES (1, 1, $1, 0, '', '')";
    change(session, first, &[schema_id.into()]).await?;
    Ok(())
}

async fn read(session: &mut Session, sql: &str, values: &[Value]) -> Result<Vec<Vec<Value>>, Error> {
    session.read(sql, values).await.map_err(|f| Error::of(f, sql))
}

async fn change(session: &mut Session, sql: &str, values: &[Value]) -> Result<u64, Error> {
    session.change(sql, values).await.map_err(|f| Error::of(f, sql))
}
