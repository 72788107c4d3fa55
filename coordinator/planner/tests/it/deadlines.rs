//! Which waits the progress deadline ends, and what a dry run says of capacity before anything is touched.

use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::{Value as Json, json};
use tidegate_planner::Plan;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::gate::Waits;
use tidegate_planner::gate::preflight::{self, Finding};
use tidegate_proto::record::report::{BalancerReport, Rotation, Step};
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{NodeId, Span, Value};

fn asker() -> Asker {
    Asker { who: "op".into(), why: "seen".into(), accepts: Default::default() }
}

/// A roll of three that may not begin, because of one that is in a later wave.
fn held_up_by(trouble: impl Fn(&mut World, &NodeId)) -> (World, NodeId, Plan) {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 2}))).unwrap();
    world.until_roll();
    let fleet = world.store.fleet();
    let n = fleet.service(&service()).unwrap().instances().find(|i| i.wave == Some(2)).unwrap().node.clone();
    trouble(&mut world, &n);
    let at_rest = world.run();
    assert_eq!(world.versions().iter().filter(|v| **v == 2).count(), 0, "too few are in service");
    (world, n, at_rest)
}

fn says(plan: &Plan, text: &str) -> bool {
    plan.waiting[&upgrade_id()].iter().any(|reason| reason.to_string().contains(text))
}

fn after_the_deadline(world: &mut World) -> Phase {
    world.stalled_ms = 10 * 60 * 1000;
    world.turn();
    world.phase()
}

#[test]
fn unhealthy_instance_that_holds_the_roll_is_named_and_fails_it() {
    let (mut world, n, at_rest) = held_up_by(|world, n| world.set_unready(n, true));
    let named = format!("not in service: {n} (unhealthy: readiness URL fails)");
    assert!(says(&at_rest, &named), "{:?}", at_rest.waiting);
    let Phase::RollingBack { because, .. } = after_the_deadline(&mut world) else {
        panic!("{:?}", world.phase())
    };
    assert!(because.contains(&named), "{because}");
}

#[test]
fn unready_instance_is_listed_with_its_answer() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    let verifying = |world: &World| {
        let mut agents = world.agents.iter();
        agents.find(|(_, agent)| agent.report.step == Step::Verifying).map(|(node, _)| node.clone())
    };
    world.until("one is verified", |world| verifying(world).is_some());
    let n = verifying(&world).unwrap();
    let (_, plan) = world.turn();
    assert!(!says(&plan, "last answers"), "nothing was said yet: {:?}", plan.waiting);
    let answers = "last answers: probe: version 2; ready_url: 503 \"DATABASE DOWN\"; health_url: 200";
    world.agents.get_mut(&n).unwrap().report.answers = Some(answers.into());
    world.publish(&n);
    let (_, plan) = world.turn();
    assert!(says(&plan, &format!("{n} (being verified; {answers})")), "{:?}", plan.waiting);
}

#[test]
fn silent_instance_that_holds_the_roll_is_named_and_fails_it() {
    let (mut world, n, at_rest) = held_up_by(|world, n| world.fall_silent(n.as_str()[1..].parse().unwrap()));
    assert!(says(&at_rest, &format!("{n} (no report)")), "{:?}", at_rest.waiting);
    assert!(matches!(after_the_deadline(&mut world), Phase::RollingBack { .. }));
}

#[test]
fn unreachable_balancer_is_listed_and_fails_roll() {
    let (mut world, n, at_rest) = held_up_by(|world, n| {
        let report = &mut world.agents.get_mut(n).unwrap().report;
        report.rotation = Rotation::Returning;
        report.balancer_unreachable = Some("pantry/n2 at /run/b.sock: no answer within 500 ms".into());
        world.publish(n);
    });
    let named = format!(
        "{n} (not every balancer is known to send it requests; a balancer could not be asked: pantry/n2 at \
         /run/b.sock: no answer within 500 ms)"
    );
    assert!(says(&at_rest, &named), "{:?}", at_rest.waiting);
    assert!(matches!(after_the_deadline(&mut world), Phase::RollingBack { .. }));
}

fn heard(status: &str, sessions: Option<u32>, n: usize) -> BalancerReport {
    BalancerReport {
        balancer: format!("pantry/n{n} at unix:/run/b.sock"),
        status: status.to_owned(),
        sessions,
    }
}

#[test]
fn cause_names_maintenance_at_the_balancer_and_no_count() {
    let cause = |sessions| {
        let (_, n, at_rest) = held_up_by(|world, n| {
            let report = &mut world.agents.get_mut(n).unwrap().report;
            report.rotation = Rotation::Returning;
            report.balancers = vec![heard("MAINT", Some(sessions), 1)];
            world.publish(n);
        });
        let waiting: Vec<_> = at_rest.waiting[&upgrade_id()].iter().map(ToString::to_string).collect();
        (n, waiting)
    };
    let (n, waiting) = cause(4);
    let named = format!(
        "{n} (not every balancer is known to send it requests; pantry/n1 at unix:/run/b.sock: MAINT)"
    );
    assert!(waiting.iter().any(|text| text.contains(&named)), "{waiting:?}");
    assert_eq!(cause(5).1, waiting, "what is stored would change with each session");
}

#[test]
fn cause_of_many_balancers_in_maintenance_stays_short() {
    let (_, _, at_rest) = held_up_by(|world, n| {
        let report = &mut world.agents.get_mut(n).unwrap().report;
        report.rotation = Rotation::Returning;
        report.balancers = (0..500).map(|n| heard("MAINT", None, n)).collect();
        world.publish(n);
    });
    let longest = at_rest.waiting[&upgrade_id()].iter().map(|reason| reason.to_string().len()).max();
    assert!(longest < Some(1000), "{longest:?}");
}

#[test]
fn disable_file_of_a_person_is_named_and_fails_nothing() {
    let (mut world, n, at_rest) = held_up_by(|world, n| {
        world.agents.get_mut(n).unwrap().report.rotation = Rotation::Maintenance;
        world.publish(n);
    });
    assert!(says(&at_rest, &format!("{n} (a person's disable-file)")), "{:?}", at_rest.waiting);
    let id = upgrade_id();
    let mut steps = at_rest.waiting[&id].iter().filter_map(|r| r.explained(Waits::Upgrade(&id)).next_step);
    let step = format!("tidegate-agent check (on {n}), then remove the disable-file that it names");
    assert!(steps.any(|named| named == step), "{:?}", at_rest.waiting);
    assert!(matches!(after_the_deadline(&mut world), Phase::Roll { .. }));
    assert_eq!(world.upgrade().unwrap().stalled_ms, 0, "the count begins again");
}

#[test]
fn cordon_is_named_and_fails_nothing() {
    let (mut world, n, at_rest) = held_up_by(|world, n| {
        let cordon = ask::cordon(world.store.fleet(), &world.moment(), n, &asker()).unwrap();
        assert!(world.store.commit(&cordon));
        world.events += 1;
    });
    assert!(says(&at_rest, &format!("{n} (node cordoned)")), "{:?}", at_rest.waiting);
    assert!(matches!(after_the_deadline(&mut world), Phase::Roll { .. }));
}

#[test]
fn recovered_failure_while_waiting_on_floor_is_ignored() {
    let schema =
        json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry", "shared_with": {"scheduler": 2}});
    let mut world = World::at_version_1(3);
    crate::sharing::runs_scheduler(&mut world, 1);
    let failures = json!({"tolerate": 1, "per_wave": 1});
    let floors = crate::sharing::after_the_roll_under_the_floor_of_both();
    world.start_bound(spec(json!({"schema": schema, "failures": failures})), floors).unwrap();
    world.run();
    let n = node(1);
    crate::faults::fails(&mut world, &n, true, true);
    world.turn();
    crate::faults::recovers(&mut world, &n);
    let at_rest = world.run();
    assert_eq!(world.failures().len(), 1);
    assert!(says(&at_rest, "scheduler"), "{:?}", at_rest.waiting);
    assert!(matches!(after_the_deadline(&mut world), Phase::Roll { .. }));
    assert_eq!(world.upgrade().unwrap().stalled_ms, 0, "the count begins again");
}

#[test]
fn dry_run_says_first_that_the_store_is_contested() {
    let mut world = World::at_version_1(3);
    for n in [0, 1] {
        world.agents.get_mut(&node(n)).unwrap().report.witness.term =
            Some("of-another-store".parse().unwrap());
        world.publish(&node(n));
    }
    let found = preview(&world, json!({}));
    assert!(found[0].blocks && found[0].what.contains("of-another-store"), "{found:?}");
    assert!(found[0].what.contains("records that may be older than what the agents obeyed"), "{found:?}");
}

#[test]
fn approval_after_the_last_wave_fails_nothing() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"approvals": [ApprovalPoint::Remove]}))).unwrap();
    world.run();
    assert!(matches!(after_the_deadline(&mut world), Phase::Roll { .. }));
}

fn preview(world: &World, change: Json) -> Vec<Finding> {
    preflight::preview(world.store.fleet(), &spec(change), None)
}

fn warns_of_an_outage(found: &[Finding]) -> bool {
    found.iter().any(|finding| !finding.blocks && finding.what.contains("expect an outage"))
}

#[test]
fn dry_run_warns_of_an_outage() {
    let (one, four) = (World::at_version_1(1), World::at_version_1(4));
    assert!(warns_of_an_outage(&preview(&one, json!({"min_in_service": 0}))));
    let at_once = json!({"strategy": "immediate", "min_in_service": 0, "max_unavailable": 2});
    assert!(warns_of_an_outage(&preview(&four, at_once)));
    assert!(!warns_of_an_outage(&preview(&four, json!({"strategy": "immediate"}))));
}

#[test]
fn dry_run_promises_nothing_about_those_that_are_out() {
    let mut world = World::at_version_1(3);
    world.set_unready(&node(1), true);
    let found = preview(&world, json!({"min_in_service": 2}));
    let said = found.iter().find(|finding| finding.what.contains("no healthy instance is taken out"));
    assert!(
        said.is_some_and(|finding| finding.what.contains("n1 (unhealthy: readiness URL fails)")),
        "{found:?}"
    );
    assert!(found.iter().all(|finding| !finding.what.contains("replaced first")), "{found:?}");
}

#[test]
fn dry_run_says_first_that_an_upgrade_is_active() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    let found = preview(&world, json!({}));
    assert!(found[0].blocks && found[0].what.starts_with("upgrade u1 of pantry-api is active"), "{found:?}");
}

/// What is said to an operator of instances whose agents can ask no balancer.
#[test]
fn drain_by_time_alone_warns_and_is_no_proof_of_rotation() {
    let history = |world: &World| -> Vec<String> {
        let events = world.store.keys.values().filter_map(|(value, ..)| match value {
            Value::Event(event) => Some(event.body.because.clone()),
            _ => None,
        });
        events.collect()
    };
    let claims =
        |world: &World| history(world).iter().any(|because| because.contains("it is out of rotation"));
    let run = |settle: bool| {
        let mut world = World::at_version_1(3);
        if settle {
            world.agents.values_mut().for_each(|agent| agent.report.abilities.drain = Some("settle".into()));
            (0..3).for_each(|n| world.publish(&node(n)));
        }
        let found = preview(&world, json!({"drain": {"settle": "5s"}}));
        let warned = found.iter().any(|finding| {
            !finding.blocks
                && finding.what.contains("no balancer can be asked on n0, n1, n2")
                && finding.what.contains("(5s)")
        });
        world.start(spec(json!({}))).unwrap();
        world.run();
        assert_eq!(world.versions(), [2, 2, 2]);
        (warned, claims(&world))
    };
    assert_eq!(run(true), (true, false));
    assert_eq!(run(false), (false, true));
}

/// The text about an instance that waited for its settle time alone: how long that is, and that no balancer was asked.
#[test]
fn wait_by_time_is_named_with_its_length() {
    let mut world = World::at_version_1(3);
    world.agents.values_mut().for_each(|agent| {
        agent.report.abilities.drain = Some("settle".into());
        agent.report.abilities.settle = Some(Span::from_secs(12));
    });
    (0..3).for_each(|n| world.publish(&node(n)));
    let found = preview(&world, json!({"drain": {"settle": "5s"}}));
    let warned = found.iter().find(|finding| finding.what.contains("no balancer can be asked on")).unwrap();
    for word in ["12s", "drain.settle (5s)", "check.interval × check.fall (12s)"] {
        assert!(warned.what.contains(word), "{word} is not in {}", warned.what);
    }
    world.start(spec(json!({"drain": {"settle": "5s"}}))).unwrap();
    let out = |world: &World| {
        let fleet = world.store.fleet();
        let each: Vec<_> =
            fleet.service(&service()).unwrap().instances().filter_map(|i| i.why_out()).collect();
        each
    };
    world.until("one is drained", |world| {
        world.agents.values().any(|agent| matches!(agent.report.step, Step::Drained { .. }))
    });
    let settled = "settled for 12s; no balancer was asked";
    assert!(out(&world).iter().any(|why| why == &format!("drained ({settled})")), "{:?}", out(&world));
    world.run();
    let history = world.store.keys.values().filter_map(|(value, ..)| match value {
        Value::Event(event) => Some(event.body.because.clone()),
        _ => None,
    });
    let history: Vec<_> = history.collect();
    assert!(history.iter().any(|because| because.contains(settled)), "{history:?}");
    // One that was out before any order of the upgrade.
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.rotation = Rotation::Out;
    world.publish(&node(1));
    assert_eq!(out(&world), [settled]);
    // Nothing runs there any more.
    world.agents.get_mut(&node(1)).unwrap().report.step = Step::Stopped;
    world.publish(&node(1));
    assert_eq!(out(&world), ["service not running"]);
}
