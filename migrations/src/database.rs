//! One connection to the one database whose schema changes, whatever its engine.
//!
//! Modules above say what they want in SQL and get rows of plain values or a classified
//! [`Failure`]; only the files of this directory name a driver. Connections are direct and
//! dedicated: no pool, because locks and settings of a session must stay where they were made.

mod failure;
mod postgres;
mod session;
mod sqlite;
mod statements;
mod url;
mod watch;

pub(crate) use failure::{Failure, Kind};
pub(crate) use session::{Session, Value};
pub use url::{DatabaseUrl, InvalidUrl};
pub(crate) use watch::OnWait;

/// The SQL that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// PostgreSQL 13 or newer.
    Postgres,
    /// SQLite 3.35 or newer.
    Sqlite,
}

impl Dialect {
    /// Both, in the order in which they are linted.
    pub const ALL: [Dialect; 2] = [Dialect::Postgres, Dialect::Sqlite];

    /// An expression for the database's own clock, as RFC 3339 text in UTC. One clock per history:
    /// the clocks of coordinators never meet in it.
    pub(crate) fn now(self) -> &'static str {
        match self {
            Dialect::Postgres => {
                r#"to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"#
            }
            Dialect::Sqlite => "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
        }
    }
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Dialect::Postgres => "postgres",
            Dialect::Sqlite => "sqlite",
        })
    }
}
