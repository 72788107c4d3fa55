//! A session: one connection, its statements, and its end when the caller cancels.

use super::url::Target;
use super::watch::{self, OnWait, Watch};
use super::{DatabaseUrl, Dialect, Failure, Kind, postgres, sqlite};
use crate::held::{OpenSession, goes_on, held, is_held, lock_limit};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a connection attempt may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// How long a statement that is under way may go on after the caller cancelled; a short one ends well inside it, and a
/// connection to a host that is gone is left to itself after it.
const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// A plain value, to and from a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
}

impl Value {
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Value::Int(n) => Some(*n),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(t) => Some(t),
            _ => None,
        }
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Value::Int(n)
    }
}

impl From<&str> for Value {
    fn from(t: &str) -> Self {
        Value::Text(t.to_owned())
    }
}

enum Connection {
    Postgres(sqlx::PgConnection, OpenSession),
    Sqlite(sqlx::SqliteConnection),
}

/// A dedicated connection.
pub(crate) struct Session {
    connection: Connection,
    /// Under which it is connected.
    name: String,
    /// How the server is asked for it from outside; none on SQLite.
    watch: Option<Watch>,
    /// The file of a SQLite database.
    file: Option<sqlite::FoundFile>,
    cancel: CancellationToken,
    /// A statement was left unanswered: nothing more is said on it.
    left: bool,
    /// The engine's history was seen complete in it, see `history::layout`.
    pub(crate) history_is_complete: bool,
}

impl Session {
    /// Connects under `name`, which the database shows in its list of sessions.
    pub(crate) async fn connect(
        url: &DatabaseUrl,
        name: &str,
        cancel: &CancellationToken,
    ) -> Result<Self, Failure> {
        // Found before it is opened: what replaces it in between is noticed.
        let file = match &url.target {
            Target::Sqlite(options) => sqlite::FoundFile::at(options.get_filename()),
            Target::Postgres(_) => None,
        };
        let attempt = async {
            Ok(match &url.target {
                Target::Postgres(options) => {
                    let mut connection = postgres::connect(options, name).await?;
                    let own = postgres::read(&mut connection, &watch::own(), &[]).await?;
                    let watch = Watch::of(&own, url)?;
                    (Connection::Postgres(connection, OpenSession::one()), Some(watch))
                }
                Target::Sqlite(options) => (Connection::Sqlite(sqlite::connect(options).await?), None),
            })
        };
        let answer = tokio::select! {
            answer = tokio::time::timeout(CONNECT_LIMIT, held(attempt)) => answer,
            () = cancel.cancelled() => return Err(Failure::new(Kind::Cancelled, "cancelled while connecting")),
        };
        let (connection, watch) = answer.unwrap_or_else(|_| {
            Err(Failure::new(Kind::Unreachable, format!("no answer in {} s", CONNECT_LIMIT.as_secs())))
        })?;
        let (name, cancel) = (name.to_owned(), cancel.clone());
        Ok(Session { connection, name, watch, file, cancel, left: false, history_is_complete: false })
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self.connection {
            Connection::Postgres(..) => Dialect::Postgres,
            Connection::Sqlite(_) => Dialect::Sqlite,
        }
    }

    /// How it is looked at from outside; none on SQLite.
    pub(crate) fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// Fails where another database took the place of this one, and the session still reads the former: SQLite keeps a
    /// file open that was replaced. A server ends the sessions of a database that it replaces.
    pub(crate) fn is_current(&self) -> Result<(), Failure> {
        self.file.as_ref().map_or(Ok(()), sqlite::FoundFile::is_still_there)
    }

    /// Runs statements without parameters, several if need be; inside a transaction if one is open.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        self.run_as(sql, None).await
    }

    /// The same for statements that may take long: reports what they wait for.
    pub(crate) async fn run_long(&mut self, sql: &str, on_wait: &dyn OnWait) -> Result<(), Failure> {
        self.run_as(sql, Some(on_wait)).await
    }

    async fn run_as(&mut self, sql: &str, on_wait: Option<&dyn OnWait>) -> Result<(), Failure> {
        let cancel = self.cancel.clone();
        goes_on(&self.name).await;
        let answer = async {
            match &mut self.connection {
                Connection::Postgres(c, _) => postgres::run(c, sql).await,
                Connection::Sqlite(c) => sqlite::run(c, sql).await,
            }
        };
        within(&cancel, &mut self.left, self.watch.as_ref(), on_wait, answer).await
    }

    /// Runs one statement with parameters `$1`…; answers how many rows it changed.
    pub(crate) async fn change(&mut self, sql: &str, values: &[Value]) -> Result<u64, Failure> {
        let cancel = self.cancel.clone();
        goes_on(&self.name).await;
        let answer = async {
            match &mut self.connection {
                Connection::Postgres(c, _) => postgres::change(c, sql, values).await,
                Connection::Sqlite(c) => sqlite::change(c, sql, values).await,
            }
        };
        within(&cancel, &mut self.left, self.watch.as_ref(), None, answer).await
    }

    /// Runs one query with parameters `$1`…; answers its rows.
    pub(crate) async fn read(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Vec<Value>>, Failure> {
        let cancel = self.cancel.clone();
        goes_on(&self.name).await;
        let answer = async {
            match &mut self.connection {
                Connection::Postgres(c, _) => postgres::read(c, sql, values).await,
                Connection::Sqlite(c) => sqlite::read(c, sql, values).await,
            }
        };
        within(&cancel, &mut self.left, self.watch.as_ref(), None, answer).await
    }

    /// Opens a transaction that may write, and that waits for a lock no longer than `most`: one round trip. SQLite
    /// takes its write lock here, so that what is read inside is what is written upon; how long it waits for that lock
    /// is a setting of the connection.
    pub(crate) async fn begin(&mut self, most: Duration) -> Result<(), Failure> {
        match self.dialect() {
            Dialect::Postgres => {
                let limit = lock_limit(most).as_millis();
                self.run(&format!("BEGIN; SET LOCAL lock_timeout = {limit}")).await
            }
            Dialect::Sqlite => self.run("BEGIN IMMEDIATE").await,
        }
    }

    pub(crate) async fn commit(&mut self) -> Result<(), Failure> {
        self.run("COMMIT").await
    }

    /// Takes back what is open. Its own failure is not passed on: what led here says more, and a
    /// connection that cannot roll back is rolled back by the database when it ends.
    pub(crate) async fn rollback(&mut self) {
        if let Err(failure) = self.run("ROLLBACK").await {
            tracing::debug!(%failure, "rollback was not answered");
        }
    }

    /// Says good-bye; locks of the session are free when this returns.
    pub(crate) async fn close(self) {
        if self.left {
            return;
        }
        let end = async {
            match self.connection {
                Connection::Postgres(c, _open) => postgres::close(c).await,
                Connection::Sqlite(c) => sqlite::close(c).await,
            }
        };
        if tokio::time::timeout(CANCEL_GRACE, held(end)).await.is_err() {
            tracing::debug!("the database did not answer the good-bye");
        }
    }
}

async fn within<T>(
    cancel: &CancellationToken,
    left: &mut bool,
    watch: Option<&Watch>,
    on_wait: Option<&dyn OnWait>,
    answer: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    if *left {
        return Err(Failure::new(Kind::Unreachable, "an earlier statement was left unanswered"));
    }
    // Where the runtime's thread is held, the caller has no turn in which to cancel.
    let given_up = async {
        cancel.cancelled().await;
        tokio::time::sleep(CANCEL_GRACE).await;
    };
    let lost = async {
        match watch {
            // Where the runtime's thread is held, a look shows nothing but what is reported.
            Some(watch) if on_wait.is_some() || !is_held() => watch.lost(on_wait).await,
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        answer = held(answer) => answer,
        failure = lost => {
            *left = true;
            Err(failure)
        }
        () = given_up => {
            *left = true;
            Err(Failure::new(Kind::Unreachable, "no answer after the caller gave up"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn replaced_sqlite_file_is_noticed_while_it_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let [path, newer] = ["pantry.db", "newer.db"].map(|name| directory.path().join(name));
        for file in [&path, &newer] {
            std::fs::write(file, "").unwrap();
        }
        let url = format!("sqlite:{}", path.display()).parse().unwrap();
        let mut session = Session::connect(&url, "test", &CancellationToken::new()).await.unwrap();
        session.is_current().unwrap();
        std::fs::rename(&newer, &path).unwrap();
        session.read("SELECT 1", &[]).await.unwrap();
        assert_eq!(session.is_current().unwrap_err().kind, Kind::Unreachable);
        session.close().await;
    }
}
