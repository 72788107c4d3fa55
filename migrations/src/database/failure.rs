//! What can go wrong between us and a database, sorted by what helps.

use super::Dialect;

/// The kinds of failure that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No connection, or the connection ended. Trying again later may help.
    Unreachable,
    /// The database refused who we are. Only another configuration helps.
    Authentication,
    /// A lock was not granted in the time allowed. Trying again helps.
    LockTimeout,
    /// The database chose us as the victim of a conflict. Trying again helps.
    Conflict,
    /// The statement was cancelled, by us or by an administrator.
    Cancelled,
    /// The statement itself is wrong for this database.
    Statement,
}

/// A failure with its kind, the database's words, and the driver's error as its source.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub kind: Kind,
    pub message: String,
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into(), source: None }
    }

    /// Sorts a driver's error.
    pub(crate) fn of(dialect: Dialect, error: sqlx::Error) -> Self {
        let (kind, message) = match &error {
            sqlx::Error::Database(e) => {
                let code = e.code().unwrap_or_default().into_owned();
                let kind = match dialect {
                    Dialect::Postgres => postgres_kind(&code),
                    Dialect::Sqlite => sqlite_kind(&code),
                };
                (kind, format!("{} (code {code})", e.message()))
            }
            sqlx::Error::Io(e) => (Kind::Unreachable, e.to_string()),
            sqlx::Error::Tls(e) => (Kind::Unreachable, format!("tls: {e}")),
            sqlx::Error::WorkerCrashed | sqlx::Error::BeginFailed => {
                (Kind::Unreachable, "the connection broke".into())
            }
            // A server that goes away in the middle of a message is a protocol error to the driver.
            sqlx::Error::Protocol(text) => (Kind::Unreachable, text.clone()),
            other => (Kind::Statement, other.to_string()),
        };
        Failure { kind, message, source: Some(Box::new(error)) }
    }

    /// Whether the database itself said so: it could be reached.
    pub(super) fn is_answer(&self) -> bool {
        let error = self.source.as_ref().and_then(|source| source.downcast_ref::<sqlx::Error>());
        matches!(error, Some(sqlx::Error::Database(_)))
    }
}

/// SQLSTATE classes and codes: PostgreSQL 17 manual, appendix A.
fn postgres_kind(code: &str) -> Kind {
    match code {
        "28000" | "28P01" | "3D000" | "42501" => Kind::Authentication,
        "55P03" => Kind::LockTimeout,
        "40001" | "40P01" => Kind::Conflict,
        "57014" => Kind::Cancelled,
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25P03" | "25P04" => Kind::Unreachable,
        code if code.starts_with("08") => Kind::Unreachable,
        _ => Kind::Statement,
    }
}

/// SQLite's result codes; the low byte is the primary one.
fn sqlite_kind(code: &str) -> Kind {
    match code.parse::<i64>().unwrap_or(0) & 0xff {
        5 | 6 => Kind::LockTimeout,     // SQLITE_BUSY, SQLITE_LOCKED
        9 => Kind::Cancelled,           // SQLITE_INTERRUPT
        10 | 14 => Kind::Unreachable,   // SQLITE_IOERR, SQLITE_CANTOPEN
        23 | 8 => Kind::Authentication, // SQLITE_AUTH, SQLITE_READONLY
        _ => Kind::Statement,
    }
}
