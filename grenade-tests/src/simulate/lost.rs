//! What people do where the store was lost with the upgrade that it held.

use super::operator::{Operator, understood, within};
use super::world::World;

/// What comes of a start that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is tried again.
    Again,
    /// Every instance runs what it goes to.
    Done,
}

/// Does what the refusal names, and says how it goes on.
pub(super) async fn refused(world: &World, service: usize, to: u32, why: &str) -> Refused {
    if !world.store_lost {
        return Refused::Again;
    }
    set_window(world, why).await;
    let (now, state) = (world.testbed.now(), world.testbed.state());
    let mut running = state.slots.iter().filter(|((of, _), _)| *of == service);
    match running.all(|(_, slot)| slot.alive(now).is_some_and(|run| run.is.version == to)) {
        true => Refused::Done,
        false => Refused::Again,
    }
}

/// Sets the window as the refusal says: `tidegate fleet window …`.
async fn set_window(world: &World, why: &str) {
    let named = why.split('`').find(|part| part.starts_with("tidegate fleet window"));
    let Some(command) = named.map(understood) else { return };
    let done = within(Operator::new(&world.coordinators).act(&command)).await;
    world.testbed.log(format!("{command:?}: {done:?}"));
}
