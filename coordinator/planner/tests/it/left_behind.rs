//! An instance that was away when an upgrade ended, and holds to a replacement by an earlier one, is replaced with what runs.

use crate::sim::{World, node, release, service, spec};
use serde_json::json;
use tidegate_proto::commit::Commit;
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::maintenance::Maintenance;
use tidegate_proto::record::report::{Health, Report, Rotation, Step};
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, Release, Revision};

fn completed() -> World {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world
}

/// The first instance comes back under a replacement by an earlier upgrade, which its agent has accepted; nothing runs.
fn returns_under(world: &mut World, former: Release, step: Step) -> &mut Report {
    world.fall_silent(0);
    let directive = Directive {
        upgrade: "u0".parse().unwrap(),
        disposition: Disposition::Replace { release: former.clone() },
        releases: vec![former.clone()],
        drain: Default::default(),
        health: Default::default(),
        term: world.term.term.clone(),
        declared_stopped: false,
        presumes_out: false,
        after_decline: false,
    };
    let at = world.store.put(Key::Directive(service(), node(0)), directive);
    let agent = world.agents.get_mut(&node(0)).unwrap();
    (agent.alive, agent.idle, agent.staged) = (true, None, [former.clone()].into());
    agent.release = former;
    let report = &mut agent.report;
    (report.version, report.release, report.release_digest) = (None, None, None);
    (report.step, report.rotation, report.health) = (step, Rotation::Out, Health::Unhealthy);
    report.generation = Revision(at);
    report
}

fn refused() -> Step {
    Step::Refused { reason: "outside the window".into() }
}

fn failed() -> Step {
    Step::Failed { at: "verifying".into(), reason: "it ended by itself".into() }
}

fn step_after_a_while(world: &mut World) -> Step {
    world.publish(&node(0));
    world.run();
    world.agents[&node(0)].report.step.clone()
}

#[test]
fn refused_former_replacement_is_replaced_with_what_runs() {
    let mut world = completed();
    returns_under(&mut world, release(1), refused());
    assert_eq!(step_after_a_while(&mut world), Step::Serving);
    assert_eq!((world.versions(), world.phase()), (vec![2; 3], Phase::Completed));
}

#[test]
fn failed_build_of_the_same_version_is_replaced() {
    let mut world = completed();
    let bad = Release { tag: "pantry-2.0.0-rc1".parse().unwrap(), ..release(2) };
    returns_under(&mut world, bad, failed());
    assert_eq!(step_after_a_while(&mut world), Step::Serving);
    assert_eq!(world.agents[&node(0)].release, release(2));
}

#[test]
fn failed_new_release_is_replaced_after_a_rollback() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.until_roll();
    world.roll_back();
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    returns_under(&mut world, release(2), failed());
    assert_eq!(step_after_a_while(&mut world), Step::Serving);
    assert_eq!(world.versions(), [1; 3]);
}

/// One instance is replaced, falls silent and is decommissioned; then the upgrade is rolled back.
fn decommissioned_before_the_rollback(order: Disposition) -> (World, usize) {
    decommissioned_after(order, |_, _| ())
}

/// The same, where something happens to it before it falls silent.
fn decommissioned_after(order: Disposition, before: fn(&mut World, usize)) -> (World, usize) {
    decommissioned_within(json!({"min_in_service": 1}), order, before)
}

/// The same within these limits.
fn decommissioned_within(
    limits: serde_json::Value,
    order: Disposition,
    before: fn(&mut World, usize),
) -> (World, usize) {
    let mut world = World::at_version_1(3);
    world.start(spec(limits)).unwrap();
    let is_new = |world: &World| world.versions().contains(&2) && world.really_in_service() == 3;
    world.until("one is new", is_new);
    let n = world.versions().iter().position(|version| *version == 2).unwrap();
    before(&mut world, n);
    world.fall_silent(n);
    let directive =
        world.store.fleet().service(&service()).unwrap().get(&node(n)).unwrap().directive.as_ref();
    let body = Directive { disposition: order, ..directive.unwrap().record.body.clone() };
    world.store.put(Key::Directive(service(), node(n)), body);
    world.decommission(n);
    world.roll_back();
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", last.waiting);
    let agent = world.agents.get_mut(&node(n)).unwrap();
    (agent.alive, agent.idle) = (true, None);
    (world, n)
}

#[test]
fn decommissioned_one_returns_to_the_former_release() {
    for order in [Disposition::Replace { release: release(2) }, Disposition::Serve { returning: false }] {
        let (mut world, n) = decommissioned_before_the_rollback(order.clone());
        let report = &mut world.agents.get_mut(&node(n)).unwrap().report;
        (report.version, report.step) = (None, Step::Stopped);
        (report.rotation, report.health) = (Rotation::Out, Health::Unhealthy);
        world.publish(&node(n));
        assert!(world.admits(2), "the window is as it was, and keeps no version out");
        world.run();
        assert_eq!((world.versions(), world.really_in_service()), (vec![1; 3], 3), "{order:?}");
    }
}

#[test]
fn new_release_under_a_version_put_back_returns_to_former() {
    let put_back = |world: &mut World, n: usize| world.return_with(&node(n), 1);
    let (mut world, n) = decommissioned_after(Disposition::Serve { returning: false }, put_back);
    let instance = world.store.fleet().service(&service()).unwrap().get(&node(n)).unwrap();
    assert_eq!(instance.inventory.as_ref().unwrap().version, release(1).version);
    let order = &instance.directive.as_ref().unwrap().disposition;
    assert_eq!(*order, Disposition::Replace { release: release(1) });
    // Its machine starts what is installed.
    world.return_with(&node(n), 2);
    world.run();
    assert_eq!((world.versions(), world.really_in_service()), (vec![1; 3], 3));
}

#[test]
fn decommissioned_one_on_a_cordoned_node_returns_to_former() {
    let cordon = |world: &mut World, n: usize| {
        let word = Maintenance { who: "op".into(), why: "disk".into(), at: Default::default() };
        world.store.put(Key::Maintenance(node(n)), word);
    };
    let (mut world, n) = decommissioned_after(Disposition::Serve { returning: false }, cordon);
    let instance = world.store.fleet().service(&service()).unwrap().get(&node(n)).unwrap();
    let order = &instance.directive.as_ref().unwrap().disposition;
    assert_eq!(*order, Disposition::Replace { release: release(1) });
    world.return_with(&node(n), 2);
    world.run();
    assert_eq!(world.versions()[n], 2, "it is in rotation, and its node is cordoned");
    assert!(world.store.commit(&Commit::new().delete(Key::Maintenance(node(n)))));
    world.run();
    assert_eq!((world.versions(), world.really_in_service()), (vec![1; 3], 3));
}

#[test]
fn decommissioned_one_at_the_former_release_goes_on() {
    let put_back = |world: &mut World, n: usize| world.return_with(&node(n), 1);
    let (mut world, n) = decommissioned_after(Disposition::Serve { returning: false }, put_back);
    world.return_with(&node(n), 1);
    assert_eq!(world.really_in_service(), 3);
    world.run();
    assert_eq!(world.agents[&node(n)].report.step, Step::Serving);
    assert_eq!((world.versions(), world.really_in_service()), (vec![1; 3], 3));
}

#[test]
fn returned_one_in_rotation_is_replaced_within_capacity() {
    for order in [Disposition::Replace { release: release(2) }, Disposition::Serve { returning: false }] {
        let (world, n) = decommissioned_before_the_rollback(order);
        returns_and_waits_for_another(world, n);
    }
}

/// It returns in rotation while another one is in rotation and not ready, and stays until that one is ready.
fn returns_and_waits_for_another(mut world: World, n: usize) {
    let other = node((n + 1) % 3);
    world.set_unready(&other, true);
    world.admit(&node(n));
    world.publish(&node(n));
    world.run();
    let instance = world.store.fleet().service(&service()).unwrap().get(&node(n)).unwrap();
    assert!(instance.has_declined() && instance.is_in_service(), "{:?}", instance.directive);
    world.set_unready(&other, false);
    world.run();
    assert_eq!((world.versions(), world.really_in_service()), (vec![1; 3], 3));
}

/// Capacity would hold, and the other one is of another zone.
#[test]
fn returned_one_waits_for_another_failure_domain() {
    let limits = json!({"min_in_service": 1, "max_unavailable": 2, "failure_domain": "zone"});
    let order = Disposition::Replace { release: release(2) };
    let (world, n) = decommissioned_within(limits, order, |_, _| ());
    returns_and_waits_for_another(world, n);
}

#[test]
fn what_runs_or_cannot_be_replaced_is_left_as_it_is() {
    let changes: [fn(&mut Report); 4] = [
        |report| report.version = Some(release(1).version),
        |report| report.health = Health::Healthy,
        |report| report.rotation = Rotation::Maintenance,
        |report| report.abilities.artifacts = vec![release(1).tag],
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut world = completed();
        change(returns_under(&mut world, release(1), refused()));
        assert_eq!(step_after_a_while(&mut world), refused(), "{n}");
    }
    let mut world = completed();
    returns_under(&mut world, release(1), refused());
    let word = Maintenance { who: "op".into(), why: "disk".into(), at: Default::default() };
    world.store.put(Key::Maintenance(node(0)), word);
    assert_eq!(step_after_a_while(&mut world), refused(), "its node is cordoned");
}

#[test]
fn replacement_by_the_last_upgrade_that_failed_is_left() {
    let mut world = completed();
    returns_under(&mut world, release(2), failed());
    assert_eq!(step_after_a_while(&mut world), failed(), "only a person knows what is wrong there");
}
