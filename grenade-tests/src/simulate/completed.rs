//! What must hold of a schema once an upgrade is completed.

use super::chain::Current;
use super::world::World;

/// No row is left that migrate has to fill.
pub async fn every_row_is_filled(world: &mut World, current: &Current) {
    let plan = &world.scenario.upgrades[current.plan];
    let (version, Some(schema)) = (plan.from + 1, world.scenario.services[plan.service].schema) else {
        return;
    };
    let database = &mut world.databases[schema];
    if database.older || database.is_away() {
        return;
    }
    let found = database.unfilled(version).await;
    let now = world.ground.now();
    if let Ok(rows @ 1..) = found {
        let text = format!("{} is completed, and {rows} rows are not filled", current.id);
        world.ground.state().facts.breach(now, 1, text);
    }
}
