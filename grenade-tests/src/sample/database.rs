//! Where the catalogue's database is and how it is opened. Never decides what is asked of it.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{PgPool, SqlitePool};
use thiserror::Error;

/// How long a writer of SQLite waits for another one: a backfill batch holds the lock for tens of milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections of one instance. Six instances stay far below PostgreSQL's default of 100.
const CONNECTIONS: u32 = 4;

/// A database by its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// `postgres://user:password@host:port/name`.
    Postgres(String),
    /// `sqlite:PATH` or `sqlite://PATH`: one file.
    Sqlite(PathBuf),
}

/// Why a database URL or a database was refused.
#[derive(Debug, Error)]
pub enum DatabaseError {
    /// The URL names neither engine.
    #[error("database URL begins with `{found}`; postgres://… or sqlite:PATH is allowed")]
    Scheme {
        /// The text before the first colon; never the rest, which may hold a password.
        found: String,
    },
    /// The URL names an engine, but the rest of it is malformed.
    #[error("database URL for {engine} is malformed")]
    Malformed {
        /// Which engine it named.
        engine: &'static str,
        /// The error of the parser.
        #[source]
        source: sqlx::Error,
    },
    /// The database could not be opened or asked.
    #[error("could not {tried} the catalogue's database")]
    Unusable {
        /// What was tried.
        tried: &'static str,
        /// The error of the driver.
        #[source]
        source: sqlx::Error,
    },
    /// Init found a catalogue.
    #[error(
        "the database already holds the table `images`; init makes a catalogue in an empty database only"
    )]
    NotEmpty,
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        match scheme {
            "postgres" | "postgresql" => {
                PgConnectOptions::from_str(text)
                    .map_err(|source| DatabaseError::Malformed { engine: "PostgreSQL", source })?;
                Ok(Self::Postgres(text.to_owned()))
            }
            "sqlite" => {
                let rest = text["sqlite:".len()..].trim_start_matches("//");
                match rest.split('?').next().filter(|path| !path.is_empty() && *path != ":memory:") {
                    Some(path) => Ok(Self::Sqlite(PathBuf::from(path))),
                    None => Err(DatabaseError::Scheme { found: "sqlite: without a file".to_owned() }),
                }
            }
            other => Err(DatabaseError::Scheme { found: other.chars().take(20).collect() }),
        }
    }
}

/// An open catalogue database.
#[derive(Debug, Clone)]
pub enum Database {
    /// PostgreSQL.
    Postgres(PgPool),
    /// SQLite, one file in WAL mode.
    Sqlite(SqlitePool),
}

/// Runs the same block over whichever pool is open: both engines understand the SQL of this room.
macro_rules! on_either {
    ($database:expr, $pool:ident => $body:expr) => {
        match $database {
            $crate::sample::database::Database::Postgres($pool) => $body,
            $crate::sample::database::Database::Sqlite($pool) => $body,
        }
    };
}
pub(crate) use on_either;

impl Database {
    /// A pool that connects when first asked; `session` is what PostgreSQL shows as the session's `application_name`.
    ///
    /// Statements are not cached: an expand changes tables under prepared statements.
    pub fn open(url: &DatabaseUrl, session: &str) -> Result<Self, DatabaseError> {
        match url {
            DatabaseUrl::Postgres(url) => {
                let options = PgConnectOptions::from_str(url)
                    .map_err(|source| DatabaseError::Malformed { engine: "PostgreSQL", source })?
                    .application_name(session)
                    .statement_cache_capacity(0);
                let pool = PgPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(BUSY_TIMEOUT);
                Ok(Self::Postgres(pool.connect_lazy_with(options)))
            }
            DatabaseUrl::Sqlite(path) => Ok(Self::Sqlite(sqlite_pool().connect_lazy_with(sqlite(path)))),
        }
    }

    /// Like [`Database::open`], and makes the SQLite file in WAL mode where there is none. PostgreSQL databases are
    /// made by the server's operator.
    pub async fn create(url: &DatabaseUrl, session: &str) -> Result<Self, DatabaseError> {
        let DatabaseUrl::Sqlite(path) = url else { return Self::open(url, session) };
        let options = sqlite(path).create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
        let pool = sqlite_pool()
            .connect_with(options)
            .await
            .map_err(|source| DatabaseError::Unusable { tried: "create", source })?;
        Ok(Self::Sqlite(pool))
    }

    /// How a transaction that writes begins: SQLite must take its write lock at once, or two writers that upgrade from
    /// reading refuse each other.
    pub fn begin_writing(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "BEGIN",
            Self::Sqlite(_) => "BEGIN IMMEDIATE",
        }
    }

    /// Ends all connections in good order.
    pub async fn close(&self) {
        on_either!(self, pool => pool.close().await);
    }
}

fn sqlite_pool() -> SqlitePoolOptions {
    SqlitePoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(BUSY_TIMEOUT)
}

fn sqlite(path: &std::path::Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .synchronous(SqliteSynchronous::Normal)
        .statement_cache_capacity(0)
}
