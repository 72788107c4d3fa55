//! While an upgrade is paused, no schema job of it goes on: once the coordinator has read the pause, it begins no further
//! transaction, so that the engine's history changes once more at most.

use super::current::Current;
use super::database::Texts;
use super::world::World;

/// From the commit of a pause until the coordinator that leads has read it, in milliseconds.
const READ: u64 = 500;

/// What the engine wrote under a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PausedJob {
    under: Pause,
    /// The engine's history at the last look.
    written: Texts,
    /// How often that was another one than at the look before.
    changes: u32,
}

/// One pause of one upgrade, on one database on which no person worked meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pause {
    upgrade: String,
    since: u64,
    replaced: Option<u64>,
    by_hand: Option<u64>,
}

impl PausedJob {
    /// What is seen now, after what was seen before.
    fn after(former: Option<Self>, under: Pause, written: Texts) -> Self {
        let former = former.filter(|former| former.under == under);
        let changes = former.map_or(0, |former| former.changes + u32::from(former.written != written));
        Self { under, written, changes }
    }

    /// Whether more was written than the transaction that was under way.
    fn goes_on(&self) -> bool {
        self.changes > 1
    }
}

/// Judges the job of an upgrade that may be paused. `stopped` says when a coordinator was stopped last.
pub(super) async fn judge(world: &mut World, current: &Current, stopped: Option<u64>) {
    let now = world.testbed.now();
    let service = world.scenario.upgrades[current.plan].service;
    let Some(schema) = world.scenario.owned_schema(service) else { return };
    let former = world.paused_jobs[schema].take();
    let pause = {
        let facts = &world.testbed.state().facts;
        let since = facts.paused.get(&current.id).copied();
        let is_read = |since: &u64| {
            now > since + READ && stopped.is_none_or(|at| at < *since) && !facts.is_disturbed_since(*since)
        };
        since.filter(is_read).map(|since| Pause {
            upgrade: current.id.clone(),
            since,
            replaced: world.databases[schema].replaced_at,
            by_hand: facts.worked_by_hand,
        })
    };
    let Some(pause) = pause.filter(|_| !world.databases[schema].is_away()) else { return };
    let Some(written) = world.databases[schema].written().await else { return };
    let job = PausedJob::after(former, pause, written);
    if job.goes_on() {
        let ms = now - job.under.since;
        let text = format!("a schema job of {} went on {ms} ms after it was paused", current.id);
        world.testbed.state().facts.breach(now, 0, text);
    }
    world.paused_jobs[schema] = Some(job);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(since: u64) -> Pause {
        Pause { upgrade: "u0".to_owned(), since, replaced: None, by_hand: None }
    }

    fn history(states: &[&str]) -> Texts {
        states.iter().map(|state| ((*state).to_owned(), None)).collect()
    }

    #[test]
    fn second_transaction_under_a_pause_is_found() {
        let seen = |former, pause, states: &[&str]| PausedJob::after(former, pause, history(states));
        let first = seen(None, pause(1_000), &["running"]);
        let ended = seen(Some(first.clone()), pause(1_000), &["done"]);
        assert!(!ended.goes_on(), "it was under way");
        let next = seen(Some(ended.clone()), pause(1_000), &["done", "running"]);
        assert!(next.goes_on());
        assert!(!seen(Some(ended.clone()), pause(1_000), &["done"]).goes_on(), "nothing was written");
        assert!(!seen(Some(ended.clone()), pause(2_000), &["done", "done"]).goes_on(), "it was resumed");
        let by_hand = Pause { by_hand: Some(1_500), ..pause(1_000) };
        assert!(!seen(Some(ended), by_hand, &["done", "done"]).goes_on(), "a person worked at it");
    }
}
