//! What forbids to begin an upgrade's migrations, each with the command that helps. Only looks.

use super::order::{self, Record};
use super::status::{self, MigrationStatus, PhaseState};
use crate::database::Session;
use crate::error::Error;
use crate::lint;
use crate::object;
use crate::presence;
use crate::unit::{MigrationSet, Phase};

/// All of them, in words; none where the set's own migrations may begin, or have begun.
pub(super) async fn all(session: &mut Session, set: &MigrationSet) -> Result<Vec<String>, Error> {
    let dialect = session.dialect();
    let status = status::by_history(session, set).await?;
    let entries = status::live(session).await?;
    order::drift(&entries, set, dialect)?;
    let mut found: Vec<String> =
        status.migrations.iter().filter(|m| !m.own && !m.is_finished()).map(unfinished).collect();
    for migration in set.own() {
        let record = Record::of(&entries, &migration.id);
        if record.begun(Phase::Expand) {
            continue;
        }
        found.extend(lint::to_begin(migration, dialect).iter().map(ToString::to_string));
        for step in migration.steps(Phase::Expand, dialect) {
            for object in object::made(step).unwrap_or_default() {
                if presence::is_there(session, &object).await? {
                    let (migration, step) = (migration.id.clone(), step.summary());
                    found.push(Error::Present { migration, step, object: object.to_string() }.to_string());
                }
            }
        }
    }
    Ok(found)
}

/// A migration of the baseline, and how it is finished.
fn unfinished(m: &MigrationStatus) -> String {
    let to = m.version;
    let (state, helps) = match (m.undo, m.expand, m.migrate) {
        (PhaseState::Running | PhaseState::Done, ..) => {
            ("its undo has begun", format!("`tidegate schema undo --to {to}` ends it"))
        }
        (_, PhaseState::NotStarted, _) => (
            "the history does not show it",
            format!(
                "where the database has what it makes, `tidegate schema adopt --to {to}` marks it as finished; \
                 otherwise `tidegate schema expand --to {to}`, then `tidegate schema migrate --to {to}`"
            ),
        ),
        (_, PhaseState::Running, _) => {
            ("its expand has begun and not ended", format!("`tidegate schema expand --to {to}` ends it"))
        }
        (_, _, PhaseState::NotStarted | PhaseState::Running) => {
            ("it is not migrated", format!("`tidegate schema migrate --to {to}` does that"))
        }
        _ => (
            "it is not contracted",
            format!(
                "`tidegate schema contract --to {to} --certificate FILE` does that, and `tidegate schema adopt --to {to} \
                 --keep-old` leaves what it would remove"
            ),
        ),
    };
    format!(
        "migration {} is of version {to}, at or below `from`, and is not finished: {state}; {helps}",
        m.id
    )
}
