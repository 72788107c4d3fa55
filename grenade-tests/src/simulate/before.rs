//! What must be as it was before once an upgrade has been rolled back.

use super::current::Current;
use super::database::Database;
use super::judge::ServiceFacts;
use super::slot::{At, Running, Slot};
use super::world::World;
use tidegate_proto::ServiceVersion;

/// A look at a database that is not older holds for the commit that ends a rollback, in milliseconds.
const LOOK: u64 = 2_000;

/// The same where a fault disturbs coordinators: that commit, and those of the same turn before it, may arrive late.
const LATE_LOOK: u64 = 6_000;

/// Whether what is there now was there when a coordinator looked last before an upgrade ended.
fn was_seen(database: &Database, ended: u64, is_disturbed: bool) -> bool {
    !database.is_away() && came_before_look(database.replaced_at, ended, is_disturbed)
}

/// Whether a database that took its place at this time, if it took any, was there for the look on which an upgrade ended.
fn came_before_look(replaced_at: Option<u64>, ended: u64, is_disturbed: bool) -> bool {
    replaced_at.is_none_or(|at| at <= shown_until(ended, is_disturbed))
}

/// What took its place by this time, and not later, was there for that look, in milliseconds.
fn shown_until(ended: u64, is_disturbed: bool) -> u64 {
    let holds = if is_disturbed { LATE_LOOK } else { LOOK };
    ended.saturating_sub(holds + 1)
}

/// Until when a database must have taken its place for the end of an upgrade to show that it is no older copy.
pub(super) fn seen_until(world: &World, current: &Current, over: &str) -> u64 {
    let ended = ended_at(world, current);
    let others = world.scenario.sharing(world.scenario.upgrades[current.plan].service);
    let state = world.testbed.state();
    let goes_on = others.iter().any(|other| state.facts.services[*other].upgrading);
    end_shows_until(over, goes_on, ended, state.facts.is_disturbed_since(ended))
}

/// The same. Where it is completed, a look must have shown it; so must one where an upgrade of a sharing service goes on, for
/// which a rollback leaves the form. What another rollback leaves is compared with what the database had.
fn end_shows_until(over: &str, goes_on: bool, ended: u64, is_disturbed: bool) -> u64 {
    if over == "completed" || goes_on { shown_until(ended, is_disturbed) } else { ended }
}

/// When an upgrade ended, in milliseconds from the beginning.
fn ended_at(world: &World, current: &Current) -> u64 {
    world.testbed.state().facts.phases.get(&current.id).map_or(0, |(_, at)| *at)
}

/// Whether the database may be looked at for what the rollback left: another file took its place since the last look, or a
/// service that shares the schema uses the new form, which stays then. An upgrade that ended in preflight has moved no
/// instance back, so what an instance of its own uses stays as well. What runs counts, and what the store said of it when
/// the upgrade ended: nothing tells that a program gives a false version, or what has become of a silent instance. So does
/// a window that admitted only versions with the form then: one that a person put back below it returns to such a version.
/// Of each service, a version above `from` uses the form: what shares a schema counts its versions by that schema's
/// generations, and `shared_with` of the spec names `from` + 1 for each.
fn is_comparable(world: &World, current: &Current, over: &str, schema: usize) -> bool {
    let plan = &world.scenario.upgrades[current.plan];
    let others = world.scenario.sharing(plan.service);
    let counts = |service: usize| others.contains(&service) || over == "failed" && service == plan.service;
    let returns = returns_to_form(world, current, counts);
    let ended = ended_at(world, current);
    let state = world.testbed.state();
    let used = |at: &At, slot: &Slot| {
        counts(at.0) && slot.running.as_ref().is_some_and(|run| run.is.version > plan.from)
    };
    let stays = returns
        || state.slots.iter().any(|(at, slot)| used(at, slot))
        || others.iter().any(|other| state.facts.services[*other].upgrading);
    was_seen(&world.databases[schema], ended, state.facts.is_disturbed_since(ended)) && !stays
}

/// Whether the store said of one of these services, when an upgrade ended, that it uses the new form, or that what it is
/// admitted with next does: an instance was above the former version, or its window admitted no version without the form.
pub(super) fn returns_to_form(world: &World, current: &Current, counts: impl Fn(usize) -> bool) -> bool {
    let from = world.scenario.upgrades[current.plan].from;
    let said = said_above(world, current, from);
    let ended = ended_at(world, current);
    let state = world.testbed.state();
    let admits_no_lower = |(service, facts): (usize, &ServiceFacts)| {
        let has_instances = state.slots.keys().any(|at| at.0 == service);
        counts(service) && has_instances && facts.floor_at(ended) > from
    };
    said.into_iter().any(&counts) || state.facts.services.iter().enumerate().any(admits_no_lower)
}

/// Services with an instance that the store said to be above a version when an upgrade ended.
fn said_above(world: &World, current: &Current, version: u32) -> Vec<usize> {
    let (Ok(id), Ok(version)) = (current.id.parse(), ServiceVersion::new(i64::from(version))) else {
        return Vec::new();
    };
    let said = world.auditor.trace().said_above(&id, version);
    said.iter().filter_map(|service| world.testbed.names().service(service.as_str())).collect()
}

/// After a rollback everything is as it was before.
pub(super) async fn as_before(world: &mut World, current: &Current, over: &str) {
    let plan = world.scenario.upgrades[current.plan].clone();
    let now = world.testbed.now();
    if let Some(schema) = world.scenario.owned_schema(plan.service)
        && let Some(before) = &current.form
        && is_comparable(world, current, over, schema)
    {
        // What cannot be undone stays, as its migration says.
        let irreversible = world.scenario.schemas[schema].generations.get(plan.from as usize - 1);
        let stays = irreversible.filter(|generation| generation.irreversible);
        let stays: Vec<String> =
            stays.map(|_| format!("items.b{} TEXT", plan.from + 1)).into_iter().collect();
        let stays: Vec<String> = stays.into_iter().filter(|what| !before.contains(what)).collect();
        match world.databases[schema].form().await {
            Ok(after) if after.iter().filter(|what| !stays.contains(what)).eq(before) => {}
            Ok(after) => {
                let text =
                    format!("{} is {over}, and its schema is {after:?}, it was {before:?}", current.id);
                world.testbed.state().facts.breach(now, 10, text);
            }
            Err(why) => world.testbed.log(format!("the schema could not be read: {}", why.0)),
        }
        let database = &mut world.databases[schema];
        if !database.older
            && let Err(wrong) = database.is_filled(plan.from).await
        {
            let text = format!("{} is {over}: {}", current.id, wrong.0);
            world.testbed.state().facts.breach(now, 10, text);
        }
    }
    let ended = ended_at(world, current);
    let mut state = world.testbed.state();
    let then = state.facts.rolled_back.get(&current.id);
    // The window admits what it did before the upgrade: what was admitted only then came after the rollback, and so does what
    // was not admitted until now, because its agent is cut off. That the store which rolled back did not know it is enough: an
    // earlier one that was restored to before its admission may have known it.
    let came_later = |at: &At| then.is_some_and(|then| state.facts.silent.came_after(*at, then));
    // What came back since, and was decommissioned, is moved to the former release by the order that waited for it.
    let is_moved = |at: &At, run: &Running| state.facts.is_being_moved(*at, run, ended, now);
    let others: Vec<String> = (state.slots.iter())
        .filter(|(at, slot)| at.0 == plan.service && !state.facts.is_unknown(**at, slot))
        .filter(|(at, slot)| !state.facts.is_taken_for(**at, slot, plan.from))
        .filter_map(|(at, slot)| Some((at, slot.alive(now)?)))
        .filter(|(_, run)| run.is.version != plan.from && !run.is_put_back_below(plan.from))
        .filter(|(at, run)| !came_later(at) && !is_moved(at, run))
        .map(|(at, run)| format!("{} runs {}", world.testbed.names().instance(*at), run.tag))
        .collect();
    if over == "rolled-back" && !others.is_empty() {
        state.facts.breach(now, 10, format!("{} is {over}, and {}", current.id, others.join(", ")));
    }
}

/// Once an upgrade is completed, every row is filled in the new form.
pub(super) async fn all_filled(world: &mut World, current: &Current) {
    let plan = &world.scenario.upgrades[current.plan];
    let (to, now) = (plan.from + 1, world.testbed.now());
    let Some(schema) = world.scenario.owned_schema(plan.service) else { return };
    let ended = ended_at(world, current);
    let is_disturbed = world.testbed.state().facts.is_disturbed_since(ended);
    let database = &mut world.databases[schema];
    if database.older || !was_seen(database, ended, is_disturbed) {
        return;
    }
    if let Err(wrong) = database.is_filled(to).await {
        let text = format!("{} is completed: {}", current.id, wrong.0);
        world.testbed.state().facts.breach(now, 1, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The look found nothing to undo on an older copy, and the newer database came back while the commit was under way.
    #[test]
    fn database_back_while_its_end_is_committed_late_is_unseen() {
        let ended = 60_000;
        assert!(came_before_look(None, ended, true), "none took the place of another");
        for (is_disturbed, holds) in [(false, LOOK), (true, LATE_LOOK)] {
            assert!(!came_before_look(Some(ended - holds), ended, is_disturbed), "{holds} ms before");
            assert!(came_before_look(Some(ended - holds - 1), ended, is_disturbed), "a look has shown it");
        }
    }

    /// A copy takes the place of the database on which an upgrade is completed, between the last look and the commit.
    #[test]
    fn copy_that_no_last_look_has_shown_is_older_still() {
        let ended = 60_000;
        for (is_disturbed, holds) in [(false, LOOK), (true, LATE_LOOK)] {
            let seen_until = shown_until(ended, is_disturbed);
            assert!(ended - holds > seen_until, "one that came {holds} ms before stays older");
            assert!(came_before_look(Some(seen_until), ended, is_disturbed), "a look has shown this one");
            assert!(!came_before_look(Some(seen_until + 1), ended, is_disturbed), "{holds} ms");
        }
        assert_eq!(shown_until(1_000, false), 0, "an upgrade that ended soon after the beginning");
    }

    /// The upgrade of a sharing service goes on by what the rollback recorded of its last look.
    #[test]
    fn copy_after_the_look_that_left_the_form_is_older_still() {
        let ended = 60_000;
        let shows_until = |over, goes_on| end_shows_until(over, goes_on, ended, false);
        assert_eq!(shows_until("rolled-back", true), shown_until(ended, false));
        assert_eq!(shows_until("completed", false), shown_until(ended, false));
        assert_eq!(shows_until("rolled-back", false), ended, "nothing goes by that look");
    }
}
