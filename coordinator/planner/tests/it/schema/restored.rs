//! A restored store may have an upgrade in an earlier phase than the one whose work its database shows.

use super::with_schema;
use crate::sim::{World, node, release, service, upgrade_id};
use crate::stragglers::nothing_runs;
use serde_json::json;
use tidegate_planner::SchemaJob;
use tidegate_proto::Key;
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, PhaseName};
use tidegate_proto::record::window::Window;

/// An upgrade that waits for the approval of a phase.
fn waiting_for(approval: &str) -> World {
    let mut world = World::at_version_1(3);
    world.start_with_schema(with_schema(json!({"approvals": [approval]})), MigrateOrder::BeforeRoll);
    world.run();
    world
}

#[test]
fn expanded_schema_is_undone_from_stage() {
    let mut world = waiting_for("expand");
    assert_eq!(world.phase(), Phase::Stage);
    world.database.expanded = true;
    world.roll_back();
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", last.waiting);
    assert!(!world.database.expanded, "what a former store had expanded is left");
}

#[test]
fn expanded_schema_is_undone_from_preflight() {
    let mut world = waiting_for("stage");
    assert_eq!(world.phase(), Phase::Preflight);
    world.database.expanded = true;
    world.roll_back();
    let last = world.run();
    assert!(matches!(world.phase(), Phase::Failed { .. }), "{:?}", last.waiting);
    assert!(!world.database.expanded, "what a former store had expanded is left");
    let directives = world.store.keys.keys().filter(|key| matches!(key, Key::Directive(..)));
    assert_eq!(directives.count(), 0, "preflight orders nothing");
}

#[test]
fn preflight_ends_after_a_look_where_nothing_is_expanded() {
    let mut world = waiting_for("stage");
    world.fall_silent(1);
    world.roll_back();
    let last = world.run();
    assert!(matches!(world.phase(), Phase::Failed { .. }), "{:?}", last.waiting);
    assert!(!world.jobs.contains(&SchemaJob::Undo), "{:?}", world.jobs);
}

/// Nothing acts for a while after the look, as where the store has to be reconciled.
#[test]
fn preflight_is_not_ended_on_an_old_look() {
    for (later_ms, is_undone) in [(999, false), (1_000, true)] {
        let mut world = waiting_for("stage");
        world.roll_back();
        world.turn();
        assert_eq!(world.jobs.last(), Some(&SchemaJob::Look));
        world.database.expanded = true;
        world.leading_ms += later_ms;
        let last = world.run();
        assert!(matches!(world.phase(), Phase::Failed { .. }), "{:?}", last.waiting);
        assert_eq!(!world.database.expanded, is_undone, "after {later_ms} ms");
    }
}

#[test]
fn silent_instance_blocks_the_undo_from_preflight() {
    let mut world = waiting_for("stage");
    world.database.expanded = true;
    world.fall_silent(1);
    world.roll_back();
    let last = world.run();
    assert_eq!(world.phase().name(), PhaseName::RollingBack, "it may run version 2");
    let reasons = &last.waiting[&upgrade_id()];
    assert!(reasons.iter().any(|reason| reason.to_string().contains("no report from n1")), "{reasons:?}");
    assert!(!world.jobs.contains(&SchemaJob::Undo), "{:?}", world.jobs);
    world.return_with(&node(1), 1);
    let last = world.run();
    assert!(matches!(world.phase(), Phase::Failed { .. }), "{:?}", last.waiting);
    assert!(!world.database.expanded);
}

#[test]
fn schema_that_an_instance_uses_is_left() {
    let mut world = waiting_for("stage");
    world.database.expanded = true;
    world.join(3, 2);
    world.roll_back();
    let last = world.run();
    assert!(matches!(world.phase(), Phase::Failed { .. }), "{:?}", last.waiting);
    assert!(world.database.expanded, "an instance runs version 2");
    let left = &world.upgrade().unwrap().schema.as_ref().unwrap().left;
    assert!(left.iter().any(|left| left.contains("pantry-api runs version 2")), "{left:?}");
}

/// The start of an instance has failed under the store that was lost, no directive starts it in preflight, and the upgrade
/// is ended there.
fn with_a_failed_start(ceiling: i64, has_evidence: bool) -> World {
    let mut world = waiting_for("stage");
    world.database.expanded = true;
    let (floor, ceiling) = (release(1).version, release(ceiling).version);
    let set_by = "reconciliation".parse().unwrap();
    world.store.put(Key::Window(service()), Window { floor, ceiling, set_by, contracted: None });
    let failed = Step::Failed { at: "verifying".into(), reason: "it ended by itself".into() };
    let report = nothing_runs(&mut world, 1, failed, Health::Unhealthy);
    (report.nothing_runs, report.rotation) = (has_evidence, Rotation::Out);
    world.publish(&node(1));
    world.roll_back();
    world
}

#[test]
fn instance_that_runs_nothing_holds_no_undo_below_a_ceiling() {
    let ended_with = |ceiling: i64, has_evidence: bool| {
        let mut world = with_a_failed_start(ceiling, has_evidence);
        let last = world.run();
        let is_over = matches!(world.phase(), Phase::Failed { .. });
        assert_eq!(world.database.expanded, !is_over, "{:?}", last.waiting);
        let held = if has_evidence { "nothing runs on n1" } else { "not known on n1" };
        let holds = |reason: &tidegate_planner::Reason| reason.to_string().contains(held);
        assert!(is_over || last.waiting[&upgrade_id()].iter().any(holds), "{:?}", last.waiting);
        is_over
    };
    assert!(ended_with(1, true));
    assert!(!ended_with(2, true), "its agent may start version 2");
    assert!(!ended_with(1, false), "version 2 may run there");
}

#[test]
fn instance_that_may_start_later_version_holds_to_deadline() {
    for has_evidence in [true, false] {
        let mut world = with_a_failed_start(2, has_evidence);
        world.run();
        assert_eq!(world.phase().name(), PhaseName::RollingBack);
        world.stalled_ms = 600_000;
        let (_, last) = world.turn();
        let is_over = matches!(world.phase(), Phase::Failed { .. });
        assert_eq!(is_over, has_evidence, "{:?}", last.waiting);
        assert!(world.database.expanded, "its agent may start version 2, which uses it");
        let left = &world.upgrade().unwrap().schema.as_ref().unwrap().left;
        assert_eq!(left.iter().any(|left| left.contains("nothing runs on n1")), is_over, "{left:?}");
    }
}

/// What it runs hangs for longer than the deadline, and may end then.
#[test]
fn deadline_counts_from_when_nothing_else_is_waited_for() {
    let mut world = with_a_failed_start(2, false);
    world.run();
    let written = |world: &World| world.store.keys[&Key::Upgrade(upgrade_id())].1;
    let before = written(&world);
    world.stalled_ms = 600_000;
    world.turn();
    assert!(written(&world) > before, "the count begins again");
    assert_eq!(world.upgrade().unwrap().stalled_ms, 0);
}

/// Reconciling raised the window to what its agents had obeyed: it admits version 2 alone.
fn with_a_raised_window() -> World {
    let mut world = waiting_for("stage");
    world.database.expanded = true;
    let version = release(2).version;
    let set_by = "reconciliation".parse().unwrap();
    let window = Window { floor: version, ceiling: version, set_by, contracted: None };
    world.store.put(Key::Window(service()), window);
    world
}

/// A person has put version 1 back on each instance.
#[test]
fn schema_is_left_where_the_window_admits_later_versions_alone() {
    let mut world = with_a_raised_window();
    world.roll_back();
    let last = world.run();
    assert!(matches!(world.phase(), Phase::Failed { .. }), "{:?}", last.waiting);
    assert!(world.database.expanded, "what is admitted next uses it");
    let left = &world.upgrade().unwrap().schema.as_ref().unwrap().left;
    assert!(left.iter().any(|left| left.contains("admits no version below 2")), "{left:?}");
}

#[test]
fn schema_is_undone_under_a_raised_window_without_instances() {
    let mut world = with_a_raised_window();
    for n in 0..3 {
        world.fall_silent(n);
        world.decommission(n);
    }
    world.roll_back();
    let last = world.run();
    assert!(matches!(world.phase(), Phase::Failed { .. }), "{:?}", last.waiting);
    assert!(!world.database.expanded, "nothing was put back below the floor");
}
