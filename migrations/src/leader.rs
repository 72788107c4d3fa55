//! The one session that may change a schema: it holds the lock, and its term is checked in every
//! transaction.

use crate::blocker;
use crate::crash;
use crate::database::{DatabaseUrl, Dialect, Failure, OnWait, Session, Value};
use crate::error::{Error, Holder};
use crate::held::is_held;
use crate::history::{self, Layout, Stored};
use crate::identity::{Expected, SchemaId};
use crate::ladder::{LOCK_LIMIT, Ladder};
use crate::mutant;
use crate::progress::{PhaseProgress, ProgressSender};
use crate::term::Term;
use futures::future::BoxFuture;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The first half of the advisory lock's key: `tide` in ASCII. The second is the schema's name.
const LOCK_CLASS: i64 = 0x7469_6465;

/// Polled, never waited for: a session that waits in the database for an advisory lock deadlocks
/// with a concurrent index build.
const LOCK_POLL: Duration = Duration::from_millis(250);

/// How long a lock held by an equal or higher term is asked for before the verb answers.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// A stopped leader keeps its rows locked no longer than this. A limit on statements or, since PostgreSQL 17, on
/// transactions that was meant for a service must not end a validation or a build that blocks no session. Rows that a
/// policy hides would be left as they are, or be missing in what others are filled from: a statement that would not see
/// them fails. The server ends a session that its leader has left over a network that was cut: it holds the lock, and the next
/// attempt is of the same term.
const LIMITS: &str = "SET idle_in_transaction_session_timeout = '5s'; SET statement_timeout = 0; SET row_security = off; \
     SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3; \
     SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'transaction_timeout'; \
     SELECT set_config(name, '60000', false) FROM pg_settings WHERE name = 'tcp_user_timeout'";

/// Where the runtime's thread is held, the simulation ends the session of a stopped leader, by the clock that is paused.
const HELD_LIMITS: &str = "SET idle_in_transaction_session_timeout = 0; SET row_security = off";

/// A session that leads.
pub(crate) struct Leader {
    pub session: Session,
    pub term: Term,
    pub cancel: CancellationToken,
    pub progress: watch::Sender<PhaseProgress>,
}

impl Leader {
    /// Connects, takes the lock, makes the tables when they are missing, and raises the term.
    pub(crate) async fn take(
        url: &DatabaseUrl,
        expected: &Expected,
        term: &Term,
        progress: &ProgressSender<'_>,
        cancel: &CancellationToken,
    ) -> Result<(Leader, Stored), Error> {
        let session =
            Session::connect(url, &term.session_name(), cancel).await.map_err(|f| Error::of(f, "connect"))?;
        let mut leader =
            Leader { session, term: term.clone(), cancel: cancel.clone(), progress: progress.0.clone() };
        if leader.session.dialect() == Dialect::Postgres {
            leader.lock(progress).await?;
        }
        let mut ladder = Ladder::new(cancel);
        loop {
            let tried = leader.raise(expected).await;
            match tried {
                Ok(stored) => {
                    progress.waiting(None);
                    return Ok((leader, stored));
                }
                Err(error) => {
                    leader.session.rollback().await;
                    ladder.rest(error, "the term", progress).await?;
                }
            }
        }
    }

    /// Fails once the caller has cancelled: what the job rests on may hold no longer.
    pub(crate) fn is_wanted(&self) -> Result<(), Error> {
        if self.cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Opens a transaction in which the term is seen to be ours until it ends. Once the caller has cancelled, none begins.
    pub(crate) async fn begin(&mut self) -> Result<(), Error> {
        self.open().await?;
        let stored = history::stored_locked(&mut self.session).await?;
        compare(&self.term, &stored.term)?;
        if stored.term == self.term || mutant::is("term-is-not-compared") {
            Ok(())
        } else {
            // Only a restored database forgets a term that was raised.
            Err(Error::History { found: format!("its term fell from {} to {}", self.term, stored.term) })
        }
    }

    /// Commits `what`, by which a test names the transaction.
    pub(crate) async fn commit(&mut self, what: &str) -> Result<(), Error> {
        crash::point(what, crash::When::Before);
        self.session.commit().await.map_err(|f| Error::of(f, "commit"))?;
        crash::point(what, crash::When::After);
        Ok(())
    }

    /// A long statement that changes something by itself, as [`Leader::long`].
    pub(crate) async fn long_change(&mut self, what: &str, sql: &str) -> Result<(), Error> {
        crash::point(what, crash::When::Before);
        self.long(sql).await?;
        crash::point(what, crash::When::After);
        Ok(())
    }

    /// A statement that may take long, outside a transaction; ended in the database when the caller cancels.
    pub(crate) async fn long(&mut self, sql: &str) -> Result<(), Error> {
        self.is_wanted()?;
        let (cancel, watch) = (self.cancel.clone(), self.session.watch().cloned());
        let progress = ProgressSender(&self.progress);
        let mut work = Box::pin(self.session.run_long(sql, &progress));
        tokio::select! {
            done = &mut work => {
                progress.waiting(None);
                return done.map_err(|f| Error::of(f, sql));
            }
            () = cancel.cancelled() => {}
        }
        // Asked again and again: the first word may come before the statement has begun.
        loop {
            if let Some(watch) = &watch {
                watch.interrupt().await;
            }
            tokio::select! {
                done = &mut work => return done.map_err(|f| Error::of(f, sql)),
                () = tokio::time::sleep(LOCK_POLL) => {}
            }
        }
    }

    /// Who holds one of these tables now, for a reason that people read: not to find out is no failure.
    pub(crate) async fn holders(&mut self, tables: &[String]) -> Option<String> {
        if self.session.dialect() != Dialect::Postgres {
            return None;
        }
        blocker::holders(&mut self.session, tables).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "the holders of a lock could not be listed");
            None
        })
    }

    async fn open(&mut self) -> Result<(), Error> {
        self.is_wanted()?;
        self.session.begin(LOCK_LIMIT).await.map_err(|f| Error::of(f, "begin"))
    }

    async fn raise(&mut self, expected: &Expected) -> Result<Stored, Error> {
        let schema = expected.schema.as_ref();
        self.open().await?;
        match history::layout(&mut self.session).await? {
            Layout::Missing => {
                if let Some(expected) = schema {
                    return Err(Error::OtherSchema { expected: expected.clone(), found: None });
                }
                let id = uuid::Uuid::new_v4().to_string();
                history::create(&mut self.session, &id).await?;
            }
            Layout::WithoutOwners => history::add_owners(&mut self.session).await?,
            Layout::Complete => {}
        }
        let stored = history::stored_locked(&mut self.session).await?;
        if let Some(expected) = schema.filter(|expected| expected.0 != stored.schema_id) {
            let found = Some(SchemaId(stored.schema_id));
            return Err(Error::OtherSchema { expected: expected.clone(), found });
        }
        compare(&self.term, &stored.term)?;
        if stored.term.revision < self.term.revision {
            still_obeyed(expected, &stored.term)?;
            history::raise(&mut self.session, &self.term).await?;
        }
        // It may have waited for a lock meanwhile.
        self.is_wanted()?;
        self.commit("the term").await?;
        self.session.history_is_complete = true;
        Ok(stored)
    }

    async fn lock(&mut self, progress: &ProgressSender<'_>) -> Result<(), Error> {
        let say = |sql: &'static str| move |f| Error::of(f, sql);
        let limits = if is_held() { HELD_LIMITS } else { LIMITS };
        self.session.run(limits).await.map_err(say(limits))?;
        let key = "SELECT (hashtext(current_schema()) & 2147483647)::bigint";
        let rows = self.session.read(key, &[]).await.map_err(say(key))?;
        let Some(object) = int(&rows, 0) else {
            return Err(Error::History { found: "no schema is current; the search_path names none".into() });
        };
        let since = Instant::now();
        let ask = "SELECT pg_try_advisory_lock($1::int, $2::int)";
        loop {
            let rows = self.session.read(ask, &[LOCK_CLASS.into(), object.into()]).await.map_err(say(ask))?;
            if int(&rows, 0) == Some(1) {
                return Ok(());
            }
            let holder = self.holder(object).await?;
            self.end_lower(holder.as_ref()).await?;
            if since.elapsed() > LOCK_PATIENCE {
                return Err(Error::LockBusy { holder });
            }
            progress.waiting(holder.map(|h| format!("the schema's lock, held by {h}")));
            tokio::select! {
                () = tokio::time::sleep(LOCK_POLL) => {}
                () = self.cancel.cancelled() => return Err(Error::Cancelled),
            }
        }
    }

    async fn holder(&mut self, object: i64) -> Result<Option<Holder>, Error> {
        let sql = "SELECT a.pid::bigint, a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid \
                   WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 \
                   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                   AND l.classid::bigint = $1 AND l.objid::bigint = $2";
        let rows = self
            .session
            .read(sql, &[LOCK_CLASS.into(), object.into()])
            .await
            .map_err(|f| Error::of(f, sql))?;
        Ok(rows.first().map(|row| Holder {
            pid: row[0].int().unwrap_or_default(),
            application_name: row[1].text().unwrap_or_default().to_owned(),
        }))
    }

    /// Ends a session that a lower term left behind. It may hold the lock in the name of a process
    /// that is stopped or gone; one of an equal or higher term is let be.
    async fn end_lower(&mut self, holder: Option<&Holder>) -> Result<(), Error> {
        let Some(holder) = holder else { return Ok(()) };
        match Term::revision_of_session(&holder.application_name) {
            Some(revision) if revision < self.term.revision => {}
            _ => return Ok(()),
        }
        tracing::warn!(%holder, term = %self.term, "ending a session of a lower term that holds the lock");
        // The name is compared again where it ends: the number may by now be another's.
        let sql =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND application_name = $2";
        let values = [holder.pid.into(), Value::from(holder.application_name.as_str())];
        self.session.read(sql, &values).await.map_err(|f| Error::of(f, sql))?;
        Ok(())
    }
}

impl OnWait for ProgressSender<'_> {
    fn waits(&self, what: Option<String>) {
        self.waiting(what);
    }

    fn ask<'a>(
        &self,
        other: &'a mut Session,
        waiting: i64,
    ) -> BoxFuture<'a, Result<Option<String>, Failure>> {
        Box::pin(blocker::blockers(other, waiting))
    }
}

/// Whether `ours` may act where `stored` is obeyed.
pub(crate) fn compare(ours: &Term, stored: &Term) -> Result<(), Error> {
    if mutant::is("term-is-not-compared") {
        return Ok(());
    }
    let (ours, stored) = (ours.clone(), stored.clone());
    if stored.revision > ours.revision {
        Err(Error::LowerTerm { ours, stored })
    } else if stored.revision == ours.revision && stored.id != ours.id {
        Err(Error::RestoredStore { ours, stored })
    } else {
        Ok(())
    }
}

/// Whether the database obeys the term that it was seen to obey. A lower number does not show that our store knows a term: a
/// leader of a former store may have claimed the database since.
fn still_obeyed(expected: &Expected, stored: &Term) -> Result<(), Error> {
    let Some(seen) = &expected.term else { return Ok(()) };
    // Revision 0 means that there is no term yet.
    let found = Some(stored).filter(|term| term.revision > 0);
    if seen.as_ref() == found {
        return Ok(());
    }
    Err(Error::OtherTerm { seen: seen.clone(), found: found.cloned() })
}

fn int(rows: &[Vec<Value>], at: usize) -> Option<i64> {
    rows.first()?.get(at)?.int()
}
