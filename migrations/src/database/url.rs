//! Where a database is, parsed once, with a password that never shows again.

use super::Dialect;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use std::fmt;
use std::str::FromStr;

/// A database's address. `Debug` and `Display` show neither the password nor any parameter.
#[derive(Clone)]
pub struct DatabaseUrl {
    pub(super) target: Target,
    shown: String,
}

#[derive(Clone)]
pub(super) enum Target {
    Postgres(Box<PgConnectOptions>),
    Sqlite(Box<SqliteConnectOptions>),
}

/// A text that is no database URL. The text itself is not repeated: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a database url: {reason}; allowed are postgres://user@host:port/name and sqlite:PATH")]
pub struct InvalidUrl {
    reason: String,
}

impl DatabaseUrl {
    /// The SQL spoken there.
    pub fn dialect(&self) -> Dialect {
        match self.target {
            Target::Postgres(_) => Dialect::Postgres,
            Target::Sqlite(_) => Dialect::Sqlite,
        }
    }
}

impl FromStr for DatabaseUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let refuse = |reason: &str| InvalidUrl { reason: reason.to_owned() };
        let scheme = text.split(':').next().unwrap_or_default();
        match scheme {
            "postgres" | "postgresql" => {
                // The driver's own message may quote the text, hence is not passed on.
                let options = PgConnectOptions::from_str(text)
                    .map_err(|_| refuse("it cannot be parsed as postgres"))?;
                let place = match options.get_socket() {
                    Some(path) => format!("[{}]", path.display()),
                    None => format!("{}:{}", options.get_host(), options.get_port()),
                };
                let name = options.get_database().unwrap_or(options.get_username());
                let shown = format!("postgres://{}@{place}/{name}", options.get_username());
                Ok(DatabaseUrl { target: Target::Postgres(Box::new(options)), shown })
            }
            "sqlite" => {
                if text.contains(":memory:") || text.contains("mode=memory") {
                    return Err(refuse("a database in memory ends with each connection"));
                }
                let options = SqliteConnectOptions::from_str(text)
                    .map_err(|_| refuse("it cannot be parsed as sqlite"))?;
                if options.get_filename().as_os_str().is_empty() {
                    return Err(refuse("the path of the sqlite file is missing"));
                }
                let shown = format!("sqlite:{}", options.get_filename().display());
                Ok(DatabaseUrl { target: Target::Sqlite(Box::new(options)), shown })
            }
            _ => Err(refuse("its scheme is neither postgres nor sqlite")),
        }
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({})", self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_never_shows() {
        for text in [
            "postgres://u:s3cret@h:5432/d",
            "postgres://u@h/d?password=s3cret",
            "postgresql://u:s3cret@%2Ftmp/d",
        ] {
            let url: DatabaseUrl = text.parse().unwrap();
            assert!(!format!("{url} {url:?}").contains("s3cret"), "{url}");
            assert_eq!(url.dialect(), Dialect::Postgres);
        }
    }

    #[test]
    fn other_schemes_and_memory_are_refused_without_echo() {
        for text in ["mysql://u:s3cret@h/d", "s3cret", "sqlite::memory:", "postgres://u:s3cret@h:notaport/d"]
        {
            let error = text.parse::<DatabaseUrl>().unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
            assert!(error.contains("allowed are"), "{error}");
        }
    }
}
