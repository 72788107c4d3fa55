//! The judge's looks at databases: whether one has the form that the upgrade under way gave it, and the rows that it filled
//! before the roll.

use super::world::World;

/// Looks whether the database of a service has the form of a version. Where it does not answer, nothing is known.
pub(super) async fn look(world: &mut World, service: usize, to: u32) {
    let Some(schema) = world.scenario.owned_schema(service) else { return };
    let now = world.testbed.now();
    let database = &mut world.databases[schema];
    let Ok(has) = database.has_form(to).await else { return };
    let meets_unfilled = world.scenario.schemas[schema].meets_unfilled(to);
    let has = has && (meets_unfilled || !database.lacks_fill(to).await);
    let replaced_at = database.replaced_at;
    world.testbed.state().facts.looked_at_form(service, (has, now), replaced_at);
}
