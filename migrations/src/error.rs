//! What can go wrong, divided by what the caller should do next.

use crate::database::{Failure, Kind};
use crate::identity::SchemaId;
use crate::load::LoadError;
use crate::term::Term;
use crate::unit::Phase;
use std::fmt;

/// Who holds the schema's lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The server process of its session.
    pub pid: i64,
    /// The name that the session gave itself.
    pub application_name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {} (`{}`)", self.pid, self.application_name)
    }
}

/// Why a verb did not do what was requested. What was done before is recorded in the history.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection, or it ended. Trying again later may help.
    #[error("could not reach the database: {message}")]
    Unreachable {
        /// The database's or the system's words.
        message: String,
        /// The driver's error.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The database refused the name, the password or the right. Only another configuration helps.
    #[error("the database refused who we are: {message}; check user, password, database name and grants")]
    Authentication {
        /// The database's words.
        message: String,
        /// The driver's error.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The database holds a higher term: another leader acts on this schema. From [`claim`](crate::Engine::claim), in
    /// the hands of one who surely leads, it means a restored store.
    #[error("lower term: ours is {ours}, the database obeys {stored}; nothing is changed under a lower term")]
    LowerTerm {
        /// The caller's term.
        ours: Term,
        /// The database's term.
        stored: Term,
    },
    /// The database knows our term's revision under another id: the store that counts terms was restored.
    #[error(
        "restored store: the database obeyed term {stored}, and {ours} claims the same revision; reconcile the store \
         before anything acts"
    )]
    RestoredStore {
        /// The caller's term.
        ours: Term,
        /// The database's term.
        stored: Term,
    },
    /// The database took the place of the one that was looked at.
    #[error(
        "another database: it holds {}, and schema {expected} was asked for; nothing was changed in it",
        .found.as_ref().map_or_else(|| "no schema".to_owned(), |found| format!("schema {found}"))
    )]
    OtherSchema {
        /// The schema that the engine was made for.
        expected: SchemaId,
        /// What is there.
        found: Option<SchemaId>,
    },
    /// The database obeys another term than when it was looked at: a leader claimed it in between, which may be one of another
    /// store. A further look finds out.
    #[error(
        "another term: {} was in force when the database was looked at, and {} is now; nothing was changed in it, look again",
        shown(.seen.as_ref()),
        shown(.found.as_ref())
    )]
    OtherTerm {
        /// What it obeyed at the look.
        seen: Option<Term>,
        /// What it obeys now.
        found: Option<Term>,
    },
    /// Another session changes this schema, at our term or a higher one. Trying again later helps.
    #[error("the schema's lock is busy{}", .holder.as_ref().map(|h| format!(": held by {h}")).unwrap_or_default())]
    LockBusy {
        /// Who holds it, if the database says.
        holder: Option<Holder>,
    },
    /// A table's lock was not granted in any of the tries. Trying again later helps.
    #[error(
        "could not get a lock for `{step}` in {tries} tries; a long transaction may hold the table{held}"
    )]
    LockTimeout {
        /// The step, in words.
        step: String,
        /// How often it was tried.
        tries: u32,
        /// `; held by` and the sessions that hold it, or nothing where they are not known.
        held: String,
    },
    /// The migrations break rules or cannot be read.
    #[error("migrations refused")]
    Lint(#[from] LoadError),
    /// A step ran with other words than the files have now.
    #[error(
        "drift: {migration}, {phase} step {step} ran as {recorded} and is now {now}; restore the file as it ran, and \
         put the change into a new migration"
    )]
    Drift {
        /// The migration.
        migration: String,
        /// The phase that ran.
        phase: Phase,
        /// The step, from 1.
        step: i64,
        /// The checksum in the history.
        recorded: String,
        /// The checksum of the file, or that it is missing.
        now: String,
    },
    /// The phase may not run now, by the history.
    #[error("{phase} of {migration} cannot run: {found}; {needs}")]
    Order {
        /// The migration.
        migration: String,
        /// The phase that was asked for.
        phase: Phase,
        /// What the history says.
        found: String,
        /// What must be first.
        needs: String,
    },
    /// A step would make what is already there, and the history does not say that a migration made it.
    #[error(
        "`{step}` of {migration} is refused: {object} is present, and the history does not show that a migration made \
         it; {helps}"
    )]
    Present {
        /// The migration.
        migration: String,
        /// The step, in words.
        step: String,
        /// What is there.
        object: String,
        /// What helps, with the command where there is one.
        helps: String,
    },
    /// What is to be adopted is not in the database as the migration leaves it.
    #[error("cannot adopt {migration}: {found}")]
    NotAsAdopted {
        /// The migration.
        migration: String,
        /// What is missing, or still there.
        found: String,
    },
    /// Rows are still to do where none may be.
    #[error("{migration} is not filled: {rows} rows are still to do by its verify query")]
    Unverified {
        /// The migration.
        migration: String,
        /// How many.
        rows: u64,
    },
    /// The caller's own check, asked again before a step of contract, said no.
    #[error("contract stopped before a step: {reason}")]
    Recheck {
        /// The caller's words.
        reason: String,
    },
    /// This database cannot do the step in its current state.
    #[error("`{step}` cannot be done here: {found}; {needs}")]
    Unsupported {
        /// The step, in words.
        step: String,
        /// What was found.
        found: String,
        /// What would do.
        needs: String,
    },
    /// The database refused a statement.
    #[error("`{statement}` failed: {message}")]
    Sql {
        /// Its first line.
        statement: String,
        /// The database's words.
        message: String,
        /// The driver's error.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The history in the database cannot be read as ours.
    #[error("the history in the database is not readable: {found}")]
    History {
        /// What was found.
        found: String,
    },
    /// The caller cancelled. What was under way was undone or is in the history.
    #[error("cancelled")]
    Cancelled,
}

fn shown(term: Option<&Term>) -> String {
    term.map_or_else(|| "no term".to_owned(), |term| format!("term {term}"))
}

impl Error {
    /// Whether the same call may succeed later without any other change.
    pub fn retryable(&self) -> bool {
        matches!(self, Error::Unreachable { .. } | Error::LockBusy { .. } | Error::LockTimeout { .. })
    }

    /// A failure while saying `statement`.
    pub(crate) fn of(failure: Failure, statement: &str) -> Error {
        let Failure { kind, message, source } = failure;
        let first = || statement.trim().lines().next().unwrap_or_default().chars().take(120).collect();
        match kind {
            Kind::Unreachable => Error::Unreachable { message, source },
            Kind::Authentication => Error::Authentication { message, source },
            Kind::LockTimeout | Kind::Conflict => {
                Error::LockTimeout { step: first(), tries: 1, held: String::new() }
            }
            Kind::Cancelled => Error::Cancelled,
            Kind::Statement => Error::Sql { statement: first(), message, source },
        }
    }

    /// Whether the session ended under us.
    pub(crate) fn lost_session(&self) -> bool {
        matches!(self, Error::Unreachable { .. })
    }

    /// Whether the same transaction may succeed when it is tried again.
    pub(crate) fn lock_refused(&self) -> bool {
        matches!(self, Error::LockTimeout { .. })
    }
}
