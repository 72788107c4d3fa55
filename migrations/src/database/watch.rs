//! Whether a server still has a session that waits for its answer, and what that waits for. A host that vanished closes no
//! connection, and the driver sets no keep-alive: that no answer will come shows on another connection.

use super::{DatabaseUrl, Failure, Kind, Session, Value};
use crate::held::is_held;
use futures::future::BoxFuture;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a statement takes before its session is looked at, and how often then. Most end before.
const EVERY: Duration = Duration::from_secs(5);

/// The same for a long statement: what it waits for is reported.
const EVERY_REPORT: Duration = Duration::from_secs(1);

/// How long such a look may take before it counts as unanswered.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// For how long no look is answered before the statement counts as lost. What it did is rolled back, or the next attempt
/// sees it: that attempt is all that this costs.
const SILENT: Duration = Duration::from_secs(60);

/// What a statement waits for where no second connection can be made.
const UNANSWERED: &str = "the database, which does not answer on another connection";

/// When a session began, in microseconds; null where the server does not show it to us.
const BEGAN: &str = "(extract(epoch FROM a.backend_start) * 1000000)::bigint";

/// What a session asks about itself.
pub(super) fn own() -> String {
    format!("SELECT pg_backend_pid()::bigint, (SELECT {BEGAN} FROM pg_stat_get_activity(pg_backend_pid()) a)")
}

/// Who hears what a statement waits for.
pub(crate) trait OnWait: Sync {
    /// It waits for this, or for nothing that is known.
    fn waits(&self, what: Option<String>);

    /// What the session with this number waits for, asked in the `other` one.
    fn ask<'a>(&self, other: &'a mut Session, waiting: i64)
    -> BoxFuture<'a, Result<Option<String>, Failure>>;
}

/// A look at a session from outside.
#[derive(Clone)]
pub(crate) struct Watch {
    url: DatabaseUrl,
    pid: i64,
    /// A server gives the number of a session that has ended to another one; null = the number decides.
    began: Value,
}

impl Watch {
    /// Of the session that got these rows for [`own`].
    pub(super) fn of(rows: &[Vec<Value>], url: &DatabaseUrl) -> Result<Self, Failure> {
        match rows.first().map(Vec::as_slice) {
            Some([Value::Int(pid), began]) => Ok(Self { url: url.clone(), pid: *pid, began: began.clone() }),
            _ => Err(Failure::new(Kind::Statement, "the server does not give the number of the session")),
        }
    }

    /// Returns once no answer will come in the session, and why; never while the server has it. Boxed: each statement would
    /// be as big as a connection attempt.
    pub(super) fn lost<'a>(&'a self, on_wait: Option<&'a dyn OnWait>) -> BoxFuture<'a, Failure> {
        Box::pin(self.looks(on_wait))
    }

    /// Cancels the statement that runs in the session, from a session of its own.
    pub(crate) async fn interrupt(&self) {
        let asked = match Session::connect(&self.url, "tidegate/cancel", &CancellationToken::new()).await {
            Ok(mut session) => {
                let asked = self.ask(&mut session, "pg_cancel_backend(a.pid)").await;
                session.close().await;
                asked.map(|_| ())
            }
            Err(failure) => Err(failure),
        };
        match asked {
            Err(failure) if failure.kind != Kind::Statement => {
                tracing::warn!(%failure, pid = self.pid, "could not cancel a long statement");
            }
            _ => {}
        }
    }

    async fn looks(&self, on_wait: Option<&dyn OnWait>) -> Failure {
        let every = if on_wait.is_some() { EVERY_REPORT } else { EVERY };
        let (mut other, mut answered) = (None, Instant::now());
        loop {
            tokio::time::sleep(every).await;
            let why = match self.look(&mut other, on_wait).await {
                Ok(true) => {
                    answered = Instant::now();
                    continue;
                }
                Ok(false) => "the server does not have the session of a statement any more".to_owned(),
                Err(failure) => {
                    other = None;
                    // It is there, even if it only says that it takes no further session.
                    if failure.is_answer() {
                        answered = Instant::now();
                    }
                    if answered.elapsed() < SILENT {
                        continue;
                    }
                    format!(
                        "no answer to a statement, and none on other connections in {} s",
                        SILENT.as_secs()
                    )
                }
            };
            return Failure::new(Kind::Unreachable, why);
        }
    }

    /// Whether the server has the session, asked in the `other` one, which is connected where there is none. Reports what the
    /// session waits for.
    async fn look(&self, other: &mut Option<Session>, on_wait: Option<&dyn OnWait>) -> Result<bool, Failure> {
        let session = match other {
            Some(session) => session,
            None => match Session::connect(&self.url, "tidegate/sessions", &CancellationToken::new()).await {
                Ok(session) => other.insert(session),
                Err(failure) => {
                    if let Some(on_wait) = on_wait {
                        on_wait.waits(Some(UNANSWERED.to_owned()));
                    }
                    return Err(failure);
                }
            },
        };
        // Where the runtime's thread is held, the statement was answered before the first look.
        if !is_held() && in_time(self.ask(session, "a.pid")).await?.is_empty() {
            return Ok(false);
        }
        if let Some(on_wait) = on_wait {
            match in_time(on_wait.ask(session, self.pid)).await {
                Ok(blockers) => on_wait.waits(blockers),
                Err(_) => *other = None,
            }
        }
        Ok(true)
    }

    /// Asks for `what` of the session; no row where the server does not have it.
    async fn ask(&self, session: &mut Session, what: &str) -> Result<Vec<Vec<Value>>, Failure> {
        let sql = format!(
            "SELECT {what} FROM pg_stat_get_activity($1::int) a WHERE ({BEGAN} = $2::bigint) IS NOT FALSE"
        );
        session.read(&sql, &[self.pid.into(), self.began.clone()]).await
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(LOOK_LIMIT, answer).await.unwrap_or_else(|_| {
        Err(Failure::new(Kind::Unreachable, format!("no answer in {} s", LOOK_LIMIT.as_secs())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::sync::Mutex;

    /// Fails as a session of a server that accepts connections and says nothing on them.
    async fn lost_in_silence(on_wait: Option<&dyn OnWait>) {
        let directory = tempfile::tempdir().unwrap();
        let _silent = UnixListener::bind(directory.path().join(".s.PGSQL.5432")).unwrap();
        let host = directory.path().display().to_string().replace('/', "%2F");
        let url = format!("postgres://u@{host}:5432/d").parse().unwrap();
        let (watch, began) = (Watch { url, pid: 1, began: Value::Null }, Instant::now());
        let failure = watch.lost(on_wait).await;
        assert_eq!(failure.kind, Kind::Unreachable, "{failure}");
        assert!(began.elapsed() >= SILENT, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn session_is_lost_where_no_look_is_answered() {
        lost_in_silence(None).await;
    }

    #[derive(Default)]
    struct Heard(Mutex<Vec<Option<String>>>);

    impl OnWait for Heard {
        fn waits(&self, what: Option<String>) {
            self.0.lock().unwrap().push(what);
        }

        fn ask<'a>(&self, _: &'a mut Session, _: i64) -> BoxFuture<'a, Result<Option<String>, Failure>> {
            Box::pin(async { Ok(None) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn long_statement_names_the_silence_and_is_lost() {
        let heard = Heard::default();
        lost_in_silence(Some(&heard)).await;
        let waits = heard.0.into_inner().unwrap();
        assert!(!waits.is_empty() && waits.iter().all(|w| w.as_deref() == Some(UNANSWERED)), "{waits:?}");
    }
}
