//! Random events around the database of an upgrade: no wave begins on an old look.

use super::{asker, drains, with_schema};
use crate::sim::{Database, World, node, release, upgrade_id};
use proptest::prelude::*;
use serde_json::json;
use tidegate_planner::LookedFor;
use tidegate_planner::ask;
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};

/// What happens to a database and to the fleet that uses it.
#[derive(Debug, Clone)]
enum Event {
    Turns(usize),
    Agents,
    Lose,
    Return,
    LateRows,
    Away(bool),
    Elect,
    RollBack,
    Silence(usize),
    Break(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => (1..4_usize).prop_map(Event::Turns),
        10 => Just(Event::Agents),
        2 => Just(Event::Lose),
        2 => Just(Event::Return),
        2 => Just(Event::LateRows),
        1 => any::<bool>().prop_map(Event::Away),
        1 => Just(Event::Elect),
        1 => Just(Event::RollBack),
        1 => (0..4_usize).prop_map(Event::Silence),
        1 => (0..4_usize).prop_map(Event::Break),
    ]
}

/// A database, and the copy that it is replaced by.
struct Story {
    world: World,
    /// What was there before it was replaced, and the decision before which the upgrade was then.
    replaced: Option<(Database, LookedFor)>,
    term: usize,
}

impl Story {
    fn turn(&mut self) {
        let decision = self.world.upgrade().map(LookedFor::of);
        let replaced = self.replaced.as_ref().is_some_and(|(_, then)| Some(then) != decision.as_ref());
        let rolls = matches!(self.world.phase(), Phase::Roll { .. });
        let (_, plan) = self.world.turn();
        if self.world.database.expanded {
            // Expand was done on the copy: from here on the copy is the database.
            self.replaced = None;
        }
        assert!(!(rolls && replaced && drains(&plan)), "drained on an older copy: {plan:?}");
    }

    fn happen(&mut self, event: Event) {
        let world = &mut self.world;
        match event {
            Event::Turns(n) => (0..n).for_each(|_| self.turn()),
            Event::Agents => drop(world.agents_step()),
            Event::Lose if self.replaced.is_none() && world.database.expanded => {
                let then = LookedFor::of(world.upgrade().unwrap());
                self.replaced = Some((std::mem::take(&mut world.database), then));
            }
            Event::Return => {
                // In a rollback the older copy is the one that stays: its undo was judged by it.
                let back = matches!(world.phase(), Phase::RollingBack { .. });
                if let Some((was, _)) = self.replaced.take().filter(|_| !back) {
                    world.database = was;
                }
            }
            Event::LateRows if world.database.expanded && !world.database.contracted => {
                world.database.late_rows += 1;
            }
            Event::Away(away) => world.database.away = away,
            Event::Elect => {
                self.term += 1;
                world.elect(self.term);
                world.facts = None;
            }
            Event::RollBack => {
                let asked = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker());
                if let Ok(commit) = asked {
                    assert!(world.store.commit(&commit));
                    world.events += 1;
                }
            }
            Event::Silence(n) => world.fall_silent(n),
            Event::Break(n) => world.agents.get_mut(&node(n)).unwrap().broken_at = Some(2),
            Event::Lose | Event::LateRows => {}
        }
    }

    fn mend(&mut self) {
        self.happen(Event::Return);
        self.world.database.away = false;
        for n in 0..4 {
            let agent = self.world.agents.get_mut(&node(n)).unwrap();
            (agent.broken_at, agent.idle) = (None, None);
            let runs = i64::from(agent.release.version.get());
            if !agent.alive {
                self.world.return_with(&node(n), runs);
            }
            let (fleet, moment) = (self.world.store.fleet(), self.world.moment());
            if let Ok(commit) = ask::retry(fleet, &moment, &upgrade_id(), &node(n), &asker()) {
                assert!(self.world.store.commit(&commit));
                self.world.events += 1;
            }
        }
        let (fleet, moment) = (self.world.store.fleet(), self.world.moment());
        if let Ok(commit) = ask::resume(fleet, &moment, &upgrade_id(), &asker()) {
            assert!(self.world.store.commit(&commit));
            self.world.events += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever becomes of the database: nothing is drained on what an old look showed, each turn moves or says why
    /// (the simulation asserts that), and once it is back the upgrade ends as the database shows.
    #[test]
    fn no_wave_starts_on_stale_database_observation(
        events in prop::collection::vec(event(), 10..60), nova in any::<bool>(),
    ) {
        let order = if nova { MigrateOrder::AfterRoll } else { MigrateOrder::BeforeRoll };
        let mut world = World::at_version_1(4);
        world.start_with_schema(with_schema(json!({"min_in_service": 2})), order);
        let mut story = Story { world, replaced: None, term: 1 };
        for event in events {
            if story.world.phase().is_over() {
                break;
            }
            story.happen(event);
        }
        for _ in 0..4 {
            if !story.world.phase().is_over() {
                story.mend();
                story.world.run();
            }
        }
        let world = story.world;
        match world.phase() {
            Phase::Completed => {
                prop_assert!(world.database.contracted && world.database.late_rows == 0);
                prop_assert!(world.versions().iter().all(|version| *version == release(2).version.get()));
            }
            Phase::RolledBack { .. } => prop_assert!(!world.database.expanded),
            Phase::Failed { .. } => {}
            other => prop_assert!(false, "it stands in {:?}", other),
        }
    }
}
