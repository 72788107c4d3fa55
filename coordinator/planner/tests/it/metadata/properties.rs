//! What never happens, whatever the order: documents set and called off, words of instances, turns, stale commits,
//! elections, time.

use super::edge::group;
use crate::sim::{World, node};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use tidegate_planner::{Action, plan};
use tidegate_proto::commit::Commit;
use tidegate_proto::record::group::{Group, UpdateOutcome};
use tidegate_proto::{Key, NodeId, Value};

const NODES: usize = 5;

#[derive(Debug, Clone)]
enum Happening {
    Set {
        x: u64,
        pattern: usize,
        tolerate: u64,
    },
    Cancel,
    Signal {
        node: usize,
        kind: usize,
    },
    Turn,
    Elect,
    Pass(u64),
    /// A plan is kept for later.
    Keep,
    /// What was kept is carried out now, whichever coordinator led then.
    CarryOut,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => (0..4u64, 0..3usize, 0..2u64).prop_map(|(x, pattern, tolerate)| Happening::Set { x, pattern, tolerate }),
        1 => Just(Happening::Cancel),
        12 => (0..NODES, prop_oneof![8 => Just(0usize), 1 => Just(1), 1 => Just(2)])
            .prop_map(|(node, kind)| Happening::Signal { node, kind }),
        12 => Just(Happening::Turn),
        1 => Just(Happening::Elect),
        2 => (0..90_000u64).prop_map(Happening::Pass),
        2 => Just(Happening::Keep),
        2 => Just(Happening::CarryOut),
    ]
}

/// What was seen, and how long the last batch has really been exposed.
#[derive(Default)]
struct Past {
    group: Option<Group>,
    batches: BTreeMap<NodeId, u32>,
    words: BTreeMap<NodeId, bool>,
    exposed_ms: u64,
}

impl Past {
    fn holds(&mut self, world: &World) {
        let Some(now) = world.store.fleet().group(&group()).map(|stored| stored.record.body.clone()) else {
            return;
        };
        if let Some(before) = self.group.take() {
            assert!(now.latest >= before.latest, "generations only rise");
            self.between(&before, &now);
        }
        for served in world.all_serve().into_iter().flatten() {
            assert!(world.documents().contains(&served), "what is served is there");
        }
        assert!(world.documents().len() <= 3, "documents do not pile up");
        match &now.update {
            Some(_) => {
                self.batches = world
                    .store
                    .keys
                    .iter()
                    .filter_map(|(key, (value, ..))| match (key, value) {
                        (Key::Exposed(..), Value::Exposed(page)) => Some(page.body.members.clone()),
                        _ => None,
                    })
                    .flatten()
                    .collect();
                let generation = now.update.as_ref().map(|update| update.to.generation);
                self.words = world
                    .store
                    .fleet()
                    .group_words(&group())
                    .filter(|(_, word)| word.generation == generation)
                    .map(|(node, word)| (node.clone(), word.success))
                    .collect();
            }
            None => {
                let everybody = now.current.map(|current| current.generation.get());
                assert!(world.all_serve().iter().all(|served| *served == everybody), "all have the same");
            }
        }
        self.group = Some(now);
    }

    /// What may have happened between two sights.
    fn between(&mut self, before: &Group, now: &Group) {
        let Some(update) = &before.update else {
            if now.update.is_some() {
                self.exposed_ms = 0;
            }
            return;
        };
        let settled = |reported: &BTreeMap<NodeId, bool>, ms: u64| {
            let late = ms >= update.terms.timeout.as_millis();
            self.batches
                .iter()
                .filter(|(_, batch)| **batch == update.batch)
                .all(|(node, _)| reported.contains_key(node) || late)
        };
        match &now.update {
            Some(next) if next.to.generation == update.to.generation => {
                assert!(next.batch == update.batch || next.batch == update.batch + 1, "one batch at a time");
                assert_eq!(now.current, before.current, "the former document stands until the end");
                if next.batch > update.batch {
                    assert!(
                        settled(&self.words, self.exposed_ms),
                        "no instance is exposed before the batch has signalled"
                    );
                    self.exposed_ms = 0;
                }
            }
            Some(_) => panic!("a second update took the place of one that runs"),
            None => {
                let last = now.last.as_ref().expect("it says how it ended");
                if now.latest == before.latest {
                    assert_eq!(last.generation, update.to.generation);
                    match last.outcome {
                        UpdateOutcome::Finished => {
                            assert_eq!(now.current, Some(update.to));
                            assert_eq!(update.batch + 1, update.batches);
                            assert!(settled(&self.words, self.exposed_ms));
                            assert!(self.words.values().any(|success| *success), "unmeasured is not success");
                        }
                        _ => assert_eq!(now.current, before.current, "all are back"),
                    }
                }
            }
        }
    }
}

fn commits(world: &World) -> Vec<Commit> {
    let actions = plan(world.store.fleet(), &world.moment()).actions;
    actions
        .into_iter()
        .filter_map(|action| match action {
            Action::Commit(planned) => Some(planned.commit),
            _ => None,
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_instance_is_exposed_early_and_a_failure_returns_all(
        happenings in prop::collection::vec(happening(), 1..120)
    ) {
        let mut world = World::at_version_1(NODES);
        world.set(99, json!({"service": "pantry-api"})).unwrap();
        let mut past = Past::default();
        past.holds(&world);
        let (mut kept, mut term) = (Vec::new(), 1);
        for happening in happenings {
            match happening {
                Happening::Set { x, pattern, tolerate } => {
                    let change = match pattern {
                        0 => json!({}),
                        1 => json!({"pattern": "rolling", "timeout": "1m", "tolerate": tolerate}),
                        _ => json!({"pattern": "canary", "timeout": "1m", "steps": [1, 2, "rest"], "tolerate": tolerate, "expected": ["timeout"]}),
                    };
                    drop(world.set(x, change));
                }
                Happening::Cancel => drop(world.cancel()),
                Happening::Signal { node: n, kind } => {
                    let failure = (kind == 2).then_some("timeout");
                    drop(world.signal_metadata(&node(n), kind == 0, failure));
                }
                Happening::Turn => {
                    world.turn();
                    world.group_uncounted.clear();
                }
                Happening::Elect => {
                    term += 1;
                    world.elect(term);
                    world.group_uncounted.clear();
                }
                Happening::Pass(ms) => {
                    world.pass(ms);
                    past.exposed_ms += ms;
                }
                Happening::Keep => {
                    kept.extend(commits(&world));
                    // The commit that was planned first took its events' numbers.
                    world.events += 2;
                }
                Happening::CarryOut => {
                    for commit in kept.drain(..) {
                        if world.store.commit(&commit) {
                            world.group_uncounted.clear();
                        }
                        past.holds(&world);
                    }
                }
            }
            past.holds(&world);
        }
        // Whatever happened: in the end every update ends, and nothing is left of it.
        for _ in 0..2 * NODES {
            world.pass(60_000);
            world.rest();
        }
        prop_assert!(world.group().update.is_none());
        prop_assert!(world.is_tidy());
    }
}
