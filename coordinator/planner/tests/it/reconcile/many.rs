//! A plan for more services than one transaction has room for, and one with a great many witnesses.

use super::{apply, elect, version};
use crate::sim::{Store, World, node, service, upgrade_id};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tidegate_planner::ask::reconcile::{Choices, Fate, propose};
use tidegate_planner::{Fleet, Moment};
use tidegate_proto::record::report::Witness;
use tidegate_proto::record::window::Window;
use tidegate_proto::{InstanceId, Key, Revision, ServiceName, Value};

/// A blank store with so many services, each on two nodes that had obeyed a floor of 1 in the former one.
fn blank_with(count: usize) -> (World, Vec<ServiceName>) {
    let mut world = World::at_version_1(2);
    world.store = Store::default();
    elect(&mut world, 9);
    let mut report = world.agents[&node(0)].report.clone();
    report.witness = Witness {
        term: Some("former".parse().unwrap()),
        floor: Some(version(1)),
        reconciled: Revision::ABSENT,
    };
    let names: Vec<ServiceName> = (0..count).map(|n| format!("worker-{n:03}").parse().unwrap()).collect();
    for name in &names {
        for n in [0, 1] {
            world.store.put(Key::Report(name.clone(), node(n)), report.clone());
        }
    }
    (world, names)
}

/// How many of these services have a window.
fn windows(world: &World, names: &[ServiceName]) -> usize {
    let fleet = world.store.fleet();
    names.iter().filter(|name| fleet.service(name).and_then(|service| service.window()).is_some()).count()
}

/// The store of this simulation refuses more than 128 operations a side.
#[test]
fn windows_of_126_services_are_set_by_one_plan() {
    let (mut world, names) = blank_with(126);
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(windows(&world, &names), 126);
    assert_eq!(world.store.fleet().contradicted_by().count(), 0);
}

#[test]
fn services_beyond_126_are_included_in_the_next_plan() {
    let (mut world, names) = blank_with(129);
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    let why = "worker-126/n0: one plan changes at most 126 windows: disregard it";
    assert!(refused.message.contains(why), "{refused}");
    let proposal = propose(world.store.fleet(), &world.moment(), &Choices::default()).unwrap();
    let runs = proposal.instances.into_iter().filter(|runs| runs.refused.is_some());
    let rest: BTreeSet<InstanceId> = runs.map(|runs| runs.instance).collect();
    assert_eq!(rest.len(), 6, "both of each of the last three: {rest:?}");
    apply(&mut world, &Choices { disregard: rest.clone(), ..Choices::default() }).unwrap();
    assert_eq!(windows(&world, &names), 126);
    assert_eq!(world.store.fleet().disregarded().count(), 6, "their agents stay as they are");
    apply(&mut world, &Choices { include: rest, ..Choices::default() }).unwrap();
    assert_eq!(windows(&world, &names), 129);
    assert_eq!(world.store.fleet().disregarded().count(), 0);
}

/// A restored store in which so many instances of one service were admitted, and obey a term that it does not know.
fn restored_with(count: usize) -> Fleet {
    let world = World::at_version_1(1);
    let admitted = world.store.keys[&Key::Inventory(service(), node(0))].0.clone();
    let mut report = world.agents[&node(0)].report.clone();
    report.window = Revision(1);
    report.witness = Witness {
        term: Some("former".parse().unwrap()),
        floor: Some(version(1)),
        reconciled: Revision::ABSENT,
    };
    let window = Window { floor: version(1), ceiling: version(1), set_by: upgrade_id(), contracted: None };
    let window = (Key::Window(service()), Ok(Value::from(window)), Revision(1));
    let of_each = (0..count).flat_map(|n| {
        [
            (Key::Inventory(service(), node(n)), Ok(admitted.clone()), Revision(2)),
            (Key::Report(service(), node(n)), Ok(Value::from(report.clone())), Revision(3)),
        ]
    });
    Fleet::load(of_each.chain([window]), Revision(10))
}

/// The shortest time of three.
fn time_of_plan(count: usize, moment: &Moment) -> Duration {
    let fleet = restored_with(count);
    let attempt = || {
        let began = Instant::now();
        let proposal = propose(&fleet, moment, &Choices::default()).unwrap();
        let took = began.elapsed();
        assert_eq!(proposal.witnesses.iter().filter(|w| w.fate == Fate::Applied).count(), count);
        took
    };
    (0..3).map(|_| attempt()).min().unwrap()
}

/// Nothing else is decided while a plan is computed.
#[test]
fn plan_takes_time_in_proportion_to_its_witnesses() {
    let moment = World::at_version_1(1).moment();
    let [few, many] = [5_000, 40_000].map(|count| time_of_plan(count, &moment));
    // In proportion it is 8 times as long, with the square 64 times; a busy machine adds to either.
    assert!(many < few * 32, "{few:?} for 5,000 witnesses, {many:?} for 40,000");
}
