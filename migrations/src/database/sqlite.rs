//! SQLite through its driver: connect, run, read. No decisions.

use super::statements::statements;
use super::{Dialect, Failure, Kind, Value};
use crate::held::is_held;
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection, TypeInfo, ValueRef};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long we wait for other writers of the file before a try counts as refused. SQLite grants its
/// one write lock without a queue; a refused try is repeated by the ladder.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// A file as it is found at a path: SQLite keeps it open where another one takes its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl FoundFile {
    /// The file at a path; none where it cannot be found.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    /// Fails where it is at its path no more.
    pub(super) fn is_still_there(&self) -> Result<(), Failure> {
        if Self::at(&self.path).as_ref() == Some(self) {
            return Ok(());
        }
        let words = format!("the file {} was replaced or moved while it was open", self.path.display());
        Err(Failure::new(Kind::Unreachable, words))
    }
}

fn failure(error: sqlx::Error) -> Failure {
    Failure::of(Dialect::Sqlite, error)
}

pub(super) async fn connect(options: &SqliteConnectOptions) -> Result<SqliteConnection, Failure> {
    let busy = if is_held() { Duration::ZERO } else { BUSY_TIMEOUT };
    let options = options.clone().busy_timeout(busy).statement_cache_capacity(0);
    SqliteConnection::connect_with(&options).await.map_err(failure)
}

statements!(sqlx::Sqlite, SqliteConnection, SqliteRow);

pub(super) async fn close(connection: SqliteConnection) {
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "the database file was not closed cleanly");
    }
}

fn value(row: &SqliteRow, at: usize) -> Result<Value, Failure> {
    let raw = row.try_get_raw(at).map_err(failure)?;
    if raw.is_null() {
        return Ok(Value::Null);
    }
    match raw.type_info().name() {
        "INTEGER" | "BOOLEAN" => row.try_get_unchecked::<i64, _>(at).map(Value::Int).map_err(failure),
        "TEXT" => row.try_get_unchecked::<String, _>(at).map(Value::Text).map_err(failure),
        other => {
            let found = format!("column {} is of type {other}; allowed are integers and text", at + 1);
            Err(Failure::new(Kind::Statement, found))
        }
    }
}
