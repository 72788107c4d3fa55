//! Adoption: a person states that what a migration makes is in the database already, and the history records it.

use super::command;
use super::order::{self, Record};
use super::status;
use crate::database::{Dialect, Session};
use crate::error::Error;
use crate::history::{self, Entry, PHASE};
use crate::leader::Leader;
use crate::object::{self, Object};
use crate::owner::ADOPTED;
use crate::presence;
use crate::unit::{Digest, Migration, MigrationSet, Phase};

/// What is adopted, of a set's own migrations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    /// Expand alone: migrate and contract are still to run, and the version before it may run.
    pub expand_only: bool,
    /// A migration that is migrated counts as finished although its contract has not run: what that would remove stays.
    pub keep_old: bool,
    /// Who says so; kept in the history.
    pub who: String,
    /// Why; kept in the history.
    pub why: String,
}

/// A migration that is marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// Its id.
    pub migration: String,
    /// The phases that count as done now and did not before.
    pub phases: Vec<Phase>,
}

impl Adoption {
    fn note(&self) -> String {
        serde_json::json!({"adopted": {"who": self.who, "why": self.why}}).to_string()
    }
}

/// What would be marked.
///
/// # Errors
/// [`Error::Order`] where the history shows a migration in progress, [`Error::NotAsAdopted`] where the database is not
/// as the migrations leave it.
pub(super) async fn plan(
    session: &mut Session,
    set: &MigrationSet,
    adoption: &Adoption,
) -> Result<Vec<Adopted>, Error> {
    let dialect = session.dialect();
    let entries = status::live(session).await?;
    order::drift(&entries, set, dialect)?;
    let mut adopted = Vec::new();
    let mut left = Vec::new();
    for migration in set.own() {
        let record = Record::of(&entries, &migration.id);
        let phases = phases(&record, migration, dialect, adoption)?;
        if !phases.is_empty() {
            replay(&mut left, migration, dialect, &phases);
            adopted.push(Adopted { migration: migration.id.clone(), phases });
        }
    }
    for Expected { migration, object, present } in left.iter().filter(|e| presence::can_be_seen(&e.object)) {
        if presence::is_there(session, object).await? != *present {
            let found = match present {
                true => format!("{object} is not in the database; make it, or run the migration"),
                false => format!(
                    "{object} is in the database, and its contract removes it; remove it, or adopt expand alone with --expand-only"
                ),
            };
            return Err(Error::NotAsAdopted { migration: migration.clone(), found });
        }
    }
    for one in adopted.iter().filter(|one| one.phases.contains(&Phase::Migrate)) {
        let migration = set.get(&one.migration).expect("an adopted migration is one of the set");
        match status::pending(session, migration).await {
            Ok(0) => {}
            Ok(rows) => return Err(Error::Unverified { migration: one.migration.clone(), rows }),
            // After contract the columns may be gone that the query names.
            Err(error @ Error::Sql { .. }) => {
                tracing::debug!(%error, "the verify query can no longer be run")
            }
            Err(error) => return Err(error),
        }
    }
    Ok(adopted)
}

/// What adoption adds to a migration's history; nothing where it is finished.
fn phases(
    record: &Record<'_>,
    migration: &Migration,
    dialect: Dialect,
    adoption: &Adoption,
) -> Result<Vec<Phase>, Error> {
    let refuse = |phase, found: &str, needs: String| {
        Err(Error::Order { migration: migration.id.clone(), phase, found: found.to_owned(), needs })
    };
    let to = migration.version;
    let contract_is_empty = migration.steps(Phase::Contract, dialect).is_empty();
    if record.begun(Phase::Undo) {
        return refuse(
            Phase::Undo,
            "its undo has begun",
            format!("run `{}` to its end", command::end_undo(record, &migration.id)),
        );
    }
    if record.done(Phase::Contract) || (record.done(Phase::Migrate) && contract_is_empty) {
        return Ok(Vec::new());
    }
    if record.begun(Phase::Contract) {
        return refuse(
            Phase::Contract,
            "its contract has begun, so adopting it would hide what is left",
            format!("run `{}` to its end", command::up_to(Phase::Contract, to)),
        );
    }
    if record.done(Phase::Migrate) {
        return match adoption.keep_old && !adoption.expand_only {
            true => Ok(vec![Phase::Contract]),
            false => refuse(
                Phase::Contract,
                "it is migrated, and its contract has not run",
                "run `tidegate schema contract` with a certificate, or add --keep-old: what contract would remove stays"
                    .to_owned(),
            ),
        };
    }
    if record.done(Phase::Expand) && adoption.expand_only {
        return Ok(Vec::new());
    }
    if record.begun(Phase::Expand) || record.begun(Phase::Migrate) {
        let next = if record.done(Phase::Expand) { Phase::Migrate } else { Phase::Expand };
        return refuse(
            next,
            "its history shows it in progress, so adopting it would hide what is left",
            format!("run `{}`, or undo it", command::up_to(next, to)),
        );
    }
    Ok(match adoption.expand_only {
        true => vec![Phase::Expand],
        false => vec![Phase::Expand, Phase::Migrate, Phase::Contract],
    })
}

/// Whether an object must be there after the migrations that are adopted.
struct Expected {
    migration: String,
    object: Object,
    present: bool,
}

/// A later migration may remove what an earlier one made.
fn replay(left: &mut Vec<Expected>, migration: &Migration, dialect: Dialect, phases: &[Phase]) {
    let whole = phases.contains(&Phase::Expand);
    let made = [Phase::Expand, Phase::Migrate].into_iter().filter(|phase| whole && phases.contains(phase));
    for object in object::made_by_all(made.flat_map(|phase| migration.steps(phase, dialect))) {
        left.retain(|expected| !expected.object.is(&object));
        left.push(Expected { migration: migration.id.clone(), object, present: true });
    }
    if !whole || !phases.contains(&Phase::Contract) {
        return;
    }
    let contract = migration.steps(Phase::Contract, dialect);
    for gone in contract.iter().flat_map(object::removed) {
        left.retain(|expected| !expected.object.goes_with(&gone));
        left.push(Expected { migration: migration.id.clone(), object: gone, present: false });
    }
    for object in object::made_by_all(contract) {
        left.push(Expected { migration: migration.id.clone(), object, present: true });
    }
}

/// Marks them, in one transaction.
pub(super) async fn mark(
    leader: &mut Leader,
    set: &MigrationSet,
    adoption: &Adoption,
) -> Result<Vec<Adopted>, Error> {
    let dialect = leader.session.dialect();
    // Before the transaction, which a query that fails would end.
    let adopted = plan(&mut leader.session, set, adoption).await?;
    leader.begin().await?;
    let (note, term) = (adoption.note(), leader.term.clone());
    for one in &adopted {
        let migration = set.get(&one.migration).expect("an adopted migration is one of the set");
        for phase in &one.phases {
            let steps = migration.steps(*phase, dialect);
            let each = (0..).zip(steps).map(|(at, step)| (at, Digest::of(step), step.summary()));
            let whole = (PHASE, Digest::of(steps), format!("{phase} of {}", migration.id));
            for (step, checksum, summary) in [whole].into_iter().chain(each) {
                let entry = Entry::begun(ADOPTED, migration, *phase, step, &checksum);
                history::begin_entry(&mut leader.session, &entry, &summary, Some(&note), &term).await?;
                history::finish_entry(&mut leader.session, &entry, &term).await?;
            }
        }
    }
    leader.commit("an adoption").await?;
    Ok(adopted)
}
