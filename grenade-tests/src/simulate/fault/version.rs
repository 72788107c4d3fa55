//! A person puts another version of a service back by hand, and starts the right one again later.

use super::undo::Undo;
use crate::simulate::slot::{At, Running, Slot};
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

/// Where an answer says that a version which a person put back is outside of a window, they start one that is inside. Where
/// it names a rollback to that version, they roll back instead: the database may lack the form of the later one.
pub(in crate::simulate) fn answered(world: &World, answer: &str) {
    let put_back: Vec<(At, u32)> = {
        let (now, state) = (world.testbed.now(), world.testbed.state());
        let put_back = |slot: &Slot| slot.alive(now).filter(|run| run.put_back).map(|run| run.is.version);
        state.slots.iter().filter_map(|(at, slot)| Some((*at, put_back(slot)?))).collect()
    };
    for (at, version) in put_back {
        let admitted = window_in(answer, &world.testbed.names().instance(at));
        let right = admitted.and_then(|admitted| world.testbed.started_again(at.0, version, &admitted));
        if let Some(right) = right {
            world.testbed.reload(at, &right, false);
        }
    }
}

/// The window in an answer that says that an instance is outside it, and names no rollback to the version that runs.
fn window_in(answer: &str, instance: &str) -> Option<RangeInclusive<u32>> {
    let (_, of_it) = answer.split_once(&format!("{instance}: it runs version "))?;
    let (_, window) = of_it.split_once(", outside the new window [")?;
    let (window, rest) = window.split_once(']')?;
    let (floor, ceiling) = window.split_once(", ").filter(|_| !rest.starts_with("; if upgrade "))?;
    Some(floor.parse().ok()?..=ceiling.parse().ok()?)
}

/// Whether a person starts the right version now: not while a hook of its agent moves it.
fn is_to_be_replaced(slot: &Slot, run: &Running, now: u64) -> bool {
    let is_out = slot.out.as_ref().is_some_and(|(since, _)| since + OUT <= now);
    slot.hooks.is_empty() && (is_out || run.since + PATIENCE <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_of_an_instance_is_read_from_the_answer() {
        let answer = "the plan cannot be applied: pantry/n03: it runs version 4, outside the new window [5, 6]; \
                      loft/n03: it runs version 1, outside the new window [2, 2]. Bring these instances back";
        assert_eq!(window_in(answer, "pantry/n03"), Some(5..=6));
        assert_eq!(window_in(answer, "loft/n03"), Some(2..=2));
        assert_eq!(window_in(answer, "loft/n02"), None);
    }

    #[test]
    fn version_of_a_lost_rollback_is_left_as_it_is() {
        let answer = "the plan cannot be applied: pantry/n00: it runs version 1, outside the new window [2, 2]; if \
                      upgrade u0 was rolled back in the former store, roll it back first: `tidegate upgrade \
                      rollback u0 --why …`; pantry/n01: it runs version 3, outside the new window [2, 2]. Bring \
                      these instances back";
        assert_eq!(window_in(answer, "pantry/n00"), None, "it is rolled back instead");
        assert_eq!(window_in(answer, "pantry/n01"), Some(2..=2), "no rollback admits it");
    }
}
