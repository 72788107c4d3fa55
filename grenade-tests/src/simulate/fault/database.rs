//! Faults of databases.

use super::undo::Undo;
use crate::simulate::world::World;

pub(super) fn take_away(world: &mut World, service: usize) -> Vec<Undo> {
    let Some(schema) = world.scenario.services[service].schema else { return Vec::new() };
    if let Err(error) = world.databases[schema].set_away(true) {
        world.testbed.log(format!("the database could not be put away: {error}"));
    }
    vec![Undo::Database(schema)]
}

pub(super) fn bring_back(world: &mut World, schema: usize) {
    if let Err(error) = world.databases[schema].set_away(false) {
        world.testbed.log(format!("the database could not be put back: {error}"));
    }
}

/// Replaces the database by a copy that was made before the upgrade; half of the time the newest one returns.
pub(super) async fn put_older_copy(world: &mut World, service: usize, lasts: u64) -> Vec<Undo> {
    let Some(schema) = world.scenario.owned_schema(service) else { return Vec::new() };
    let done = world.databases[schema].put_copy_back(world.testbed.now()).await;
    world.testbed.log(format!("an older copy of the database: {:?}", done.map_err(|e| e.kind())));
    if lasts.is_multiple_of(2) { vec![Undo::Newest(schema)] } else { Vec::new() }
}

pub(super) async fn put_newest_back(world: &mut World, schema: usize) {
    if let Err(error) = world.databases[schema].put_newest_back(world.testbed.now()).await {
        world.testbed.log(format!("the newest database could not be put back: {error}"));
    }
}
