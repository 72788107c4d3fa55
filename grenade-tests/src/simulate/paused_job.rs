//! While an upgrade is paused, no schema job of it goes on: once the coordinator has read the pause, and a transaction that
//! was under way has ended, the engine's history stays as it is.

use super::current::Current;
use super::database::Texts;
use super::world::World;

/// From the commit of a pause until the transaction that was under way has ended, in milliseconds: some forty statements.
const ENDS: u64 = 800;

/// What the engine's history said when it was first looked at under a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PausedJob {
    under: Pause,
    written: Texts,
}

/// One pause of one upgrade, on one database on which no person worked meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pause {
    upgrade: String,
    since: u64,
    replaced: Option<u64>,
    by_hand: Option<u64>,
}

/// Judges the job of an upgrade that may be paused. `calm` says since when no coordinator is stopped and no statement is
/// slow.
pub(super) async fn judge(world: &mut World, current: &Current, calm: u64) {
    let now = world.testbed.now();
    let service = world.scenario.upgrades[current.plan].service;
    let Some(schema) = world.scenario.owned_schema(service) else { return };
    let former = world.paused_jobs[schema].take();
    let pause = {
        let facts = &world.testbed.state().facts;
        let since = facts.paused.get(&current.id).copied();
        since.filter(|since| !facts.is_disturbed_since(*since)).map(|since| Pause {
            upgrade: current.id.clone(),
            since,
            replaced: world.databases[schema].replaced_at,
            by_hand: facts.worked_by_hand,
        })
    };
    let Some(pause) = pause.filter(|pause| now > pause.since.max(calm) + ENDS) else { return };
    if world.databases[schema].is_away() {
        return;
    }
    let Some(written) = world.databases[schema].written().await else { return };
    if let Some(former) = former.filter(|former| former.under == pause)
        && former.written != written
    {
        let text =
            format!("a schema job of {} went on {} ms after it was paused", current.id, now - pause.since);
        world.testbed.state().facts.breach(now, 0, text);
    }
    world.paused_jobs[schema] = Some(PausedJob { under: pause, written });
}
