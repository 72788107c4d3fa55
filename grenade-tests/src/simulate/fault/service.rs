//! Faults of single instances: of their processes, their health and their hooks.

use super::undo::Undo;
use crate::simulate::slot::{At, Hiccup, Slot};
use crate::simulate::world::World;

pub(super) fn hiccup(world: &World, at: At, hiccup: Hiccup, until: u64) -> Vec<Undo> {
    if hiccup == Hiccup::Heedless {
        let now = world.testbed.now();
        world.testbed.state().facts.shown_again(now, at);
    }
    world.testbed.change(at, |slot, _| {
        // An instance that is out of rotation gets no requests.
        if hiccup != Hiccup::Works || slot.server.up {
            slot.hiccups.insert(hiccup, until);
        }
    });
    Vec::new()
}

pub(super) fn crash(world: &World, at: At) -> Vec<Undo> {
    world.testbed.crash(at);
    Vec::new()
}

/// Changes an instance for a time that the change itself contains.
pub(super) fn change(world: &World, at: At, change: impl FnOnce(&mut Slot)) -> Vec<Undo> {
    world.testbed.change(at, |slot, _| change(slot));
    Vec::new()
}
