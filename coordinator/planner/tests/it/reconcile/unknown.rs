//! A plan in which the version that an instance runs is not known.

use super::{apply, blank_in_mid_roll, disregard, include, version, window, with_a_false_claim};
use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::Known;
use tidegate_planner::ask::reconcile::Choices;
use tidegate_planner::gate::preflight;
use tidegate_proto::Key;
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::window::Window;

/// A restored store has a record as it was while it could not be read: a person has to learn which.
#[test]
fn unreadable_record_of_an_instance_is_named_by_the_plan() {
    let mut world = blank_in_mid_roll();
    let keys = [Key::Directive(service(), node(2)), Key::Decommission(service(), node(2))];
    keys.iter().for_each(|key| world.store.spoil(key));
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    for key in &keys {
        assert!(refused.message.contains(&format!("the record {key} is not UTF-8")), "{refused}");
    }
    world.store.rebuild();
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)));
}

#[test]
fn unreadable_record_of_an_instance_is_named_by_preflight() {
    let mut world = World::at_version_1(3);
    let key = Key::Directive(service(), node(2));
    world.store.spoil(&key);
    let found = preflight::findings(world.store.fleet(), &spec(json!({})), None);
    let named = found.iter().find(|finding| finding.what.contains(&format!("the record {key} is not UTF-8")));
    assert!(named.is_some_and(|finding| finding.blocks), "{found:?}");
}

/// What its agent started has ended, and nothing answers.
fn fails_verifying(world: &mut World, n: usize, rotation: Rotation) {
    let report = &mut world.agents.get_mut(&node(n)).unwrap().report;
    (report.version, report.probed, report.rotation) = (None, None, rotation);
    report.step = Step::Failed { at: "verifying".into(), reason: "it ended by itself".into() };
    world.publish(&node(n));
}

/// Its agent does nothing before it is included, so that its version would not be known before that either.
#[test]
fn disregarded_instance_that_is_out_is_included_without_version() {
    let mut world = with_a_false_claim(900);
    world.agents.get_mut(&node(1)).unwrap().report.witness.floor = Some(version(1));
    world.publish(&node(1));
    apply(&mut world, &disregard(&[1])).unwrap();
    for rotation in [Rotation::In, Rotation::Leaving, Rotation::Returning, Rotation::Unknown] {
        fails_verifying(&mut world, 1, rotation);
        let refused = apply(&mut world, &include(&[1])).unwrap_err();
        assert!(refused.message.contains("n1: its running version is unknown"), "{rotation:?}: {refused}");
    }
    fails_verifying(&mut world, 1, Rotation::Out);
    apply(&mut world, &include(&[1])).unwrap();
    assert!(world.store.fleet().reconciliation().unwrap().disregarded.is_empty());
    assert_eq!(window(&world), Some((1, 1)));
}

#[test]
fn unknown_version_out_of_rotation_refuses_until_included() {
    let mut world = blank_in_mid_roll();
    fails_verifying(&mut world, 2, Rotation::Out);
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("so --include needs no version"), "{refused}");
    let mut spoilt = world.clone();
    spoilt.store.spoil(&Key::Directive(service(), node(2)));
    assert!(apply(&mut spoilt, &include(&[2])).is_err(), "what it reports may not be the whole truth");
    apply(&mut world, &include(&[2])).unwrap();
    assert_eq!(window(&world), Some((1, 2)));
    let included = world.store.fleet().service(&service()).unwrap().get(&node(2)).unwrap();
    assert_eq!(included.known(), Known::Unknown, "no version gate opens over it");
}

#[test]
fn preflight_names_the_disregarded_instance_to_include() {
    let mut world = with_a_false_claim(900);
    apply(&mut world, &disregard(&[1])).unwrap();
    fails_verifying(&mut world, 1, Rotation::Out);
    let found = preflight::findings(world.store.fleet(), &spec(json!({})), None);
    let command = "`tidegate fleet reconcile --include pantry-api/n1`";
    assert!(found.iter().any(|finding| finding.blocks && finding.what.contains(command)), "{found:?}");
}

/// A disregarded instance whose version is not known, with the floor that it claims and what its probe answers.
fn with_an_unknown_disregarded(floor: Option<i64>, rotation: Rotation, probed: Option<i64>) -> World {
    let mut world = with_a_false_claim(900);
    world.agents.get_mut(&node(1)).unwrap().report.witness.floor = floor.map(version);
    world.publish(&node(1));
    apply(&mut world, &disregard(&[1])).unwrap();
    fails_verifying(&mut world, 1, rotation);
    world.agents.get_mut(&node(1)).unwrap().report.probed = probed.map(version);
    world.publish(&node(1));
    world
}

fn found_by_preflight(world: &World) -> String {
    let found = preflight::findings(world.store.fleet(), &spec(json!({})), None);
    found.into_iter().map(|finding| format!("{}\n", finding.what)).collect()
}

#[test]
fn unknown_disregarded_instance_is_named_with_its_end() {
    let include = "`tidegate fleet reconcile --include pantry-api/n1`";
    let found_of_disregarded =
        |rotation, probed| found_by_preflight(&with_an_unknown_disregarded(Some(1), rotation, probed));
    for rotation in [Rotation::In, Rotation::Out] {
        let found = found_of_disregarded(rotation, Some(3));
        assert!(found.contains("which may widen the window to version 3 that runs there"), "{found}");
        assert!(found.contains("it; otherwise start a version inside the window there, or stop"), "{found}");
        let found = found_of_disregarded(rotation, Some(1));
        assert!(found.contains(&format!("after a plan includes it: {include}")), "{found}");
    }
    let found = found_of_disregarded(Rotation::In, None);
    assert!(found.contains("out of rotation: `tidegate-agent check` (on n1)"), "{found}");
    assert!(!found.contains(include), "that plan is refused: {found}");
}

#[test]
fn never_admitted_version_is_not_said_to_widen_the_window() {
    let mut world = with_an_unknown_disregarded(Some(1), Rotation::In, Some(3));
    world.agents.get_mut(&node(1)).unwrap().report.never_admitted = true;
    world.publish(&node(1));
    let found = found_by_preflight(&world);
    let refused = "which is refused while version 3 runs there, outside the new window [1, 1]";
    assert!(found.contains(refused), "{found}");
    let answer = apply(&mut world, &include(&[1])).unwrap_err();
    assert!(answer.message.contains("it runs version 3, outside the new window [1, 1]"), "{answer}");
}

/// A plan lowers no floor, and widens no window without a claimed floor.
#[test]
fn disregarded_one_outside_the_new_window_is_not_included() {
    let cases = [(2, Some(1), 1, "[2, 2]"), (1, Some(3), 2, "[3, 3]"), (1, None, 3, "[1, 1]")];
    for (floor, claimed, runs, new) in cases {
        let mut world = with_an_unknown_disregarded(claimed, Rotation::In, Some(runs));
        let (floor, ceiling) = (version(floor), version(floor));
        let window = Window { floor, ceiling, set_by: upgrade_id(), contracted: None };
        world.store.put(Key::Window(service()), window);
        let refused = apply(&mut world, &include(&[1])).unwrap_err();
        let outside = format!("n1: it runs version {runs}, outside the new window {new}");
        assert!(refused.message.contains(&outside), "{refused}");
        let found = found_by_preflight(&world);
        let ends = "start a version inside it there, or stop it and its agent";
        let named =
            format!("which is refused while version {runs} runs there, outside the new window {new}: {ends}");
        assert!(found.contains(&named), "{found}");
        assert!(!found.contains("--include"), "{found}");
    }
}

#[test]
fn impossible_claim_is_named_without_its_inclusion() {
    let mut world = with_a_false_claim(i64::MAX);
    apply(&mut world, &disregard(&[1])).unwrap();
    fails_verifying(&mut world, 1, Rotation::Out);
    let found = preflight::findings(world.store.fleet(), &spec(json!({})), None);
    let names = |what: &str| found.iter().any(|finding| finding.what.contains(what));
    assert!(
        names("decommission it: `tidegate fleet decommission pantry-api/n1 --why … --stopped-how …`"),
        "{found:?}"
    );
    assert!(!names("--include"), "that plan is refused: {found:?}");
}

/// Its agent obeys no order of the roll.
#[test]
fn disregarded_leftover_blocks_a_start_until_included() {
    let mut world = with_a_false_claim(900);
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.witness.floor = Some(version(1));
    (report.release, report.health) = (Some("pantry-2-broken".parse().unwrap()), Health::Unhealthy);
    fails_verifying(&mut world, 1, Rotation::Out);
    apply(&mut world, &disregard(&[1])).unwrap();
    let blocks = |world: &World, what: &str| {
        let found = preflight::findings(world.store.fleet(), &spec(json!({})), None);
        found.iter().any(|finding| finding.blocks && finding.what.contains(what))
    };
    let unknown = "the version that runs is not known on: n1";
    assert!(blocks(&world, unknown));
    assert!(blocks(&world, "`tidegate fleet reconcile --include pantry-api/n1`"));
    apply(&mut world, &include(&[1])).unwrap();
    assert!(!blocks(&world, unknown), "the roll replaces it");
}
