//! How far a schema is: what a person, and the next decision, want to know. Only looks.

use super::later::{self, LaterContract};
use super::left;
use super::obstacle;
use super::order::{self, Record};
use crate::database::{Dialect, Session, Value};
use crate::error::Error;
use crate::held::is_held;
use crate::history::{self, Entry, Layout};
use crate::identity::{SchemaId, SchemaIdentity};
use crate::mutant;
use crate::unit::{Migration, MigrationSet, Phase};

/// How far a phase of a migration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseState {
    /// Nothing of it.
    NotStarted,
    /// Some of it, maybe by a process that is gone.
    Running,
    /// All of it.
    Done,
}

/// How far one migration is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    /// Which.
    pub id: String,
    /// The first service version that knows it.
    pub version: u32,
    /// Expand.
    pub expand: PhaseState,
    /// Migrate.
    pub migrate: PhaseState,
    /// Contract.
    pub contract: PhaseState,
    /// An undo that has begun and not ended; one that ended leaves `NotStarted` behind.
    pub undo: PhaseState,
    /// Whether migrate was done, whatever rows have come since.
    pub filled: bool,
    /// Rows still to fill; none where they were not counted or cannot be, before expand and after contract.
    pub pending_rows: Option<u64>,
    /// Whether it is one of the set's own; the others are the baseline.
    pub own: bool,
    /// Whether the set's owner has expanded something of it: what its undo takes back.
    pub ours: bool,
    /// Who else has expanded something of it: that is left in place.
    pub others: Vec<String>,
    /// Whether an undo in the owner's name has something to do, or one has begun and not ended. A contract that has ended
    /// without a step removed nothing: it is undone with the rest.
    pub undoable: bool,
    /// What an undo in the owner's name leaves in place, in words; nothing once contract has removed something.
    pub left: Vec<String>,
    /// Whether its contract has nothing to do.
    pub contract_is_empty: bool,
    /// The upgrade or person that began to remove something by its contract; none where nothing was, or that was not
    /// recorded.
    pub contracted_by: Option<String>,
}

impl MigrationStatus {
    /// Whether all of expand is there: an undo that has begun may have removed some of it.
    pub fn is_expanded(&self) -> bool {
        self.expand == PhaseState::Done && self.undo == PhaseState::NotStarted
    }

    /// Whether nothing of it is left to do for any version.
    pub fn is_finished(&self) -> bool {
        let filled = self.migrate == PhaseState::Done && self.contract_is_empty;
        self.undo == PhaseState::NotStarted && (self.contract == PhaseState::Done || filled)
    }
}

/// For which migrations a look counts the rows that are left to fill. A count may read a whole table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowCount {
    /// Of none: the history alone.
    Uncounted,
    /// Of those whose contract has not begun.
    Open,
    /// Also of those whose contract has ended without a step: the former version may have written rows since, where the
    /// upgrade was rolled back or its store was lost.
    OpenOrEmpty,
}

/// How far a schema is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// In order.
    pub migrations: Vec<MigrationStatus>,
    /// What is next, over the set's own ones: the earliest phase that is not done everywhere; none when all
    /// is done. Undo, where one has begun.
    pub next: Option<Phase>,
    /// Contracts that came after the set's own migrations.
    pub later: Vec<LaterContract>,
    /// The first migration of the baseline that is not expanded and filled, in words, with the command that finishes it.
    pub unfinished: Option<String>,
}

pub(super) async fn status(session: &mut Session, set: &MigrationSet) -> Result<Status, Error> {
    read(session, set, RowCount::Open).await
}

/// The same without a count of rows.
pub(super) async fn by_history(session: &mut Session, set: &MigrationSet) -> Result<Status, Error> {
    read(session, set, RowCount::Uncounted).await
}

/// The same with the schema's id and last term.
pub(super) async fn state(
    session: &mut Session,
    set: &MigrationSet,
    rows: RowCount,
) -> Result<(Status, SchemaIdentity), Error> {
    let status = read(session, set, rows).await?;
    Ok((status, identity(session).await?))
}

/// The schema's id and last term.
pub(super) async fn identity(session: &mut Session) -> Result<SchemaIdentity, Error> {
    if history::layout(session).await? == Layout::Missing {
        return Ok(SchemaIdentity { id: None, term: None });
    }
    let stored = history::stored(session).await?;
    // Revision 0 means that there is no term yet.
    let term = (stored.term.revision > 0).then_some(stored.term);
    Ok(SchemaIdentity { id: Some(SchemaId(stored.schema_id)), term })
}

async fn read(session: &mut Session, set: &MigrationSet, rows: RowCount) -> Result<Status, Error> {
    let entries = live(session).await?;
    of_entries(session, set, &entries, rows).await
}

/// The same, of a history that has been read.
pub(super) async fn of_entries(
    session: &mut Session,
    set: &MigrationSet,
    entries: &[Entry],
    rows: RowCount,
) -> Result<Status, Error> {
    let dialect = session.dialect();
    order::drift(entries, set, dialect)?;
    let beside = order::has_contracted(entries, set, dialect);
    let mut migrations = Vec::new();
    for migration in set.iter() {
        let record = Record::of(entries, &migration.id);
        let ours = record.expanded_by(migration, dialect, set.owner());
        let is_final = record.is_final(beside);
        let own = set.own().any(|m| m.id == migration.id);
        let state = |phase| match (record.done(phase), record.begun(phase)) {
            (true, _) => PhaseState::Done,
            (false, true) => PhaseState::Running,
            (false, false) => PhaseState::NotStarted,
        };
        let is_open = !record.begun(Phase::Contract) || (rows == RowCount::OpenOrEmpty && !is_final);
        let askable = rows != RowCount::Uncounted
            && own
            && record.done(Phase::Expand)
            && is_open
            && !record.begun(Phase::Undo);
        let pending_rows = if askable { left_to_fill(session, migration, &record).await? } else { None };
        let migrate = match (state(Phase::Migrate), pending_rows) {
            // Rows came after the fill and were not filled: it runs again.
            (PhaseState::Done, Some(1..)) => PhaseState::Running,
            (state, _) => state,
        };
        migrations.push(MigrationStatus {
            id: migration.id.clone(),
            version: migration.version,
            expand: match state(Phase::Expand) {
                PhaseState::Running if !record.expanding(migration, dialect) => PhaseState::NotStarted,
                state => state,
            },
            migrate,
            filled: record.done(Phase::Migrate),
            contract: state(Phase::Contract),
            undo: state(Phase::Undo),
            pending_rows,
            own,
            ours,
            others: record.others(set.owner()).into_iter().collect(),
            // One whose contract has begun and not ended refuses the undo.
            undoable: (ours || record.begun(Phase::Undo)) && !(is_final && record.done(Phase::Contract)),
            left: match is_final {
                true => Vec::new(),
                false => left::described(&record, migration, dialect, set.owner()),
            },
            contract_is_empty: migration.steps(Phase::Contract, dialect).is_empty(),
            contracted_by: record.removal().and_then(|step| step.owner.clone()),
        });
    }
    let next = next(&migrations);
    let mut baseline = migrations.iter().filter(|m| !m.own).map(|m| (m, Record::of(entries, &m.id)));
    let unfinished = baseline.find(|(_, record)| !record.is_usable());
    let unfinished = unfinished.map(|(m, record)| obstacle::unfinished(m, &record));
    Ok(Status { migrations, next, later: later::contracts(entries, set), unfinished })
}

fn next(migrations: &[MigrationStatus]) -> Option<Phase> {
    let unfinished = |of: fn(&MigrationStatus) -> PhaseState| {
        migrations.iter().any(|m| m.own && of(m) != PhaseState::Done)
    };
    if migrations.iter().any(|m| m.own && m.undo != PhaseState::NotStarted) {
        Some(Phase::Undo)
    } else if unfinished(|m| m.expand) {
        Some(Phase::Expand)
    } else if unfinished(|m| m.migrate) {
        Some(Phase::Migrate)
    } else if unfinished(|m| m.contract) {
        Some(Phase::Contract)
    } else {
        None
    }
}

pub(super) async fn pending_rows(session: &mut Session, set: &MigrationSet) -> Result<u64, Error> {
    let entries = live(session).await?;
    order::drift(&entries, set, session.dialect())?;
    let beside = order::has_contracted(&entries, set, session.dialect());
    let mut rows = 0;
    for migration in set.own() {
        let record = Record::of(&entries, &migration.id);
        if record.is_final(beside) {
            continue;
        }
        if !record.done(Phase::Expand) {
            let (found, needs) = ("it is not expanded".to_owned(), "run expand first".to_owned());
            return Err(Error::Order {
                migration: migration.id.clone(),
                phase: Phase::Migrate,
                found,
                needs,
            });
        }
        rows += left_to_fill(session, migration, &record).await?.unwrap_or(0);
    }
    Ok(rows)
}

/// Rows of a migration that are left to fill; none where another contract has removed what its query names, after its own
/// one has ended or its rows were verified.
async fn left_to_fill(
    session: &mut Session,
    migration: &Migration,
    record: &Record<'_>,
) -> Result<Option<u64>, Error> {
    match pending(session, migration).await {
        Ok(rows) => Ok(Some(rows)),
        Err(error @ Error::Sql { .. }) if record.done(Phase::Contract) || record.was_verified() => {
            tracing::debug!(%error, "the verify query can no longer be run");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A count of a big table takes one core, and leaves the others to those who work on the table. To compile it takes longer
/// than it saves. A limit on statements or transactions that was meant for a service must not end it: no attempt would come
/// further. Rows that a policy hides count as well: where they cannot be seen, the count fails.
const COUNT: &str = "SET max_parallel_workers_per_gather = 0; SET jit = off; SET statement_timeout = 0; \
                     SET row_security = off; \
                     SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'transaction_timeout'";

/// Where the runtime's thread is held, the limit of the simulation stays.
const HELD_COUNT: &str = "SET max_parallel_workers_per_gather = 0; SET jit = off; SET row_security = off";

/// The number that a migration's verify query answers; 0 where it has none.
pub(super) async fn pending(session: &mut Session, migration: &Migration) -> Result<u64, Error> {
    let Some(query) = migration.verify(session.dialect()) else { return Ok(0) };
    if session.dialect() == Dialect::Postgres {
        let settings = if is_held() { HELD_COUNT } else { COUNT };
        session.run(settings).await.map_err(|f| Error::of(f, settings))?;
    }
    let rows = session.read(query.text(), &[]).await.map_err(|f| Error::of(f, query.text()))?;
    if mutant::is("rows-that-are-left-are-not-counted") {
        return Ok(0);
    }
    match rows.first().map(Vec::as_slice) {
        Some([Value::Int(n)]) if *n >= 0 => Ok(n.unsigned_abs()),
        _ => Err(Error::Unsupported {
            step: query.first_line(),
            found: "an answer that is not one number".into(),
            needs: "SELECT count(*) of the rows still to do".into(),
        }),
    }
}

pub(super) async fn live(session: &mut Session) -> Result<Vec<Entry>, Error> {
    match history::layout(session).await? {
        Layout::Missing => Ok(Vec::new()),
        Layout::WithoutOwners | Layout::Complete => history::entries(session).await,
    }
}
