//! A person puts another version of a service back by hand, and starts the right one again later.

use super::undo::Undo;
use crate::simulate::slot::{At, Hiccup, Running, Slot};
use crate::simulate::testbed::State;
use crate::simulate::world::World;
use std::ops::RangeInclusive;

/// After so many milliseconds out of rotation an instance was taken out, and a person starts the right version.
const OUT: u64 = 10_000;

/// After so many milliseconds a person waits no longer until it is taken out.
const PATIENCE: u64 = 60_000;

/// On each of these nodes, the version before the one that runs takes its place.
pub(super) fn put_back(world: &World, service: usize, nodes: &[usize]) -> Vec<Undo> {
    let places = nodes.iter().map(|node| (service, *node));
    let former: Vec<(At, String)> = places.filter_map(|at| Some((at, former(world, at)?))).collect();
    for (at, release) in &former {
        world.testbed.reload(*at, release, true);
    }
    if former.is_empty() { Vec::new() } else { vec![Undo::RightVersion(service)] }
}

/// A release of the version before the one that runs, where that is in rotation and says what it is.
fn former(world: &World, at: At) -> Option<String> {
    let version = {
        let (now, state) = (world.testbed.now(), world.testbed.state());
        let slot = state.slots.get(&at).filter(|slot| slot.serves && slot.file_at.is_none())?;
        let run = slot.alive(now).filter(|run| run.is.says.is_none())?;
        run.is.version.checked_sub(1)?
    };
    world.testbed.built_again(at.0, &(version..=version))
}

/// Starts a version that the window admits on each node where one outside it was put back and is out of rotation by now,
/// also where it has ended since. False where there was still such a node: a person looks once more.
pub(super) fn put_right(world: &World, service: usize) -> bool {
    let (now, names) = (world.testbed.now(), world.testbed.names());
    let (admitted, outside) = {
        let mut state = world.testbed.state();
        let State { slots, facts, .. } = &mut *state;
        facts.judge_put_back(now, service, slots, names);
        let admitted = facts.services[service].admitted();
        let is_outside = |run: &&Running| run.put_back && !admitted.contains(&run.is.version);
        let of_it = slots.iter().filter(|(at, _)| at.0 == service);
        let outside = of_it.filter_map(|(at, slot)| {
            let run = slot.running.as_ref().filter(is_outside)?;
            Some((*at, run.is.version, is_to_be_replaced(slot, run, now)))
        });
        let outside: Vec<(At, u32, bool)> = outside.collect();
        (admitted, outside)
    };
    for (at, version, _) in outside.iter().filter(|(.., is_to_be_replaced)| *is_to_be_replaced) {
        let right = world.testbed.started_again(service, *version, &admitted);
        let Some(right) = right else { return true };
        world.testbed.reload(*at, &right, false);
    }
    outside.is_empty()
}

/// Where an answer says that a version is outside of a window, people start one that is inside. Where it names a rollback to
/// that version, they roll back instead: the database may lack the form of the later one.
pub(in crate::simulate) fn answered(world: &World, answer: &str) {
    let replaced: Vec<(At, u32, RangeInclusive<u32>)> = {
        let (now, state) = (world.testbed.now(), world.testbed.state());
        let replaced = |(at, slot): (&At, &Slot)| {
            let outside = outside_in(answer, &world.testbed.names().instance(*at))?;
            let came_below = |run: &Running| state.facts.came_below(*at, run.is.version, run.since);
            let run = slot.alive(now).filter(|run| is_replaced(slot, run, &outside, came_below(run)))?;
            Some((*at, run.is.version, outside.admitted))
        };
        state.slots.iter().filter_map(replaced).collect()
    };
    for (at, version, admitted) in replaced {
        if let Some(right) = world.testbed.started_again(at.0, version, &admitted) {
            world.testbed.reload(at, &right, false);
        }
    }
}

/// Whether a person starts a version inside the window in the place of one that is outside: they put that back themselves; or
/// it runs below the floor, and it was started once that had been raised, as on a node that was away, or its agent could not
/// report then; or its version URL has said another version before, so that the floor may have been raised above it.
fn is_replaced(slot: &Slot, run: &Running, outside: &Outside, came_below: bool) -> bool {
    let has_lied = slot.hiccups.contains_key(&Hiccup::Lies);
    let is_below = run.is.version == outside.version && outside.version < *outside.admitted.start();
    let may_be_below = run.is.says.is_none() && is_below && (has_lied || came_below);
    !outside.names_rollback && (run.put_back || may_be_below)
}

/// What an answer says of an instance that is outside a window.
#[derive(Debug, PartialEq, Eq)]
struct Outside {
    /// What runs there, as its agent sees it.
    version: u32,
    /// The window.
    admitted: RangeInclusive<u32>,
    /// Whether it names the rollback of an upgrade that the former store may have begun.
    names_rollback: bool,
}

fn outside_in(answer: &str, instance: &str) -> Option<Outside> {
    let (_, of_it) = answer.split_once(&format!("{instance}: it runs version "))?;
    let (version, window) = of_it.split_once(", outside the new window [")?;
    let (window, rest) = window.split_once(']')?;
    let (floor, ceiling) = window.split_once(", ")?;
    Some(Outside {
        version: version.parse().ok()?,
        admitted: floor.parse().ok()?..=ceiling.parse().ok()?,
        names_rollback: rest.starts_with("; if upgrade "),
    })
}

/// Whether a person starts the right version now: not while a hook of its agent moves it.
fn is_to_be_replaced(slot: &Slot, run: &Running, now: u64) -> bool {
    let is_out = slot.out.as_ref().is_some_and(|(since, _)| since + OUT <= now);
    slot.hooks.is_empty() && (is_out || run.since + PATIENCE <= now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::slot::Behaviour;

    #[test]
    fn window_of_an_instance_is_read_from_the_answer() {
        let answer = "the plan cannot be applied: pantry/n03: it runs version 4, outside the new window [5, 6]; \
                      loft/n03: it runs version 1, outside the new window [2, 2]; if upgrade u1 was rolled back \
                      in the former store, roll it back first: `tidegate upgrade rollback u1 --why …`. Bring \
                      these instances back";
        let outside = |version, admitted, names_rollback| Outside { version, admitted, names_rollback };
        assert_eq!(outside_in(answer, "pantry/n03"), Some(outside(4, 5..=6, false)));
        assert_eq!(outside_in(answer, "loft/n03"), Some(outside(1, 2..=2, true)));
        assert_eq!(outside_in(answer, "loft/n02"), None);
    }

    fn was_put_back(slot: &mut Slot, run: &mut Running, _: &mut Outside) {
        slot.hiccups.clear();
        run.put_back = true;
    }

    #[test]
    fn version_below_a_floor_is_replaced_where_that_may_be() {
        let replaced_if = |came_below: bool, change: fn(&mut Slot, &mut Running, &mut Outside)| {
            let is = Behaviour::good(4, 0);
            let mut run = Running { tag: "pantry-4".to_owned(), is, since: 0, pid: 1, put_back: false };
            let mut slot = Slot { hiccups: [(Hiccup::Lies, 9_000)].into(), ..Slot::default() };
            let mut outside = Outside { version: 4, admitted: 5..=6, names_rollback: false };
            change(&mut slot, &mut run, &mut outside);
            is_replaced(&slot, &run, &outside, came_below)
        };
        let replaced = |change| replaced_if(false, change);
        assert!(replaced(|_, _, _| ()));
        assert!(!replaced(|slot, _, _| slot.hiccups.clear()), "its URL has never lied");
        assert!(replaced_if(true, |slot, _, _| slot.hiccups.clear()), "its node was away as the floor rose");
        assert!(!replaced(|_, _, outside| outside.version = 9), "its agent goes by the lie still");
        assert!(!replaced(|_, _, outside| outside.admitted = 2..=3), "it runs above the window");
        assert!(!replaced(|_, _, outside| outside.names_rollback = true), "the rollback comes first");
        assert!(!replaced(|_, run, _| run.is.says = Some(3)), "its release gives a false version always");
        assert!(replaced(was_put_back), "a person put it back");
        let is_rolled_back: fn(&mut Slot, &mut Running, &mut Outside) = |slot, run, outside| {
            was_put_back(slot, run, outside);
            outside.names_rollback = true;
        };
        assert!(!replaced(is_rolled_back), "the database may lack the form of the later one");
    }
}
