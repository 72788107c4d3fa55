//! The release that ran before: what preflight says where it is not known, and what a rollback does.

use crate::sim::{World, node, release, service, spec, upgrade_id};
use crate::stragglers::nothing_runs;
use serde_json::json;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::gate::Waits;
use tidegate_planner::gate::preflight::{Finding, findings};
use tidegate_proto::record::report::{Health, Step};
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Digest, InstanceId, Key, ServiceVersion};

fn found(world: &World) -> Vec<Finding> {
    findings(world.store.fleet(), &spec(json!({})), None)
}

fn only_blocker(world: &World) -> String {
    let blockers: Vec<Finding> = found(world).into_iter().filter(|finding| finding.blocks).collect();
    assert_eq!(blockers.len(), 1, "{blockers:?}");
    blockers[0].what.clone()
}

#[test]
fn unknown_release_or_digest_names_the_setting() {
    let mut world = World::at_version_1(3);
    world.agents.get_mut(&node(1)).unwrap().report.release_digest = None;
    world.publish(&node(1));
    let what = only_blocker(&world);
    let setting = "[service.pantry-api.artifact.\"pantry-1.0.0\"]";
    assert!(what.contains("sha256") && what.contains(setting) && what.contains("n1"), "{what}");
    // What its agent found says more.
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.stage_failures.insert(release(1).tag, "the stage hook failed: exit status: 7".to_owned());
    world.publish(&node(1));
    let what = only_blocker(&world);
    assert!(what.contains("exit status: 7. Correct the artifact or the hook there: its agent"), "{what}");
    world.agents.get_mut(&node(1)).unwrap().report.release = None;
    world.publish(&node(1));
    let what = only_blocker(&world);
    assert!(what.contains("[service.pantry-api.artifact.\"TAG\"] version = 1"), "{what}");
}

/// `from` was admitted there last. What runs there answers another version since, which was refused.
#[test]
fn other_version_is_named_with_the_release_to_start() {
    let mut world = World::at_version_1(3);
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    (report.version, report.release, report.release_digest) = (Some(release(2).version), None, None);
    world.publish(&node(1));
    let what = only_blocker(&world);
    assert!(what.contains("version 2 is answered on n1, not `from` (1)"), "{what}");
    assert!(what.contains("start the release of `from` there, or stop it"), "{what}");
    assert!(!what.contains("the agent's config"), "that says which release has version 1: {what}");
}

/// Another upgrade of a schema that it shares has raised the floor above `from`.
#[test]
fn refused_from_is_not_to_be_started_for_a_rollback() {
    for runs in [Some(release(2).version), None] {
        let mut world = World::at_version_1(1);
        world.return_with(&node(0), 2);
        let set_by = "u0".parse().unwrap();
        let (floor, ceiling) = (release(2).version, ServiceVersion::MAX);
        world.store.put(Key::Window(service()), Window { floor, ceiling, set_by, contracted: None });
        let report = &mut world.agents.get_mut(&node(0)).unwrap().report;
        (report.version, report.probed, report.release, report.release_digest) = (runs, None, None, None);
        world.publish(&node(0));
        let found: String = found(&world).into_iter().map(|finding| finding.what + "\n").collect();
        let answers =
            if runs.is_some() { "version 2 is answered on n0" } else { "no version is answered on n0" };
        assert!(found.contains(answers) && found.contains("no upgrade from 1 is possible"), "{found}");
        assert!(!found.contains("start the release of `from`"), "{found}");
    }
}

/// Its service has ended; whether its agent knows that.
fn crashes(world: &mut World, n: usize, is_known: bool) {
    nothing_runs(world, n, Step::Starting, Health::Unhealthy).nothing_runs = is_known;
    world.publish(&node(n));
}

/// The upgrade may be what ends the crash loop.
#[test]
fn crashed_instance_of_from_is_replaced_by_the_roll() {
    let mut world = World::at_version_1(3);
    crashes(&mut world, 1, true);
    assert!(!found(&world).iter().any(|finding| finding.blocks), "{:?}", found(&world));
    let out = |finding: &Finding| finding.what.contains("not in rotation and healthy before the upgrade: n1");
    assert!(found(&world).iter().any(out), "it is unavailable: {:?}", found(&world));
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 2, "min_in_service": 1}))).unwrap();
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 3]);
}

#[test]
fn unanswering_instance_without_evidence_blocks_a_start() {
    let blockers = |world: &World| {
        let blockers = found(world).into_iter().filter(|finding| finding.blocks);
        blockers.map(|finding| finding.what + "\n").collect::<String>()
    };
    let mut world = World::at_version_1(3);
    crashes(&mut world, 1, false);
    let what = blockers(&world);
    assert!(what.contains("the version that runs is not known on: n1"), "{what}");
    assert!(what.contains("no version is answered on n1") && !what.contains("exactly one"), "{what}");
    let mut world = World::at_version_1(3);
    for n in 0..3 {
        crashes(&mut world, n, true);
    }
    let what = blockers(&world);
    assert!(what.contains("no version is answered on n0"), "no release is known to return to: {what}");
    let mut world = World::at_version_1(3);
    crashes(&mut world, 1, true);
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.step = Step::Refused { reason: "outside".into() };
    world.publish(&node(1));
    assert!(blockers(&world).contains("refused by the window"), "{}", blockers(&world));
}

/// Its service may be starting.
#[test]
fn finding_that_ends_by_itself_advises_to_wait() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    crashes(&mut world, 1, false);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Preflight);
    let reasons = &last.waiting[&upgrade_id()];
    assert_eq!(reasons.len(), 2, "the version and the release: {reasons:?}");
    let advised = "wait until the service answers its version on n1, or tidegate upgrade rollback u1 --why …";
    for reason in reasons {
        let next_step = reason.explained(Waits::Upgrade(&upgrade_id())).next_step;
        assert_eq!(next_step.as_deref(), Some(advised), "{reason}");
    }
}

/// A release that says the former version, in front of a store that knows no better.
#[test]
fn release_of_the_spec_is_not_what_a_rollback_returns_to() {
    let mut world = World::at_version_1(1);
    let report = &mut world.agents.get_mut(&node(0)).unwrap().report;
    (report.release, report.release_digest) = (Some(release(2).tag), Some(release(2).sha256));
    world.publish(&node(0));
    let found = findings(world.store.fleet(), &spec(json!({"min_in_service": 0})), None);
    let named = found.iter().find(|finding| finding.what.contains("nothing to return to"));
    assert!(named.is_some_and(|finding| finding.blocks), "{found:?}");
    let advised = |step: &str| named.is_some_and(|finding| finding.what.contains(step));
    assert!(advised("remove its journal of pantry-api") && advised("restart the machine"), "{found:?}");
}

#[test]
fn unknown_or_other_version_is_not_named_as_from() {
    for version in [None, Some(release(2).version)] {
        let mut world = World::at_version_1(1);
        world.return_with(&node(0), 2);
        world.agents.get_mut(&node(0)).unwrap().report.version = version;
        world.publish(&node(0));
        let found = findings(world.store.fleet(), &spec(json!({"min_in_service": 0})), None);
        let named = |what: &str| found.iter().any(|finding| finding.blocks && finding.what.contains(what));
        assert!(named("no instance reports another release than pantry-2.0.0: there is"), "{found:?}");
        assert!(!named("says version 1"), "{version:?}: {found:?}");
    }
}

#[test]
fn different_releases_are_named_without_a_version() {
    let mut world = World::at_version_1(2);
    world.return_with(&node(0), 2);
    let named = found(&world).into_iter().find(|finding| finding.what.contains("different releases"));
    let what = named.expect("there are two releases").what;
    assert!(what.contains("instances run different releases, and a rollback returns to one"), "{what}");
    assert!(what.contains("`tidegate fleet decommission pantry-api/NODE --why … --stopped-how …`"), "{what}");
}

/// Its version is below the one that the upgrade moves to.
#[test]
fn decommission_that_preflight_names_is_accepted() {
    let mut world = World::at_version_1(2);
    world.start(spec(json!({}))).unwrap();
    world.return_with(&node(0), 2);
    let named = found(&world).into_iter().find(|finding| finding.what.contains("different releases"));
    let what = named.expect("there are two releases").what;
    world.fall_silent(1);
    let stopped_how = what.contains("--stopped-how …").then(|| "power is off".to_owned());
    let (id, gone) = (InstanceId::new(service(), node(1)), ask::Gone { stopped_how, revoked_how: None });
    let asker = Asker { who: "op".into(), why: "burnt".into(), accepts: Default::default() };
    let answer = ask::decommission(world.store.fleet(), &world.moment(), &id, gone, &asker);
    assert!(answer.is_ok(), "{what}: {answer:?}");
}

#[test]
fn silent_instances_run_no_different_releases() {
    let mut world = World::at_version_1(2);
    world.fall_silent(0);
    world.fall_silent(1);
    let found = found(&world);
    let named = |what: &str| found.iter().any(|finding| finding.blocks && finding.what.contains(what));
    assert!(named("no instance reports a release of `from` (1), and a rollback needs one to"), "{found:?}");
    assert!(!named("different releases"), "{found:?}");
}

#[test]
fn digest_declared_absent_warns_and_a_rollback_returns_to_it() {
    let mut world = World::at_version_1(3);
    for n in 0..3 {
        world.agents.get_mut(&node(n)).unwrap().report.release_digest = Some(Digest::ABSENT);
        world.publish(&node(n));
    }
    let warned = found(&world).into_iter().find(|finding| finding.what.contains("unverified"));
    assert!(warned.is_some_and(|finding| !finding.blocks), "{:?}", found(&world));
    world.start(spec(json!({"approvals": ["remove"]}))).unwrap();
    world.run();
    assert_eq!(world.versions(), [2; 3]);
    let asker = Asker { who: "op".into(), why: "regret".into(), accepts: Default::default() };
    let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}: {:?}", world.phase(), last.waiting);
    assert_eq!(world.versions(), [1; 3]);
}

#[test]
fn different_digests_of_one_tag_are_named() {
    let mut world = World::at_version_1(3);
    world.agents.get_mut(&node(1)).unwrap().report.release_digest = Some(Digest::ABSENT);
    world.publish(&node(1));
    let what = only_blocker(&world);
    assert!(what.contains("sha256 absent") && what.contains(&release(1).sha256.to_string()), "{what}");
}

#[test]
fn endless_drains_are_refused_if_deadline_fails_them() {
    let mut world = World::at_version_1(3);
    let blind = |world: &World, spec| {
        findings(world.store.fleet(), &spec, None)
            .into_iter()
            .find(|finding| finding.what.contains("in flight"))
            .map(|finding| finding.blocks)
    };
    let fails = || spec(json!({"drain": {"on_deadline": "fail"}}));
    assert_eq!(blind(&world, fails()), None, "an older agent does not say");
    world.agents.get_mut(&node(1)).unwrap().report.abilities.counts_nothing = true;
    world.publish(&node(1));
    assert_eq!(blind(&world, fails()), Some(true));
    assert_eq!(blind(&world, spec(json!({}))), Some(false), "otherwise it lasts, and ends");
}

#[test]
fn readiness_asked_at_the_health_url_warns() {
    let mut world = World::at_version_1(3);
    assert!(!found(&world).iter().any(|finding| finding.what.contains("ready_url")));
    world.agents.get_mut(&node(1)).unwrap().report.abilities.ready_by_health = true;
    world.publish(&node(1));
    let warned = found(&world).into_iter().find(|finding| finding.what.contains("ready_url is health_url"));
    assert!(warned.is_some_and(|finding| !finding.blocks && finding.what.contains("n1")));
}
