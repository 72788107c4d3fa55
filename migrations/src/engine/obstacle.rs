//! What forbids to begin an upgrade's migrations, each with the command that helps. Only looks.

use super::cascade;
use super::command;
use super::later::LaterContract;
use super::order::Record;
use super::present;
use super::status::{self, MigrationStatus, PhaseState, RowCount};
use crate::database::Session;
use crate::error::Error;
use crate::lint;
use crate::unit::{MigrationSet, Phase};

/// All of them, in words; none where the set's own migrations may begin, or go on. Once the upgrade is started, the contract
/// of its baseline is none: its own contract runs that first.
pub(super) async fn all(
    session: &mut Session,
    set: &MigrationSet,
    is_started: bool,
) -> Result<Vec<String>, Error> {
    let dialect = session.dialect();
    let entries = status::live(session).await?;
    let status = status::of_entries(session, set, &entries, RowCount::Uncounted).await?;
    let mut found: Vec<String> = Vec::new();
    for m in status.migrations.iter().filter(|m| !m.own) {
        let record = Record::of(&entries, &m.id);
        let is_ready = if is_started { record.is_usable() } else { m.is_finished() };
        match is_ready {
            true => found.extend(unfilled(session, set, m).await?),
            false => found.push(unfinished(m, &record)),
        }
    }
    let to = set.iter().map(|m| m.version).max().unwrap_or_default();
    found.extend(status.later.iter().filter_map(|later| contracted_later(later, to)));
    for migration in set.own() {
        let record = Record::of(&entries, &migration.id);
        if let Some((state, helps)) = begun_undo(&record, &migration.id) {
            found.push(format!("migration {} cannot begin: {state}; {helps}", migration.id));
            continue;
        }
        if !record.begun(Phase::Expand) {
            found.extend(lint::to_begin(migration, dialect).iter().map(ToString::to_string));
        }
        let there = present::all(session, set, migration, &record).await?;
        found.extend(there.iter().map(ToString::to_string));
    }
    found.extend(cascade::ahead(session, set).await?);
    Ok(found)
}

/// Rows of a migration of the baseline that came after its fill. No upgrade has ended with it, as where its store was lost
/// in remove, so that none has filled them; one that has leaves a contract, an empty one too.
async fn unfilled(
    session: &mut Session,
    set: &MigrationSet,
    m: &MigrationStatus,
) -> Result<Option<String>, Error> {
    let Some(migration) = set.get(&m.id).filter(|_| m.contract != PhaseState::Done) else { return Ok(None) };
    match status::pending(session, migration).await {
        Ok(0) => Ok(None),
        Ok(rows) => Ok(Some(format!(
            "migration {} is of version {}, at or below `from`, and rows came after its fill ({rows}); `{}` fills them",
            m.id,
            m.version,
            command::up_to(Phase::Migrate, m.version)
        ))),
        // After a later contract the columns may be gone that the query names.
        Err(error @ Error::Sql { .. }) => {
            tracing::debug!(%error, "the verify query can no longer be run");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The contract of a migration that no version up to `to` knows: the database may lack what these versions need. Of one
/// without a file no version is known, and another service that shares the schema may have its own files.
fn contracted_later(later: &LaterContract, to: u32) -> Option<String> {
    let version = later.version?;
    Some(format!(
        "migration {} is of version {version}, above `to` ({to}), and its contract has begun{}: version {to} may not be able to run; \
         upgrade to version {version} or above, or restore the database of that time",
        later.migration,
        later.owner.as_ref().map(|owner| format!(" (in the name of {owner})")).unwrap_or_default()
    ))
}

/// An undo that has begun, and the command that ends it.
fn begun_undo(record: &Record<'_>, migration: &str) -> Option<(String, String)> {
    let undo = record.entries().find(|e| e.phase == Phase::Undo)?;
    let state = format!("its undo has begun ({}) and not ended", crate::history::owner_of(undo));
    Some((state, format!("`{}` ends it", command::end_undo(record, migration))))
}

/// A migration of the baseline, and how it is finished.
pub(super) fn unfinished(m: &MigrationStatus, record: &Record<'_>) -> String {
    let to = m.version;
    let run = |phase| command::up_to(phase, to);
    let (state, helps) = begun_undo(record, &m.id).unwrap_or_else(|| {
        let (state, helps) = match (m.expand, m.migrate) {
            (PhaseState::NotStarted, _) => (
                "the history does not show it",
                format!(
                    "where the database has what it makes, `{}` marks it as finished; otherwise `{}`, then `{}`",
                    command::adopt_up_to(to, ""),
                    run(Phase::Expand),
                    run(Phase::Migrate)
                ),
            ),
            (PhaseState::Running, _) => {
                ("its expand has begun and not ended", format!("`{}` ends it", run(Phase::Expand)))
            }
            (_, PhaseState::NotStarted | PhaseState::Running) => {
                ("it is not migrated", format!("`{}` does that", run(Phase::Migrate)))
            }
            _ => (
                "it is not contracted",
                format!(
                    "`{}` does that, and `{}` leaves what it would remove",
                    run(Phase::Contract),
                    command::adopt_up_to(to, " --keep-old")
                ),
            ),
        };
        (state.to_owned(), helps)
    });
    format!(
        "migration {} is of version {to}, at or below `from`, and is not finished: {state}; {helps}",
        m.id
    )
}
