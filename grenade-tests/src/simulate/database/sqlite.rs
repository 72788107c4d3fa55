//! A SQLite file. A process that has a file open keeps using it where another one took its place.

use super::engine::{Engine, Table};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tidegate_migrations::held::hold;

/// The file.
pub(super) struct SqliteFile {
    path: PathBuf,
    connection: Option<SqliteConnection>,
}

impl SqliteFile {
    /// The file at a path; it is made where it is missing.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, connection: None }
    }

    fn open(&mut self) -> Result<&mut SqliteConnection, sqlx::Error> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                // No other task can end the wait of a thread that holds the runtime's.
                let options = SqliteConnectOptions::new()
                    .filename(&self.path)
                    .create_if_missing(true)
                    .busy_timeout(Duration::ZERO)
                    .journal_mode(SqliteJournalMode::Memory)
                    .synchronous(SqliteSynchronous::Off);
                hold(SqliteConnection::connect_with(&options))?
            }
        };
        Ok(self.connection.insert(connection))
    }

    /// Puts a file that was kept in its place, and keeps what was there under a number.
    fn take_place(&mut self, kept: &str, number: usize) -> io::Result<()> {
        self.connection = None;
        std::fs::copy(&self.path, self.path.with_extension(format!("replaced{number}")))?;
        std::fs::rename(self.path.with_extension(kept), &self.path)
    }
}

impl Engine for SqliteFile {
    fn run(&mut self, sql: &str) -> Result<(), String> {
        let connection = self.open().map_err(|e| e.to_string())?;
        let done = hold(sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection));
        done.map(drop).map_err(|e| e.to_string())
    }

    fn text(&mut self, sql: &str) -> Result<String, String> {
        let connection = self.open().map_err(|e| e.to_string())?;
        let row = hold(sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(connection));
        row.and_then(|row| row.try_get(0)).map_err(|e| e.to_string())
    }

    fn query(&self, tables: &[Table<'_>]) -> String {
        let each = tables.iter().map(|(from, (name, text))| {
            format!("json((SELECT json_group_array(json_array({name}, {text})) FROM {from}))")
        });
        format!("SELECT json_array({})", each.collect::<Vec<_>>().join(", "))
    }

    fn objects(&self) -> &'static str {
        "(SELECT name, sql AS definition FROM sqlite_master WHERE name NOT LIKE 'tidegate%' AND name NOT LIKE \
         'sqlite_%' AND tbl_name NOT LIKE 'tidegate%' ORDER BY name)"
    }

    fn columns(&self) -> &'static str {
        "(SELECT name, type FROM pragma_table_info('items') ORDER BY name)"
    }

    /// It lists no sessions.
    fn set_programs(&mut self, _: &BTreeSet<String>) {}

    /// A process that is stopped in a transaction keeps the file's lock.
    fn end_idle(&mut self, _: u64) {}

    fn judge(&self) -> Option<&'static str> {
        None
    }

    fn is_away(&self) -> bool {
        self.path.is_dir()
    }

    fn set_away(&mut self, away: bool) -> io::Result<()> {
        let aside = self.path.with_extension("away");
        if away == aside.exists() {
            return Ok(());
        }
        self.connection = None;
        if away {
            std::fs::rename(&self.path, &aside)?;
            std::fs::create_dir(&self.path)
        } else {
            std::fs::remove_dir(&self.path)?;
            std::fs::rename(&aside, &self.path)
        }
    }

    fn keep_copy(&mut self) -> io::Result<()> {
        std::fs::copy(&self.path, self.path.with_extension("copy")).map(drop)
    }

    /// Another file under the same name, as a restore makes it.
    fn put_copy(&mut self, keeps: bool) -> io::Result<()> {
        self.connection = None;
        if keeps {
            std::fs::copy(&self.path, self.path.with_extension("newest"))?;
        }
        let fresh = self.path.with_extension("fresh");
        std::fs::copy(self.path.with_extension("copy"), &fresh)?;
        std::fs::rename(&fresh, &self.path)?;
        let _ = std::fs::remove_file(self.path.with_extension("sqlite-journal"));
        Ok(())
    }

    fn set_newest_aside(&mut self, number: usize) -> io::Result<()> {
        std::fs::rename(
            self.path.with_extension("newest"),
            self.path.with_extension(format!("replaced{number}")),
        )
    }

    fn put_newest(&mut self, number: usize) -> io::Result<()> {
        self.take_place("newest", number)
    }

    fn put_replaced(&mut self, number: usize, aside: usize) -> io::Result<()> {
        self.take_place(&format!("replaced{number}"), aside)
    }
}
