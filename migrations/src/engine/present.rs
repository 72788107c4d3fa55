//! What a migration's steps would make, and the database has already. Only looks.

use super::command;
use super::order::Record;
use crate::database::Session;
use crate::error::Error;
use crate::object::{self, Object};
use crate::presence;
use crate::unit::{Migration, MigrationSet, Phase, Step};

/// The steps to which that will happen, of those that have not begun: the refusal of each. What an earlier step of
/// contract removes is gone by then.
pub(super) async fn all(
    session: &mut Session,
    set: &MigrationSet,
    migration: &Migration,
    record: &Record<'_>,
) -> Result<Vec<Error>, Error> {
    let dialect = session.dialect();
    let before = set.own().take_while(|m| m.id != migration.id);
    let contracts = before.flat_map(|m| m.steps(Phase::Contract, dialect));
    let mut removed: Vec<Object> = contracts.flat_map(object::removed).collect();
    let mut found = Vec::new();
    // Adopting is refused where the history shows something of it, or where something of expand is missing.
    let mut adoptable = record.entries().next().is_none();
    for phase in [Phase::Expand, Phase::Migrate, Phase::Contract] {
        for (at, step) in (0..).zip(migration.steps(phase, dialect)) {
            let begun = record.step(phase, at).is_some();
            for object in object::made(step).filter(|_| !begun).unwrap_or_default() {
                let gone = phase == Phase::Contract && removed.iter().any(|gone| object.goes_with(gone));
                if !gone && presence::is_taken(session, &object).await? {
                    found.push((phase, step, object));
                } else if phase == Phase::Expand && presence::can_be_seen(&object) {
                    adoptable = false;
                }
            }
            if phase == Phase::Contract {
                removed.extend(object::removed(step));
            }
        }
    }
    let refusals = found.into_iter().map(|(phase, step, object)| {
        let helps = match phase == Phase::Expand && adoptable {
            true => format!(
                "if it is what the step makes, `{}` marks it as present, with --expand-only while the version before it \
                 runs; otherwise rename or remove it",
                command::adopt(&migration.id)
            ),
            false => HELPS.to_owned(),
        };
        refusal(migration, step, &object, helps)
    });
    Ok(refusals.collect())
}

/// Sees that nothing is there yet of what a step makes that begins now.
pub(super) async fn none(session: &mut Session, migration: &Migration, step: &Step) -> Result<(), Error> {
    for object in object::made(step).unwrap_or_default() {
        if presence::is_taken(session, &object).await? {
            return Err(refusal(migration, step, &object, HELPS.to_owned()));
        }
    }
    Ok(())
}

const HELPS: &str = "rename or remove it, and the step makes it";

fn refusal(migration: &Migration, step: &Step, object: &Object, helps: String) -> Error {
    let (step, object) = (step.summary(), object.to_string());
    Error::Present { migration: migration.id.clone(), step, object, helps }
}
