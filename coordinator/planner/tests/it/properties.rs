//! What never happens, whatever the order of events.

use crate::sim::{World, node, service, spec, upgrade_id};
use proptest::prelude::*;
use serde_json::json;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::wave;
use tidegate_proto::record::report::Step;
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::spec::Strategy as Grouping;
use tidegate_proto::{Commit, InstanceId, NodeId, UpgradeId};

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
            // No order is for a broken instance or a silent one; what is ordered out never takes the rest below.
            let ordered_out = world.agents.values().filter(|a| !matches!(a.report.rotation, tidegate_proto::record::report::Rotation::In)).count();
            prop_assert!(ordered_out <= 2, "{ordered_out} are out of rotation");
            prop_assert!(world.really_in_service() >= 3);
            let fleet = world.store.fleet();
            let pantry = fleet.service(&service()).unwrap();
            prop_assert!(pantry.index_is_true());
            // As it completes; who falls silent afterwards is unknown again.
            if world.phase() == Phase::Completed {
                prop_assert!(pantry.spread().is_all_at(crate::sim::release(2).version));
                prop_assert_eq!(pantry.in_service(), 5);
                break;
            }
        }
    }
}

/// What persons and misfortune do to a fleet while it is upgraded.
#[derive(Debug, Clone)]
enum Deed {
    Turns(usize),
    Agents,
    Silence(usize),
    Break(usize),
    Hold(usize),
    ReturnWith(usize, i64),
    Relabel(usize),
    Cordon(usize),
    Skip(usize),
    Decommission(usize),
    Join(usize),
    Pause,
    RollBack,
    Stall,
}

fn deed() -> impl Strategy<Value = Deed> {
    let any = 0..6_usize;
    prop_oneof![
        10 => (1..4_usize).prop_map(Deed::Turns),
        10 => Just(Deed::Agents),
        1 => any.clone().prop_map(Deed::Silence),
        1 => any.clone().prop_map(Deed::Break),
        1 => any.clone().prop_map(Deed::Hold),
        1 => (any.clone(), 1..3_i64).prop_map(|(n, version)| Deed::ReturnWith(n, version)),
        1 => any.clone().prop_map(Deed::Relabel),
        1 => any.clone().prop_map(Deed::Cordon),
        1 => any.clone().prop_map(Deed::Skip),
        1 => any.prop_map(Deed::Decommission),
        1 => (6..8_usize).prop_map(Deed::Join),
        1 => Just(Deed::Pause),
        1 => Just(Deed::RollBack),
        1 => Just(Deed::Stall),
    ]
}

fn asker() -> Asker {
    Asker { who: "op".into(), why: "why".into(), accepts: Default::default() }
}

/// What is asked for happens where it is granted.
fn asked(world: &mut World, granted: Result<Commit, ask::Refusal>) {
    if let Ok(commit) = granted {
        assert!(world.store.commit(&commit));
        world.events += 1;
    }
}

fn do_it(world: &mut World, deed: Deed) {
    let (id, asker, moment) = (upgrade_id(), asker(), world.moment());
    let fleet = world.store.fleet();
    match deed {
        Deed::Turns(n) => (0..n).for_each(|_| drop(world.turn())),
        Deed::Agents => drop(world.agents_step()),
        Deed::Silence(n) => world.fall_silent(n),
        Deed::Break(n) => world.agents.get_mut(&node(n)).unwrap().broken_at = Some(2),
        Deed::Hold(n) => world.agents.get_mut(&node(n)).unwrap().undrainable = true,
        Deed::ReturnWith(n, version) => {
            world.fall_silent(n);
            world.return_with(&node(n), version);
        }
        Deed::Relabel(n) => {
            world.agents.get_mut(&node(n)).unwrap().zone =
                if n % 2 == 0 { String::new() } else { "z".into() };
        }
        Deed::Cordon(n) => asked(world, ask::cordon(fleet, &moment, &node(n), &asker)),
        Deed::Skip(n) => asked(world, ask::skip(fleet, &moment, &id, &node(n), &asker)),
        Deed::Decommission(n) => {
            world.fall_silent(n);
            let gone = InstanceId::new(service(), node(n));
            let fleet = world.store.fleet();
            asked(
                world,
                ask::decommission(
                    fleet,
                    &moment,
                    &gone,
                    ask::Gone { stopped_how: Some("off".into()), ..Default::default() },
                    &asker,
                ),
            );
        }
        Deed::Join(n) => {
            if !world.agents.contains_key(&node(n)) && world.admits(1) {
                world.join(n, 1);
            }
        }
        Deed::Pause => asked(world, ask::pause(fleet, &moment, &id, &asker)),
        Deed::RollBack => asked(world, ask::roll_back(fleet, &moment, &id, &asker)),
        Deed::Stall => {
            world.stalled_ms = 10 * 60 * 1000;
            world.turn();
            world.stalled_ms = 0;
        }
    }
}

/// Every fault is removed, and every operator does what they are asked for.
fn mend(world: &mut World) {
    let nodes: Vec<NodeId> = world.agents.keys().cloned().collect();
    let preflight = world.phase() == Phase::Preflight;
    for n in nodes {
        let agent = world.agents.get_mut(&n).unwrap();
        (agent.broken_at, agent.undrainable, agent.idle) = (None, false, None);
        let runs = i64::from(agent.release.version.get());
        // One that was refused asks again; before anything has begun, a person brings back what was there.
        let version = if preflight { 1 } else { runs };
        let unlabelled = agent.zone.is_empty();
        if unlabelled {
            agent.zone = "z".into();
        }
        let refused = matches!(agent.report.step, Step::Refused { .. });
        if !agent.alive || refused || unlabelled || runs != version {
            world.return_with(&n, version);
        }
        let (fleet, moment, id) = (world.store.fleet(), world.moment(), upgrade_id());
        asked(world, ask::uncordon(fleet, &moment, &n, &asker()));
        let (fleet, moment) = (world.store.fleet(), world.moment());
        asked(world, ask::retry(fleet, &moment, &id, &n, &asker()));
    }
    let (fleet, moment) = (world.store.fleet(), world.moment());
    asked(world, ask::resume(fleet, &moment, &upgrade_id(), &asker()));
}

/// Two go for good while the waves are drawn, so that fewer waves are drawn again; then they come back after all.
#[test]
fn returning_instance_joins_last_wave() {
    let mut world = World::at_version_1(6);
    let change = json!({"strategy": {"canary": {}}, "max_unavailable": 2, "min_in_service": 3});
    world.start(spec(change)).unwrap();
    let early = [Deed::Turns(2), Deed::Agents, Deed::Turns(1), Deed::Decommission(0), Deed::Decommission(3)];
    early.into_iter().for_each(|deed| do_it(&mut world, deed));
    (0..5).for_each(|_| do_it(&mut world, Deed::Turns(1)));
    let mut last = Default::default();
    for _ in 0..6 {
        mend(&mut world);
        last = world.run();
    }
    assert!(world.phase().is_over(), "{:?}: {last:?}", world.phase());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Every turn of the simulation asserts that it moves or says why.
    #[test]
    fn upgrade_moves_or_has_reason_and_ends_after_recovery(
        deeds in prop::collection::vec(deed(), 10..80), zones in any::<bool>(), pause in any::<bool>(), tolerate in 0..3_u32,
    ) {
        let mut world = World::at_version_1(6);
        let mut change = json!({
            "strategy": {"canary": {}}, "max_unavailable": 2, "min_in_service": 3,
            "failures": {"tolerate": tolerate, "per_wave": 1, "then": if pause { "pause" } else { "rollback" }},
        });
        if zones {
            change["failure_domain"] = json!("zone");
        }
        world.start(spec(change)).unwrap();
        for deed in deeds {
            do_it(&mut world, deed);
            prop_assert!(world.store.fleet().service(&service()).unwrap().index_is_true());
        }
        let mut last = Default::default();
        for _ in 0..6 {
            mend(&mut world);
            last = world.run();
        }
        prop_assert!(world.phase().is_over(), "{:?}: {:?}", world.phase(), last);
    }

    /// DESIGN 6: of the fleet as it was when the roll began, rounded up, at least 1; stable by hash; spread over domains.
    #[test]
    fn each_instance_is_in_one_wave_of_the_requested_size(
        fleet in 0..400_usize, zones in 1..6_usize, form in 0..4_u8, percent in 1..=100_u32, seed in 0..5_u32,
    ) {
        let strategy: Grouping = serde_json::from_value(match form {
            0 => json!("immediate"),
            1 => json!({"rolling": {"batch": format!("{percent}%")}}),
            2 => json!({"rolling": {"batch": percent}}),
            _ => json!({"canary": {"steps": [1, "1%", format!("{percent}%"), 7]}}),
        }).unwrap();
        let up = |share: usize| (fleet * share).div_ceil(100).max(1);
        let wanted: Vec<usize> = match form {
            0 => vec![fleet],
            1 => vec![up(percent as usize); fleet],
            2 => vec![percent as usize; fleet],
            _ => vec![1, up(1), up(percent as usize), 7, fleet],
        };
        let id: UpgradeId = format!("u{seed}").parse().unwrap();
        let nodes: Vec<(NodeId, String)> = (0..fleet).map(|n| (node(n), format!("z{}", n % zones))).collect();
        let given = || nodes.iter().map(|(node, zone)| (node, zone.as_str()));
        let drawn = wave::draw(id.as_str(), &strategy, given());
        prop_assert_eq!(&drawn, &wave::draw(id.as_str(), &strategy, given().rev()), "stable");
        let members: std::collections::BTreeSet<_> = drawn.members.iter().map(|(node, _)| node).collect();
        prop_assert_eq!((members.len(), drawn.members.len()), (fleet, fleet), "every instance, once");
        let mut left = fleet;
        for (wave, size) in drawn.sizes.iter().enumerate() {
            prop_assert_eq!(*size as usize, wanted[wave].min(left), "wave {}", wave);
            left -= *size as usize;
            let in_zone = |zone: usize| drawn.members.iter().filter(|(node, w)| {
                *w as usize == wave && node.as_str()[1..].parse::<usize>().unwrap() % zones == zone
            }).count();
            let counts: Vec<usize> = (0..zones).map(in_zone).collect();
            let (most, least) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
            // Zones of nearly the same size are dealt in turn until one is used up.
            prop_assert!(most - least <= 2, "wave {} has {:?} of the zones", wave, counts);
        }
        prop_assert_eq!(left, 0);
    }
}
