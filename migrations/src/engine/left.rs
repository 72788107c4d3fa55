//! What an undo leaves in place: what another owner made, and what no undo takes back.

use super::order::Record;
use crate::database::{Dialect, Session};
use crate::error::Error;
use crate::history::{Entry, PHASE};
use crate::lint;
use crate::object::{self, Object};
use crate::owner::Owner;
use crate::presence;
use crate::unit::{Migration, Phase, Step};

/// Why no undo takes back what a step of expand made, where none does.
pub(super) fn stays(migration: &Migration, dialect: Dialect, entry: &Entry) -> Option<&'static str> {
    let at = usize::try_from(entry.step).ok()?;
    if entry.phase != Phase::Expand {
        return None;
    }
    if migration.is_irreversible(dialect, at) {
        return Some("irreversible");
    }
    let step = migration.steps(Phase::Expand, dialect).get(at)?;
    if entry.owner.is_none() && lint::asks_what_is_there(step) {
        return Some("it says IF NOT EXISTS and may have found what was there before");
    }
    let made = object::made(step)?;
    let undo = migration.steps(Phase::Undo, dialect);
    let removed: Vec<Object> = undo.iter().flat_map(object::removed).collect();
    let taken = made.is_empty() || made.iter().any(|o| removed.iter().any(|gone| o.goes_with(gone)));
    (!taken).then_some("its undo does not remove it")
}

/// The steps of expand that an undo in this owner's name leaves in place, each with the reason.
fn left_by<'a>(
    record: &Record<'a>,
    migration: &Migration,
    dialect: Dialect,
    owner: &Owner,
) -> Vec<(&'a Entry, String)> {
    let steps = record.entries().filter(|e| e.phase == Phase::Expand && e.step != PHASE);
    steps
        .filter_map(|e| match stays(migration, dialect, e) {
            Some(why) => Some((e, why.to_owned())),
            None if record.is_of(e, owner) => None,
            None => Some((e, format!("expanded by {}", crate::history::owner_of(e)))),
        })
        .collect()
}

/// The same in words, for people.
pub(super) fn described(
    record: &Record<'_>,
    migration: &Migration,
    dialect: Dialect,
    owner: &Owner,
) -> Vec<String> {
    let left = left_by(record, migration, dialect, owner).into_iter();
    left.filter_map(|(entry, why)| {
        let step = step_of(migration, dialect, entry)?;
        Some(format!("`{}` of {} ({why})", step.summary(), migration.id))
    })
    .collect()
}

/// The objects that an undo in this owner's name must not remove: all but those that the history shows as made by steps
/// that are taken back. A step that never ran made nothing, and an object with its name was there before.
pub(super) fn kept(
    record: &Record<'_>,
    migration: &Migration,
    dialect: Dialect,
    owner: &Owner,
) -> Vec<Object> {
    let left = left_by(record, migration, dialect, owner);
    let taken = |phase: Phase, at: i64| {
        record.step(phase, at).is_some() && !left.iter().any(|(e, _)| (e.phase, e.step) == (phase, at))
    };
    let steps = |phase| (0..).zip(migration.steps(phase, dialect)).map(move |(at, step)| (phase, at, step));
    let all = steps(Phase::Expand).chain(steps(Phase::Migrate));
    object::made_by_all(all.filter(|(phase, at, _)| !taken(*phase, *at)).map(|(_, _, step)| step))
}

/// A step of undo without what must be kept; none where nothing of it is left.
pub(super) fn spared(step: &Step, kept: &[Object]) -> Option<Step> {
    let keeps = |step: &Step| {
        object::removed(step).iter().any(|gone| kept.iter().any(|object| object.goes_with(gone)))
    };
    match step {
        _ if !keeps(step) => Some(step.clone()),
        Step::Sql(statements) => {
            let each = statements.iter().filter(|s| !keeps(&Step::Sql(vec![(*s).clone()])));
            let rest: Vec<_> = each.cloned().collect();
            (!rest.is_empty()).then_some(Step::Sql(rest))
        }
        _ => None,
    }
}

/// The rows that stay in the history after an undo, because what they made is still there.
pub(super) async fn rows(
    session: &mut Session,
    record: &Record<'_>,
    migration: &Migration,
    kept: &[Object],
) -> Result<Vec<(Phase, i64)>, Error> {
    let dialect = session.dialect();
    let undo = migration.steps(Phase::Undo, dialect);
    let gone: Vec<Object> =
        undo.iter().filter_map(|step| spared(step, kept)).flat_map(|step| object::removed(&step)).collect();
    let mut rows = Vec::new();
    for entry in record.entries().filter(|e| [Phase::Expand, Phase::Migrate].contains(&e.phase)) {
        let Some(made) = step_of(migration, dialect, entry).and_then(object::made) else { continue };
        let mut there = !made.is_empty();
        for object in &made {
            let taken = gone.iter().any(|gone| object.goes_with(gone));
            let seen = !presence::can_be_seen(object) || presence::is_there(session, object).await?;
            there &= !taken && seen;
        }
        let lasts = made.is_empty() && entry.step != PHASE && stays(migration, dialect, entry).is_some();
        if there || lasts {
            rows.push((entry.phase, entry.step));
        }
    }
    Ok(rows)
}

fn step_of<'m>(migration: &'m Migration, dialect: Dialect, entry: &Entry) -> Option<&'m Step> {
    migration.steps(entry.phase, dialect).get(usize::try_from(entry.step).ok()?)
}
