//! An instance that was away when an upgrade ended, and holds to a replacement by an earlier one, is replaced with what runs.

use crate::sim::{World, node, release, service, spec};
use serde_json::json;
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
