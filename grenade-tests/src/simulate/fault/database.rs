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

/// Puts the one back that the copy replaced. Where the upgrade goes back to a version that cannot use what a contract has left
/// there, as after a restore of the store to before that contract, people go on with the copy.
pub(super) async fn put_newest_back(world: &mut World, schema: usize) {
    let goes_back = world.scenario.owner(schema).is_some_and(|owner| goes_back(world, owner));
    let (now, database) = (world.testbed.now(), &mut world.databases[schema]);
    let is_left = goes_back && database.is_newest_contracted().await;
    let done = match is_left {
        true => database.stays_older(),
        false => database.put_newest_back(now).await.map(drop),
    };
    if let Err(error) = done {
        world.testbed.log(format!("the newest database could not be put back: {error}"));
    }
}

/// Whether a rollback of an upgrade of this service has begun, and no later one has made the form again.
fn goes_back(world: &World, owner: usize) -> bool {
    world.testbed.state().facts.services[owner].undoing.is_some()
}
