//! What coordinators write into databases and must not. One that goes on after it was stopped may not know yet that
//! another one leads, and the other one soon writes over what it wrote: from then on, databases are looked at often for a
//! while.

use super::world::World;

/// Between two looks, in milliseconds.
pub(super) const EVERY: u64 = 10;

/// For how long, in milliseconds.
pub(super) const LASTS: u64 = 2_000;

/// Looks whether a lower term than was obeyed has written, and whether a leader overwrote a term that its store does not
/// know.
pub(super) async fn look(world: &mut World) {
    let now = world.testbed.now();
    let auditor = &world.auditor;
    for database in world.databases.iter_mut().filter(|database| !database.is_away()) {
        if let Some(text) = database.written_wrongly(|term| auditor.origin(term)).await {
            world.testbed.state().facts.breach(now, 0, text);
        }
    }
}
