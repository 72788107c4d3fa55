//! A store that was lost in the middle of a roll: reconciled, the same upgrade is started again and goes on.

use crate::reconcile::{apply, blank_in_mid_roll, version, window};
use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask;
use tidegate_planner::ask::reconcile::Choices;
use tidegate_proto::record::report::{Health, Report, Rotation, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::record::window::Window;
use tidegate_proto::spec::Spec;
use tidegate_proto::{Digest, Key, NodeId};

fn reconciled() -> World {
    let mut world = blank_in_mid_roll();
    apply(&mut world, &Choices::default()).unwrap();
    for n in world.agents.keys().cloned().collect::<Vec<_>>() {
        let agent = world.agents.get_mut(&n).unwrap();
        agent.report.version = agent.report.probed.take();
        assert!(world.admit(&n), "{n} serves and is refused");
    }
    world.agents_step();
    world
}

fn findings(world: &World) -> String {
    let found = tidegate_planner::gate::preflight::findings(
        world.store.fleet(),
        &spec(json!({"min_in_service": 1})),
        None,
    );
    found.into_iter().map(|finding| format!("{} {}\n", finding.blocks, finding.what)).collect()
}

#[test]
fn upgrade_cut_off_by_lost_store_restarts_and_completes() {
    let mut world = reconciled();
    assert_eq!(window(&world), Some((1, 2)));
    assert!(
        findings(&world).contains("false pantry-api: 3 of 4 instances run pantry-2"),
        "{}",
        findings(&world)
    );
    world.start(spec(json!({"min_in_service": 3}))).unwrap();
    world.until("it stages", |world| world.phase() == Phase::Stage);
    assert_eq!(window(&world), Some((1, 2)), "three instances run version 2");
    world.min_seen_in_service = usize::MAX;
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!((world.versions(), window(&world)), (vec![2; 4], Some((2, 2))));
    assert!(world.min_seen_in_service >= 3, "{}", world.min_seen_in_service);
}

fn with_schema() -> Spec {
    let schema = json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry"});
    spec(json!({"min_in_service": 1, "schema": schema}))
}

/// A person set the window, or nothing had reached `to` when the store was lost.
#[test]
fn hop_that_nothing_has_begun_admits_from_alone_until_roll() {
    let mut world = World::at_version_1(3);
    let set_by = "operator".parse().unwrap();
    let between = Window { floor: version(1), ceiling: version(2), set_by, contracted: None };
    world.store.put(Key::Window(service()), between);
    world.start_with_schema(with_schema(), MigrateOrder::BeforeRoll);
    world.until("it stages", |world| world.phase() == Phase::Stage);
    assert_eq!(window(&world), Some((1, 1)), "version 2 waits for its schema");
    world.until("it expands", |world| world.phase() == Phase::Expand);
    assert_eq!(window(&world), Some((1, 1)));
    world.run();
    assert_eq!((world.phase(), window(&world)), (Phase::Completed, Some((2, 2))));
}

#[test]
fn admission_in_between_keeps_preflight_closed() {
    let mut world = World::at_version_1(3);
    world.start_with_schema(with_schema(), MigrateOrder::BeforeRoll);
    let planned = tidegate_planner::plan(world.store.fleet(), &world.moment());
    world.join(3, 2);
    world.refuses_late(planned, "preflight -> stage");
    let last = world.run();
    assert_eq!(world.phase(), Phase::Preflight);
    let reasons = &last.waiting[&upgrade_id()];
    assert!(reasons.iter().any(|reason| reason.to_string().contains("above `from` (1)")), "{reasons:?}");
}

#[test]
fn instances_ahead_of_a_schema_are_named_with_their_end() {
    let world = reconciled();
    let found = tidegate_planner::gate::preflight::findings(world.store.fleet(), &with_schema(), None);
    let words = "where the database lacks what version 2 uses, first start the release of `from` there";
    let named = found.iter().find(|finding| finding.what.contains(words));
    assert!(named.is_some_and(|finding| !finding.blocks), "{found:?}");
    assert!(!findings(&world).contains(words), "a service without a schema has none to wait for");
}

#[test]
fn upgrade_that_goes_on_can_be_rolled_back_before_its_roll() {
    let mut world = reconciled();
    world.start(spec(json!({"min_in_service": 3, "approvals": ["roll"]}))).unwrap();
    world.until("it stages", |world| world.phase() == Phase::Stage);
    let asker = ask::Asker { who: "op".into(), why: "back".into(), accepts: Default::default() };
    let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert_eq!((world.versions(), window(&world)), (vec![1; 4], Some((1, 1))));
}

#[test]
fn start_with_other_release_than_cut_off_one_is_refused() {
    let world = reconciled();
    let other = json!({"release": {"tag": "pantry-2b", "sha256": "0".repeat(64)}});
    let found = tidegate_planner::gate::preflight::findings(world.store.fleet(), &spec(other), None);
    let blocks = |words: &str| found.iter().any(|finding| finding.blocks && finding.what.contains(words));
    assert!(blocks("not running the release pantry-2b, on"), "{found:?}");
    assert!(blocks("goes on with the release that it had: start it with pantry-2.0.0"), "{found:?}");
    let rebuilt = spec(json!({"release": {"tag": "pantry-2.0.0", "sha256": "1".repeat(64)}}));
    let found = tidegate_planner::gate::preflight::findings(world.store.fleet(), &rebuilt, None);
    let named = found.iter().find(|finding| finding.what.contains("start it with pantry-2.0.0 (sha256 "));
    assert!(named.is_some_and(|finding| finding.blocks), "{found:?}");
}

#[test]
fn of_several_releases_at_the_end_of_a_hop_one_is_chosen() {
    let mut world = reconciled();
    let mut agents = world.agents.iter_mut();
    let (ahead, agent) = agents.find(|(_, agent)| agent.report.version == Some(version(2))).unwrap();
    let ahead = ahead.clone();
    agent.report.release = Some("pantry-2b".parse().unwrap());
    world.publish(&ahead);
    let found = findings(&world);
    let build = release(2).sha256;
    assert!(
        found.contains(&format!(
            "true pantry-api: at `to` (2), but not running the release pantry-2.0.0, on {ahead}:"
        )),
        "{found}"
    );
    let advice = format!(
        "of pantry-2.0.0 (sha256 {build}), pantry-2b choose one. On each instance at `to` (2) that runs another one, stop \
         the agent, remove its journal of pantry-api, install that release, and restart the machine; then start the \
         upgrade with it"
    );
    assert!(found.contains(&advice), "{found}");
}

/// One agent has lost its journal: it names the release, and no digest.
#[test]
fn release_without_a_known_digest_is_not_named_twice() {
    let mut world = reconciled();
    let nodes: Vec<_> = world.agents.keys().cloned().collect();
    let ahead = |n: &NodeId| world.agents[n].report.version == Some(version(2));
    let ahead: Vec<_> = nodes.into_iter().filter(ahead).collect();
    let (build, other) = (release(2).sha256, release(1).sha256);
    let mut found = |digests: [Option<Digest>; 3]| {
        for (n, digest) in ahead.iter().zip(digests) {
            let report = &mut world.agents.get_mut(n).unwrap().report;
            (report.release, report.release_digest) = (Some("pantry-2b".parse().unwrap()), digest);
            world.publish(n);
        }
        findings(&world)
    };
    let one = found([None, Some(build), Some(build)]);
    assert!(one.contains("the release that it had: start it with pantry-2b\n"), "{one}");
    let two = found([None, Some(build), Some(other)]);
    assert!(two.contains(&format!("pantry-2b (sha256 {build})")), "{two}");
    assert!(two.contains(&format!("pantry-2b (sha256 {other})")), "{two}");
    assert!(!two.contains("pantry-2b,"), "what is not known is no third one: {two}");
}

/// Its agent lost its journal, and its config has two releases of that version.
#[test]
fn unknown_release_at_the_end_of_a_hop_is_to_be_named() {
    let mut world = reconciled();
    let mut agents = world.agents.iter_mut();
    let (ahead, agent) = agents.find(|(_, agent)| agent.report.version == Some(version(2))).unwrap();
    let ahead = ahead.clone();
    (agent.report.release, agent.report.release_digest) = (None, None);
    world.publish(&ahead);
    let found = findings(&world);
    let named = format!("true pantry-api: at `to` (2), and which release runs is not known on {ahead};");
    assert!(found.contains(&named), "{found}");
    let command = "give exactly one [service.pantry-api.artifact.\"TAG\"] version = 2\n";
    assert!(found.contains(command), "{found}");
    assert!(!found.contains("not running the release"), "{found}");
}

#[test]
fn hop_with_every_instance_at_its_end_is_ended_by_its_window() {
    let mut world = World::at_version_1(2);
    let set_by = "reconciliation".parse().unwrap();
    let between = Window { floor: version(1), ceiling: version(2), set_by, contracted: None };
    world.store.put(Key::Window(service()), between);
    for n in [node(0), node(1)] {
        world.return_with(&n, 2);
    }
    world.agents_step();
    let found = findings(&world);
    assert!(found.contains("true every instance of pantry-api runs `to` (2) already"), "{found}");
    assert!(found.contains("`tidegate fleet window pantry-api --floor 2 --ceiling 2 --why …`"), "{found}");
    assert!(!found.contains("which release runs"), "{found}");
}

/// The store was lost in migrate, and only a node that joined with the next version reports: no row is filled.
#[test]
fn window_that_ends_a_hop_presumes_what_its_version_uses() {
    let mut world = World::at_version_1(2);
    let set_by = "operator".parse().unwrap();
    let between = Window { floor: version(1), ceiling: version(2), set_by, contracted: None };
    world.store.put(Key::Window(service()), between);
    for n in [node(0), node(1)] {
        world.return_with(&n, 2);
    }
    world.agents_step();
    let blocks = |spec: &Spec, words: &str| {
        let found = tidegate_planner::gate::preflight::findings(world.store.fleet(), spec, None);
        found.iter().any(|finding| finding.blocks && finding.what.contains(words))
    };
    let form = "the database has what";
    let ends = "where the database has what version 2 uses, `tidegate fleet window pantry-api --floor 2 \
                --ceiling 2 --why …` ends the hop; otherwise start a release of version 1 there, or stop it";
    assert!(blocks(&with_schema(), ends));
    assert!(!blocks(&spec(json!({"min_in_service": 1})), form), "a service without a schema has no form");

    let schema = json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry"});
    let next = spec(json!({"from": 2, "to": 3, "schema": schema}));
    assert!(blocks(&next, "store was reconciled, and the database has what version 2 uses: `tidegate"));
    assert!(blocks(&spec(json!({"from": 2, "to": 3})), "store was reconciled: `tidegate fleet window"));
}

#[test]
fn instances_ahead_without_a_window_are_named_with_the_way_on() {
    let mut world = World::at_version_1(2);
    world.return_with(&node(0), 2);
    world.agents_step();
    let found = findings(&world);
    assert!(
        found.contains("`tidegate fleet window pantry-api --floor 1 --ceiling 2 --why …`, then start"),
        "{found}"
    );
    assert!(found.contains("otherwise start the release of `from` there, or stop it"), "{found}");
}

/// An instance was changed by hand after the start.
#[test]
fn window_is_advised_once_the_waiting_upgrade_is_over() {
    let mut world = World::at_version_1(2);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.return_with(&node(0), 2);
    world.agents_step();
    let plan = tidegate_planner::plan(world.store.fleet(), &world.moment());
    let found: Vec<String> = plan.waiting[&upgrade_id()].iter().map(ToString::to_string).collect();
    let advised =
        "tidegate fleet window pantry-api --floor 1 --ceiling 2 --why …` once upgrade u1 is over, then";
    assert!(found.iter().any(|finding| finding.contains(advised)), "{found:?}");
    let set = |world: &World| {
        let asker = ask::Asker { who: "op".into(), why: "cut off".into(), accepts: Default::default() };
        let request = ask::WindowRequest { service: service(), floor: version(1), ceiling: version(2) };
        ask::set_window(world.store.fleet(), &world.moment(), &request, &asker)
    };
    assert!(set(&world).is_err(), "it is active");
    world.roll_back();
    assert!(set(&world).is_ok());
    assert!(!findings(&world).contains("is over"), "{}", findings(&world));
}

/// A node that joined with the next version, and is not in rotation.
#[test]
fn newcomer_out_of_rotation_is_not_to_be_admitted() {
    let mut world = World::at_version_1(2);
    world.return_with(&node(0), 2);
    world.agents.get_mut(&node(0)).unwrap().report.rotation = Rotation::Out;
    world.publish(&node(0));
    let found = findings(&world);
    assert!(found.contains("true pantry-api: above `from` (1) (start the release of `from`"), "{found}");
    assert!(
        found.contains("`tidegate fleet decommission pantry-api/NODE --why … --stopped-how …`) on: n0"),
        "{found}"
    );
    assert!(!found.contains("tidegate fleet window"), "{found}");
}

#[test]
fn instance_above_a_cut_off_hop_is_named_with_its_end() {
    let mut world = World::at_version_1(2);
    world.return_with(&node(0), 3);
    let set_by = "reconciliation".parse().unwrap();
    let between = Window { floor: version(1), ceiling: version(2), set_by, contracted: None };
    world.store.put(Key::Window(service()), between);
    let found = findings(&world);
    assert!(found.contains("true pantry-api: above `to` (2) (start the release of `from`"), "{found}");
}

#[test]
fn from_that_the_window_refuses_is_not_to_be_started() {
    let mut world = World::at_version_1(1);
    world.return_with(&node(0), 2);
    let set_by = "operator".parse().unwrap();
    let later = Window { floor: version(2), ceiling: version(2), set_by, contracted: None };
    world.store.put(Key::Window(service()), later);
    let found = findings(&world);
    assert!(found.contains("true pantry-api: above `from` (1) on: n0"), "{found}");
}

fn findings_from_2(world: &World) -> String {
    let next = spec(json!({"from": 2, "to": 3}));
    let found = tidegate_planner::gate::preflight::findings(world.store.fleet(), &next, None);
    found.into_iter().map(|finding| format!("{} {}\n", finding.blocks, finding.what)).collect()
}

#[test]
fn instance_below_from_is_named_with_its_end() {
    let mut world = World::at_version_1(2);
    let found = findings_from_2(&world);
    let first = "true pantry-api: below `from` (2) (upgrade pantry-api to 2 first) on: n0, n1";
    assert!(found.contains(first), "{found}");
    world.return_with(&node(0), 2);
    let found = findings_from_2(&world);
    assert!(found.contains("below `from` (2) (start the release of `from` there, or stop it"), "{found}");
    assert!(
        found.contains("`tidegate fleet decommission pantry-api/NODE --why … --stopped-how …`) on: n1"),
        "{found}"
    );
    let set_by = "operator".parse().unwrap();
    let between = Window { floor: version(1), ceiling: version(2), set_by, contracted: None };
    world.store.put(Key::Window(service()), between);
    let found = findings_from_2(&world);
    assert!(found.contains("below `from` (2) (upgrade pantry-api to 2 first) on: n1"), "{found}");
}

/// One of three was given another release, which never became ready there.
fn with_a_leftover(world: &mut World) {
    world.return_with(&node(2), 2);
    let report = &mut world.agents.get_mut(&node(2)).unwrap().report;
    (report.version, report.release) = (None, Some("pantry-2-broken".parse().unwrap()));
    report.step = Step::Failed { at: "verifying".into(), reason: "not healthy within 30 s".into() };
    (report.rotation, report.health) = (Rotation::Out, Health::Unhealthy);
    world.publish(&node(2));
}

#[test]
fn unready_release_of_cut_off_upgrade_is_replaced() {
    let mut world = World::at_version_1(3);
    with_a_leftover(&mut world);
    world.start(spec(json!({"min_in_service": 1, "max_unavailable": 1}))).unwrap();
    world.run();
    assert_eq!((world.phase(), world.versions()), (Phase::Completed, vec![2; 3]));
}

#[test]
fn unknown_version_that_serves_or_was_refused_blocks_a_start() {
    let change = |change: &dyn Fn(&mut Report)| {
        let mut world = World::at_version_1(3);
        with_a_leftover(&mut world);
        change(&mut world.agents.get_mut(&node(2)).unwrap().report);
        world.publish(&node(2));
        findings(&world)
    };
    assert!(!change(&|_| ()).contains("true "), "{}", change(&|_| ()));
    let blocked = [
        change(&|report| report.rotation = Rotation::In),
        change(&|report| report.health = Health::Healthy),
        change(&|report| report.probed = Some(version(3))),
        change(&|report| report.step = Step::Refused { reason: "outside".into() }),
        change(&|report| report.release = Some("pantry-1.0.0".parse().unwrap())),
    ];
    for found in blocked {
        assert!(found.contains("true pantry-api: the version that runs is not known on: n2"), "{found}");
        let advised = found.contains("`tidegate fleet window pantry-api --floor … --ceiling … --why …`): n2");
        assert_eq!(advised, found.contains("refused by the window"), "{found}");
    }
    let refused = change(&|report| report.step = Step::Refused { reason: "outside".into() });
    let first = "true pantry-api: refused by the window (start a version inside it there, or stop it";
    assert!(refused.contains(first), "{refused}");
    assert!(
        refused.contains("`tidegate fleet decommission pantry-api/NODE --why … --stopped-how …`; where no"),
        "{refused}"
    );
}
