//! A plan for more services than one transaction has room for.

use super::{apply, elect, version};
use crate::sim::{Store, World, node};
use std::collections::BTreeSet;
use tidegate_planner::ask::reconcile::{Choices, propose};
use tidegate_proto::record::report::Witness;
use tidegate_proto::{InstanceId, Key, Revision, ServiceName};

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
