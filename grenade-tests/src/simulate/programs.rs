//! The sessions of programs: each process of a service that has a schema is connected to its database as long as it runs,
//! under the name `service/version/node`.

use super::slot::Behaviour;
use super::world::World;
use std::collections::BTreeSet;

/// Connects what has begun to run, and ends the sessions of what runs no more.
pub(super) fn connect(world: &mut World) {
    let now = world.testbed.now();
    for (schema, database) in world.databases.iter_mut().enumerate() {
        let names: BTreeSet<String> = {
            let (state, names) = (world.testbed.state(), world.testbed.names());
            let uses = |service: usize| world.scenario.services[service].schema == Some(schema);
            let running = state.slots.iter().filter(|((service, _), _)| uses(*service));
            let as_said = world.sessions[schema].named_as_said;
            let version = |is: &Behaviour| is.says.filter(|_| as_said).unwrap_or(is.version);
            let running = running.filter_map(|(at, slot)| Some((at, version(&slot.alive(now)?.is))));
            let name = |((service, node), version): (&(usize, usize), u32)| {
                format!("{}/{version}/{}", names.services[*service], names.nodes[*node])
            };
            running.map(name).collect()
        };
        database.set_programs(&names);
        match database.is_away() {
            true => world.sessions[schema].end(),
            false => world.sessions[schema].are(&names, now),
        }
    }
}
