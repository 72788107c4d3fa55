//! What never happens, whatever the order of events.

use crate::sim::{World, node, service, spec};
use proptest::prelude::*;
use serde_json::json;
use tidegate_proto::record::upgrade::Phase;

#[derive(Debug, Clone)]
enum Happening {
    Turn,
    Agent(usize),
    Elect,
    Silence(usize),
    Return(usize),
    Break(usize),
}

fn happening(nodes: usize) -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => Just(Happening::Turn),
        12 => (0..nodes).prop_map(Happening::Agent),
        1 => Just(Happening::Elect),
        1 => (0..nodes).prop_map(Happening::Silence),
        1 => (0..nodes).prop_map(Happening::Return),
        1 => (0..nodes).prop_map(Happening::Break),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn capacity_holds_and_the_index_is_true(happenings in prop::collection::vec(happening(5), 20..250)) {
        let mut world = World::at_version_1(5);
        world.start(spec(json!({"strategy": {"canary": {}}, "max_unavailable": 2, "min_in_service": 3}))).unwrap();
        let mut silenced = std::collections::BTreeSet::new();
        let mut term = 1;
        for happening in happenings {
            match happening {
                Happening::Turn => drop(world.turn()),
                Happening::Agent(n) => drop(world.agent_step(&node(n))),
                Happening::Elect => { term += 1; world.elect(term); }
                Happening::Silence(n) if silenced.is_empty() => { world.fall_silent(n); silenced.insert(n); }
                Happening::Return(n) if silenced.remove(&n) => {
                    world.agents.get_mut(&node(n)).unwrap().alive = true;
                    world.publish(&node(n));
                }
                Happening::Break(n) => world.agents.get_mut(&node(n)).unwrap().broken_at = Some(2),
                _ => {}
            }
            // A broken instance and a silent one are nobody's order; what is ordered out never takes the rest below.
            let ordered_out = world.agents.values().filter(|a| !matches!(a.report.rotation, tidegate_proto::record::report::Rotation::In)).count();
            prop_assert!(ordered_out <= 2, "{ordered_out} are out of rotation");
            prop_assert!(world.really_in_service() >= 3);
            let fleet = world.store.fleet();
            let pantry = fleet.service(&service()).unwrap();
            prop_assert!(pantry.index_is_true());
            if world.phase() == Phase::Completed {
                prop_assert!(pantry.spread().is_all_at(crate::sim::release(2).version));
                prop_assert_eq!(pantry.in_service(), 5);
            }
        }
    }
}
