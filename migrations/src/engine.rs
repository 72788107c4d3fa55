//! The verbs on one database: identity, claim, status, expand, migrate, contract, undo.
//!
//! Each verb that changes something opens one session, leads on it, does what the history says is
//! still to do, and closes it. Each verb that only looks changes nothing and works before the first
//! claim.

mod adopt;
mod cascade;
mod command;
mod entry;
mod later;
mod left;
mod obstacle;
mod order;
mod phase;
mod present;
mod status;

pub use adopt::{Adopted, Adoption};
pub use later::LaterContract;
pub use status::{MigrationStatus, PhaseState, RowCount, Status};

use crate::database::{DatabaseUrl, Session};
use crate::error::Error;
use crate::identity::{Expected, SchemaId, SchemaIdentity};
use crate::leader::{self, Leader};
use crate::progress::{PhaseProgress, ProgressSender};
use crate::sessions::{self, Sessions};
use crate::term::Term;
use crate::unit::{MigrationSet, Phase};
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The proof on which contract runs. Kept in the history; made and judged by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractProof {
    /// The certificate's id.
    pub certificate: String,
    /// The certificate's digest.
    pub digest: String,
}

/// Asked again before each transaction of contract; a text stops it.
pub type Recheck<'a> = dyn Fn() -> BoxFuture<'a, Result<(), String>> + Send + Sync + 'a;

/// What a verb did. A verb that found all done did nothing, and that is success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Steps done by this call.
    pub steps: usize,
    /// Rows walked by this call's fills.
    pub rows: u64,
}

/// The engine of one database.
#[derive(Debug, Clone)]
pub struct Engine {
    url: DatabaseUrl,
    expected: Expected,
    /// The session that looked last. Looks come in groups of four or five, and a session costs more than most of them.
    idle: Arc<Mutex<Option<Idle>>>,
}

/// A session that nothing is asked of for the moment.
struct Idle {
    session: Session,
    since: Instant,
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idle").field("since", &self.since).finish_non_exhaustive()
    }
}

/// A session that was idle for longer is not used again: servers and networks end idle connections.
const MOST_IDLE: Duration = Duration::from_secs(5);

impl Engine {
    /// Sees that the database answers and knows us.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Authentication`].
    pub async fn connect(url: &DatabaseUrl) -> Result<Engine, Error> {
        let engine = Engine { url: url.clone(), expected: Expected::default(), idle: Arc::default() };
        // A connection is made once the database has accepted user and password.
        let session = engine.look().await?;
        engine.looked(session, Ok(())).await.map(|()| engine)
    }

    /// The same, for this schema alone: what changes a database is refused where that holds another schema, or none, as
    /// one does that took the place of the right one since it was looked at.
    pub fn of_schema(self, schema: SchemaId) -> Self {
        Self { expected: Expected { schema: Some(schema), ..self.expected }, ..self }
    }

    /// The same after a look at which the database obeyed this term, or none: what changes it is refused where another one
    /// was claimed since, but for the caller's own.
    pub fn last_obeyed(self, seen: Option<Term>) -> Self {
        Self { expected: Expected { term: Some(seen), ..self.expected }, ..self }
    }

    /// Where it works.
    pub fn url(&self) -> &DatabaseUrl {
        &self.url
    }

    /// The schema's id and last term. Only looks.
    pub async fn identity(&self) -> Result<SchemaIdentity, Error> {
        let mut session = self.look().await?;
        let answer = status::identity(&mut session).await;
        self.looked(session, answer).await
    }

    /// Raises the term, and makes history and schema id when they are missing: a leader's first act.
    ///
    /// # Errors
    /// [`Error::LowerTerm`], [`Error::RestoredStore`], [`Error::LockBusy`], [`Error::OtherSchema`], [`Error::OtherTerm`],
    /// [`Error::Cancelled`].
    pub async fn claim(&self, term: &Term, cancel: &CancellationToken) -> Result<SchemaId, Error> {
        let (watch, _) = watch::channel(PhaseProgress::default());
        let (leader, stored) =
            Leader::take(&self.url, &self.expected, term, &ProgressSender(&watch), cancel).await?;
        leader.session.close().await;
        Ok(SchemaId(stored.schema_id))
    }

    /// How far each migration is. Only looks; works when the history is missing.
    ///
    /// # Errors
    /// [`Error::Drift`] names the step that ran with other words.
    pub async fn status(&self, set: &MigrationSet) -> Result<Status, Error> {
        let mut session = self.look().await?;
        let answer = status::status(&mut session, set).await;
        self.looked(session, answer).await
    }

    /// The same by the history alone: no row is counted, so that `pending_rows` is none and what came after a fill does
    /// not show. It takes no longer on a big table than on a small one.
    ///
    /// # Errors
    /// The same as those of [`Engine::status`].
    pub async fn status_by_history(&self, set: &MigrationSet) -> Result<Status, Error> {
        let mut session = self.look().await?;
        let answer = status::by_history(&mut session, set).await;
        self.looked(session, answer).await
    }

    /// [`Engine::status`], with the rows of these migrations, and [`Engine::identity`], in one look.
    ///
    /// # Errors
    /// The same as those of [`Engine::status`].
    pub async fn state(&self, set: &MigrationSet, rows: RowCount) -> Result<(Status, SchemaIdentity), Error> {
        let mut session = self.look().await?;
        let answer = status::state(&mut session, set, rows).await;
        self.looked(session, answer).await
    }

    /// Rows that migrate has still to do, over the set's own migrations: the certificate's number.
    ///
    /// # Errors
    /// [`Error::Order`] where a migration is not expanded, so that it cannot be asked.
    pub async fn pending_rows(&self, set: &MigrationSet) -> Result<u64, Error> {
        let mut session = self.look().await?;
        let answer = status::pending_rows(&mut session, set).await;
        self.looked(session, answer).await
    }

    /// What forbids to begin the set's own migrations, in words, each with the command that helps: a migration of the
    /// baseline that is not finished, an object that is there already, a flaw of a file. Only looks.
    pub async fn obstacles(&self, set: &MigrationSet) -> Result<Vec<String>, Error> {
        let mut session = self.look().await?;
        let answer = obstacle::all(&mut session, set, false).await;
        self.looked(session, answer).await
    }

    /// The same for an upgrade that was started, where a migration of the baseline may be left without its contract:
    /// [`Engine::contract`] runs that first. Only looks.
    pub async fn obstacles_once_started(&self, set: &MigrationSet) -> Result<Vec<String>, Error> {
        let mut session = self.look().await?;
        let answer = obstacle::all(&mut session, set, true).await;
        self.looked(session, answer).await
    }

    /// What [`Engine::adopt`] would mark. Only looks.
    ///
    /// # Errors
    /// The same as those of [`Engine::adopt`].
    pub async fn adoptable(&self, set: &MigrationSet, adoption: &Adoption) -> Result<Vec<Adopted>, Error> {
        let mut session = self.look().await?;
        let answer = adopt::plan(&mut session, set, adoption).await;
        self.looked(session, answer).await
    }

    /// Marks the set's own migrations as present, because what they make is in the database already. No undo takes
    /// back what was adopted.
    ///
    /// # Errors
    /// [`Error::Order`] where one is in progress, [`Error::NotAsAdopted`] where the database is not as they leave it.
    pub async fn adopt(
        &self,
        set: &MigrationSet,
        term: &Term,
        adoption: &Adoption,
        cancel: &CancellationToken,
    ) -> Result<Vec<Adopted>, Error> {
        let (watch, _) = watch::channel(PhaseProgress::default());
        let (mut leader, _) =
            Leader::take(&self.url, &self.expected, term, &ProgressSender(&watch), cancel).await?;
        let answer = adopt::mark(&mut leader, set, adoption).await;
        if answer.is_err() {
            leader.session.rollback().await;
        }
        leader.session.close().await;
        answer
    }

    /// Who is connected. Only looks.
    pub async fn sessions(&self) -> Result<Sessions, Error> {
        if let Some(unknown) = sessions::unknown(self.url.dialect()) {
            return Ok(unknown);
        }
        let mut session = self.look().await?;
        let answer = sessions::ask(&mut session).await;
        self.looked(session, answer).await
    }

    /// Who is connected to another endpoint of the same database, such as a standby. Only looks.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Authentication`].
    pub async fn sessions_at(endpoint: &DatabaseUrl) -> Result<Sessions, Error> {
        sessions::list(endpoint).await
    }

    /// Adds what the new version needs.
    pub async fn expand(
        &self,
        set: &MigrationSet,
        term: &Term,
        watch: &watch::Sender<PhaseProgress>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Error> {
        self.verb(Phase::Expand, set, term, watch, cancel, None).await
    }

    /// Fills the rows that were there before. Whether the fleet allows it
    /// ([`Migration::requires`](crate::Migration::requires)) is the caller's question.
    pub async fn migrate(
        &self,
        set: &MigrationSet,
        term: &Term,
        watch: &watch::Sender<PhaseProgress>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Error> {
        self.verb(Phase::Migrate, set, term, watch, cancel, None).await
    }

    /// Removes what only the old version needed. Final: there is no undo once it has begun. In the name of an upgrade, it
    /// first runs each contract of the baseline that the database lacks, as an older copy of it may.
    ///
    /// The proof is kept with each step; `recheck` is asked again before each transaction, every try
    /// of one included, while no lock is held.
    pub async fn contract(
        &self,
        set: &MigrationSet,
        term: &Term,
        proof: &ContractProof,
        recheck: &Recheck<'_>,
        watch: &watch::Sender<PhaseProgress>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Error> {
        self.verb(Phase::Contract, set, term, watch, cancel, Some((proof, recheck))).await
    }

    /// Takes back what the set's owner expanded of its own migrations, and nothing else; never what was contracted.
    /// Whether no new program is left is the caller's question.
    pub async fn undo(
        &self,
        set: &MigrationSet,
        term: &Term,
        watch: &watch::Sender<PhaseProgress>,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Error> {
        self.verb(Phase::Undo, set, term, watch, cancel, None).await
    }

    async fn verb(
        &self,
        phase: Phase,
        set: &MigrationSet,
        term: &Term,
        watch: &watch::Sender<PhaseProgress>,
        cancel: &CancellationToken,
        contract: Option<(&ContractProof, &Recheck<'_>)>,
    ) -> Result<Outcome, Error> {
        let (mut leader, _) =
            Leader::take(&self.url, &self.expected, term, &ProgressSender(watch), cancel).await?;
        let mut run = phase::Run {
            leader: &mut leader,
            progress: ProgressSender(watch),
            contract,
            outcome: Outcome::default(),
            owner: set.owner(),
            kept: Vec::new(),
        };
        let answer = run.all(phase, set).await;
        let outcome = run.outcome;
        if answer.is_err() {
            leader.session.rollback().await;
        }
        leader.session.close().await;
        match answer {
            Ok(()) => Ok(outcome),
            Err(Error::Cancelled) if !cancel.is_cancelled() => Err(Error::Unreachable {
                message: "the database cancelled a statement; an administrator may have".to_owned(),
                source: None,
            }),
            Err(error) => Err(self.deposed(error, term).await),
        }
    }

    /// A session that was lost may have been ended by a newer leader: then that is what is said.
    async fn deposed(&self, error: Error, term: &Term) -> Error {
        if !error.lost_session() {
            return error;
        }
        match self.identity().await {
            Ok(SchemaIdentity { term: Some(stored), .. }) => match leader::compare(term, &stored) {
                Err(lower) => lower,
                Ok(()) => error,
            },
            _ => error,
        }
    }

    fn idle(&self) -> MutexGuard<'_, Option<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self) -> Result<Session, Error> {
        let idle = self.idle().take();
        if let Some(idle) = idle {
            if idle.since.elapsed() <= MOST_IDLE && idle.session.is_current().is_ok() {
                return Ok(idle.session);
            }
            idle.session.close().await;
        }
        Session::connect(&self.url, "tidegate/sessions", &CancellationToken::new())
            .await
            .map_err(|f| Error::of(f, "connect"))
    }

    /// Ends a look: its session is used for the next one, unless this one failed. The next one finds out by itself
    /// whether there is a history. What was seen in a database that another one has replaced meanwhile is no answer.
    async fn looked<T>(&self, mut session: Session, answer: Result<T, Error>) -> Result<T, Error> {
        let current = session.is_current().map_err(|failure| Error::of(failure, "look"));
        let answer = answer.and_then(|seen| current.map(|()| seen));
        if answer.is_err() {
            session.close().await;
            return answer;
        }
        session.history_is_complete = false;
        let former = self.idle().replace(Idle { session, since: Instant::now() });
        if let Some(former) = former {
            former.session.close().await;
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verbs run in spawned tasks; this does not compile where their futures cannot move.
    #[test]
    fn verbs_can_be_spawned() {
        fn sendable<T: Send>(_: T) {}
        let url: DatabaseUrl = "sqlite:/nowhere/at/all.db".parse().unwrap();
        let engine = Engine { url, expected: Expected::default(), idle: Arc::default() };
        let set = MigrationSet::load(&std::env::temp_dir().join("no-such-directory-of-migrations"));
        assert!(set.is_err(), "a directory that is missing is an error, not an empty set");
        let (watch, _) = watch::channel(PhaseProgress::default());
        let (term, cancel) = (Term { revision: 1, id: "t".into() }, CancellationToken::new());
        sendable(engine.claim(&term, &cancel));
        let check = |set: &MigrationSet| {
            let proof = ContractProof { certificate: String::new(), digest: String::new() };
            let yes = || -> BoxFuture<'static, Result<(), String>> { Box::pin(async { Ok(()) }) };
            sendable(engine.expand(set, &term, &watch, &cancel));
            sendable(engine.contract(set, &term, &proof, &yes, &watch, &cancel));
        };
        let _ = check;
    }
}
