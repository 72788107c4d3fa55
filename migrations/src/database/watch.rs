//! Whether a server still has a session that waits for its answer. A host that vanished closes no connection, and the driver
//! sets no keep-alive: that no answer will come shows on another connection.

use super::{Dialect, Failure, Kind};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, Postgres};
use std::time::Duration;
use tokio::time::Instant;

/// How long a statement takes before its session is looked at, and how often then. Most end before.
const EVERY: Duration = Duration::from_secs(5);

/// How long such a look may take before it counts as unanswered.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// For how long no look is answered before the statement counts as lost. What it did is rolled back or in the history, so it
/// costs no more than another attempt.
const SILENT: Duration = Duration::from_secs(60);

/// A look at a session from outside.
pub(super) struct Watch {
    options: PgConnectOptions,
    pid: i32,
}

impl Watch {
    pub(super) async fn of(
        connection: &mut PgConnection,
        options: &PgConnectOptions,
    ) -> Result<Self, Failure> {
        let pid = sqlx::query_scalar::<Postgres, i32>("SELECT pg_backend_pid()").persistent(false);
        let pid = pid.fetch_one(connection).await.map_err(|error| Failure::of(Dialect::Postgres, error))?;
        Ok(Self { options: options.clone().application_name("tidegate/sessions"), pid })
    }

    /// Returns once no answer will come in the session, and why; never while the server has it.
    pub(super) async fn lost(&self) -> Failure {
        let mut answered = Instant::now();
        loop {
            tokio::time::sleep(EVERY).await;
            let why = match tokio::time::timeout(LOOK_LIMIT, self.is_there()).await {
                Ok(Ok(false)) => "the server does not have the session of a statement any more".to_owned(),
                // It is there, even if it only says that it takes no further session.
                Ok(Ok(true) | Err(sqlx::Error::Database(_))) => {
                    answered = Instant::now();
                    continue;
                }
                Ok(Err(_)) | Err(_) if answered.elapsed() < SILENT => continue,
                Ok(Err(_)) | Err(_) => {
                    format!(
                        "no answer to a statement, and none on other connections in {} s",
                        SILENT.as_secs()
                    )
                }
            };
            return Failure::new(Kind::Unreachable, why);
        }
    }

    async fn is_there(&self) -> Result<bool, sqlx::Error> {
        let mut session = PgConnection::connect_with(&self.options).await?;
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1";
        let count = sqlx::query_scalar::<Postgres, i64>(sql).persistent(false).bind(self.pid);
        let count = count.fetch_one(&mut session).await?;
        session.close().await?;
        Ok(count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[tokio::test(start_paused = true)]
    async fn session_is_lost_where_no_look_is_answered() {
        let directory = tempfile::tempdir().unwrap();
        // It accepts connections and says nothing on them.
        let _silent = UnixListener::bind(directory.path().join(".s.PGSQL.5432")).unwrap();
        let options = PgConnectOptions::new_without_pgpass().socket(directory.path()).port(5432);
        let (watch, began) = (Watch { options, pid: 1 }, Instant::now());
        let failure = watch.lost().await;
        assert_eq!(failure.kind, Kind::Unreachable, "{failure}");
        assert!(began.elapsed() >= SILENT, "{:?}", began.elapsed());
    }
}
