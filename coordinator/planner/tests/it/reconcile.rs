//! Reconciling in two steps: nothing is applied that was not shown, no instance is refused because of it, and the word
//! of one node counts for that node.

mod capacity;
mod ceiling;
mod contracted;
mod disregarded;
mod floors;
mod later;
mod listed;
mod many;
mod numbers;
mod rollback;
mod unknown;

use crate::sim::{Store, World, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::reconcile::{Choices, Fate, propose, reconcile};
use tidegate_planner::ask::{self, Asker, Gone, Refusal};
use tidegate_planner::gate::preflight;
use tidegate_planner::gate::{StoreGate, Waits};
use tidegate_planner::{Known, Reason};
use tidegate_proto::commit::{Commit, Write};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::leader::Term;
use tidegate_proto::record::report::{Step, Witness};
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::record::window::Window;
use tidegate_proto::{InstanceId, Key, Revision, ServiceVersion, Value};

fn asker() -> Asker {
    Asker { who: "op".into(), why: "restored".into(), accepts: Default::default() }
}

pub(crate) fn version(n: i64) -> ServiceVersion {
    ServiceVersion::new(n).unwrap()
}

fn instance(n: usize) -> InstanceId {
    InstanceId::new(service(), node(n))
}

fn disregard(nodes: &[usize]) -> Choices {
    Choices { disregard: nodes.iter().map(|n| instance(*n)).collect(), ..Choices::default() }
}

fn include(nodes: &[usize]) -> Choices {
    Choices { include: nodes.iter().map(|n| instance(*n)).collect(), ..Choices::default() }
}

fn elect(world: &mut World, term: usize) {
    world.elect(term);
    let record = Term { address: "here".into(), at: Timestamp(0) };
    world.store.put(Key::Term(world.term.term.clone()), record);
}

/// What each agent obeyed, as its journal has it.
fn testify(world: &mut World) {
    let floor = window(world).map(|(floor, _)| version(i64::from(floor)));
    for (n, agent) in &mut world.agents {
        let directive = world.store.keys.get(&Key::Directive(service(), n.clone()));
        let term = match directive {
            Some((Value::Directive(directive), _, _)) => Some(directive.body.term.clone()),
            _ => None,
        };
        agent.report.witness = Witness { term, floor, reconciled: Revision::ABSENT };
    }
    publish(world);
}

fn publish(world: &mut World) {
    world.agents.keys().cloned().collect::<Vec<_>>().iter().for_each(|n| world.publish(n));
}

pub(crate) fn window(world: &World) -> Option<(u32, u32)> {
    let of = world.store.fleet().service(&service())?;
    of.window().map(|window| (window.floor.get(), window.ceiling.get()))
}

pub(crate) fn apply(world: &mut World, choices: &Choices) -> Result<(), Refusal> {
    let (fleet, moment) = (world.store.fleet(), world.moment());
    let hash = propose(fleet, &moment, choices)?.hash();
    let commit = reconcile(fleet, &moment, choices, hash, &asker())?;
    assert!(world.store.commit(&commit));
    world.events += 1;
    Ok(())
}

/// Three of four are at version 2; then the store is blank, and agents withhold what they have not had admitted.
pub(crate) fn blank_in_mid_roll() -> World {
    let mut world = World::at_version_1(4);
    elect(&mut world, 1);
    world.start(spec(json!({"min_in_service": 3}))).unwrap();
    let new = |world: &World| world.versions().iter().filter(|v| **v == 2).count();
    world.until("three are new", |world| new(world) == 3 && world.really_in_service() == 4);
    testify(&mut world);
    for agent in world.agents.values_mut() {
        agent.report.probed = agent.report.version.take();
    }
    world.store = Store::default();
    publish(&mut world);
    elect(&mut world, 9);
    world
}

#[test]
fn reconcile_in_mid_roll_refuses_no_instance_that_serves() {
    let mut world = blank_in_mid_roll();
    let proposal = propose(world.store.fleet(), &world.moment(), &Choices::default()).unwrap();
    assert!(proposal.nothing_acts && proposal.refusals().next().is_none(), "{proposal:?}");
    assert!(proposal.witnesses.iter().all(|witness| witness.fate == Fate::Applied), "{proposal:?}");
    let [change] = proposal.windows.as_slice() else { panic!("{:?}", proposal.windows) };
    assert_eq!((change.now, change.then), (None, Some((version(1), version(2)))));
    let runs: Vec<_> = proposal.instances.iter().map(|runs| runs.version.unwrap().get()).collect();
    assert_eq!(runs, world.versions());
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)));
    for n in world.agents.keys().cloned().collect::<Vec<_>>() {
        let agent = world.agents.get_mut(&n).unwrap();
        agent.report.version = agent.report.probed.take();
        assert!(world.admit(&n), "{n} serves and is refused");
    }
}

#[test]
fn unknown_running_version_refuses_until_it_is_disregarded() {
    let mut world = blank_in_mid_roll();
    world.agents.get_mut(&node(2)).unwrap().report.probed = None;
    world.publish(&node(2));
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("pantry-api/n2: its running version is unknown"), "{refused}");
    assert!(window(&world).is_none(), "nothing was changed");
    apply(&mut world, &disregard(&[2])).unwrap();
    let word = world.store.fleet().reconciliation().unwrap();
    let claim = word.disregarded_claim(&service(), &node(2)).expect("it is written down");
    let obeyed = world.agents[&node(2)].report.obeyed();
    assert_eq!(claim.term.as_ref(), obeyed.term);
    assert!(!word.covers(&service(), &node(2), obeyed), "its agent stays as it is");
    assert!(window(&world).unwrap().1 >= 2, "an agent that obeys it all the same is not refused");
}

/// A release that ended by itself failed verifying, and its agent starts nothing under a store that fell back.
#[test]
fn plan_takes_instance_on_which_nothing_runs_for_stopped() {
    let failed = Step::Failed { at: "verifying".into(), reason: "it ended by itself".into() };
    for step in [failed, Step::Starting, Step::Replacing, Step::Refused { reason: "above".into() }] {
        let mut world = blank_in_mid_roll();
        let report = &mut world.agents.get_mut(&node(2)).unwrap().report;
        (report.step, report.probed, report.nothing_runs) = (step.clone(), None, true);
        world.publish(&node(2));
        apply(&mut world, &Choices::default()).unwrap_or_else(|refused| panic!("{step:?}: {refused}"));
        let (fleet, id) = (world.store.fleet(), instance(2));
        let word = fleet.reconciliation().unwrap();
        assert!(word.covers(&id.service, &id.node, world.agents[&id.node].report.obeyed()), "{step:?}");
    }
}

#[test]
fn running_version_outside_the_new_window_refuses() {
    let mut world = blank_in_mid_roll();
    for agent in world.agents.values_mut() {
        agent.report.witness.floor = Some(version(2));
    }
    publish(&mut world);
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("it runs version 1, outside the new window [2, 2]"), "{refused}");
    assert!(refused.message.contains("start a version there that the new window admits"), "{refused}");
}

#[test]
fn unreadable_window_is_put_back_before_the_store_is_reconciled() {
    let mut world = blank_in_mid_roll();
    let key = Key::Window(service());
    let was = Window { floor: version(1), ceiling: version(1), set_by: upgrade_id(), contracted: None };
    world.store.put(key.clone(), was.clone());
    world.store.spoil(&key);
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains(&format!("the record {key} is not UTF-8")), "{refused}");
    world.store.put(key, was);
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)));
}

#[test]
fn plan_that_has_changed_is_not_applied() {
    let mut world = blank_in_mid_roll();
    let choices = Choices::default();
    let hash = propose(world.store.fleet(), &world.moment(), &choices).unwrap().hash();
    world.agents.get_mut(&node(3)).unwrap().report.probed = Some(version(3));
    world.publish(&node(3));
    let refused = reconcile(world.store.fleet(), &world.moment(), &choices, hash, &asker()).unwrap_err();
    assert!(refused.message.contains("is out of date"), "{refused}");
    let hash = propose(world.store.fleet(), &world.moment(), &choices).unwrap().hash();
    let commit = reconcile(world.store.fleet(), &world.moment(), &choices, hash, &asker()).unwrap();
    world.agents.get_mut(&node(3)).unwrap().report.probed = Some(version(4));
    world.publish(&node(3));
    assert!(!world.store.commit(&commit), "what runs where has changed since");
}

/// A fleet in which n1 claims to have obeyed a directive that never existed.
fn with_a_false_claim(window_revision: i64) -> World {
    let mut world = World::at_version_1(4);
    elect(&mut world, 1);
    world.store.put(
        Key::Window(service()),
        Window { floor: version(1), ceiling: version(1), set_by: upgrade_id(), contracted: None },
    );
    world.agents_step();
    testify(&mut world);
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.witness.term = Some("made-up".parse().unwrap());
    report.witness.floor = Some(version(2_147_483_647));
    report.window = Revision(window_revision);
    world.publish(&node(1));
    world
}

#[test]
fn claim_of_one_node_stops_nothing_else_and_is_not_applied() {
    let mut world = with_a_false_claim(i64::MAX);
    let reason = tidegate_planner::gate::unreconciled(world.store.fleet(), &world.moment().schemas);
    assert_eq!(reason, None, "one node's word does not stop the fleet");
    let claimant = world.store.fleet().service(&service()).unwrap().get(&node(1)).unwrap();
    assert_eq!(
        (claimant.known(), claimant.is_in_service()),
        (Known::Silent, false),
        "it counts as silent and out"
    );
    let found = preflight::findings(world.store.fleet(), &spec(json!({})), None);
    let named = found.iter().find(|finding| finding.what.contains("n1")).expect("it is named");
    assert!(named.blocks && named.what.contains("tidegate fleet reconcile"), "{named:?}");
    assert!(found.iter().all(|finding| !finding.what.contains("no report")), "it reports: {found:?}");
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("changes nothing"), "{refused}");
    let refused = apply(&mut world, &include(&[1])).unwrap_err();
    assert!(refused.message.contains("cannot be included"), "{refused}");
    assert_eq!(window(&world), Some((1, 1)));
    apply(&mut world, &disregard(&[1])).unwrap();
    assert_eq!(window(&world), Some((1, 1)), "no window is raised to what it made up");
    let word = world.store.fleet().reconciliation().unwrap();
    assert_eq!(word.revision, Revision::ABSENT, "terms do not count on from what it made up");
    assert_eq!(world.store.fleet().contradicted_by().count(), 0);
    world.start(spec(json!({"min_in_service": 2}))).unwrap();
    world.until("it stages", |world| world.phase() == Phase::Stage);
    let set = world.store.fleet().service(&service()).unwrap().window().unwrap();
    assert_eq!(set.contracted, Some(version(1)), "no record was lost, so what was contracted is known");
}

#[test]
fn different_claims_of_two_nodes_stop_nothing_else() {
    let mut world = with_a_false_claim(0);
    let claim = |world: &mut World, term: &str| {
        let report = &mut world.agents.get_mut(&node(2)).unwrap().report;
        report.witness.term = Some(term.parse().unwrap());
        world.publish(&node(2));
        tidegate_planner::gate::unreconciled(world.store.fleet(), &world.moment().schemas)
    };
    assert_eq!(claim(&mut world, "of-another-store"), None, "each is alone with its claim");
    assert_eq!(world.store.fleet().contradicted_by().count(), 2, "and both are closed");
    assert!(claim(&mut world, "made-up").is_some(), "two nodes that say the same are believed");
}

#[test]
fn claim_of_one_node_beside_a_restored_store_is_not_applied() {
    let mut world = blank_in_mid_roll();
    let report = &mut world.agents.get_mut(&node(0)).unwrap().report;
    report.witness.term = Some("made-up".parse().unwrap());
    report.witness.floor = Some(version(2_147_483_647));
    report.window = Revision(i64::MAX);
    world.publish(&node(0));
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)));
    let fleet = world.store.fleet();
    assert_eq!(tidegate_planner::gate::unreconciled(fleet, &Default::default()), None);
    let left: Vec<_> = fleet.contradicted_by().map(|(_, instance, _)| instance.node.clone()).collect();
    assert_eq!(left, [node(0)], "its claim is neither applied nor dropped");
    assert!(fleet.reconciliation().unwrap().revision < Revision(1_000));
}

#[test]
fn claim_of_one_node_blocks_floor_until_decommission() {
    let mut world = World::at_version_1(4);
    elect(&mut world, 1);
    world.start(spec(json!({"min_in_service": 2}))).unwrap();
    world.until("all are new", |world| world.versions().iter().all(|v| *v == 2));
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.witness.term = Some("made-up".parse().unwrap());
    world.publish(&node(1));
    let last = world.run();
    assert!(matches!(world.phase(), Phase::Roll { .. }), "{:?}", world.phase());
    let reasons = &last.waiting[&upgrade_id()];
    let claim = reasons
        .iter()
        .find(|r| matches!(r, Reason::Store(StoreGate::Unsupported { node: n, .. }) if *n == node(1)));
    assert!(claim.expect("it is named").to_string().contains("obeyed term made-up"), "{reasons:?}");

    let gone = |revoked_how: Option<&str>| Gone {
        stopped_how: Some("power is off".into()),
        revoked_how: revoked_how.map(str::to_owned),
    };
    let ask = |world: &World, n, how| {
        ask::decommission(world.store.fleet(), &world.moment(), &instance(n), how, &asker())
    };
    let refused = ask(&world, 1, gone(None)).unwrap_err();
    assert!(refused.message.contains("revoke the etcd user"), "{refused}");
    assert!(ask(&world, 2, gone(Some("deleted"))).is_err(), "one that contradicts nothing reports");
    let commit = ask(&world, 1, gone(Some("etcdctl user delete agent-n1"))).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    assert_eq!(world.store.fleet().contradicted_by().count(), 0);
    let mut other = world.clone();
    other.agents.get_mut(&node(1)).unwrap().alive = false;
    other.run();
    assert_eq!(other.phase(), Phase::Completed, "everything goes on without it");
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.in_flight = Some(1);
    world.publish(&node(1));
    let voided = world.store.fleet().service(&service()).unwrap().get(&node(1)).unwrap();
    assert!(!voided.is_decommissioned() && voided.contradicts, "a later report voids the word");
}

#[test]
fn included_claim_of_one_node_is_applied() {
    let mut world = with_a_false_claim(900);
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.witness.floor = Some(version(1));
    world.publish(&node(1));
    apply(&mut world, &include(&[1])).unwrap();
    let word = world.store.fleet().reconciliation().unwrap();
    assert_eq!(word.revision, Revision(900));
    assert!(word.terms.contains(&"made-up".parse().unwrap()));
    assert_eq!(world.store.fleet().contradicted_by().count(), 0);
}

#[test]
fn changed_disregarded_claim_counts_again() {
    let mut world = with_a_false_claim(900);
    world.agents.get_mut(&node(1)).unwrap().report.witness.floor = Some(version(1));
    world.publish(&node(1));
    apply(&mut world, &disregard(&[1])).unwrap();
    let acknowledged = world.store.fleet().service(&service()).unwrap().get(&node(1)).unwrap();
    assert_eq!(acknowledged.acknowledged(), Revision::ABSENT, "no window of this store has that revision");
    let mut changed = world.clone();
    changed.agents.get_mut(&node(1)).unwrap().report.witness.term = Some("another".parse().unwrap());
    changed.publish(&node(1));
    assert_eq!(changed.store.fleet().contradicted_by().count(), 1);
    apply(&mut world, &include(&[1])).unwrap();
    let word = world.store.fleet().reconciliation().unwrap();
    assert!(word.disregarded.is_empty() && word.revision == Revision(900), "{word:?}");
}

#[test]
fn disregarded_instance_is_named_until_it_is_included() {
    let mut world = World::at_version_1(4);
    elect(&mut world, 1);
    world.start(spec(json!({"min_in_service": 2}))).unwrap();
    world.until("all are new", |world| world.versions().iter().all(|v| *v == 2));
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.witness.term = Some("made-up".parse().unwrap());
    world.publish(&node(1));
    apply(&mut world, &disregard(&[1])).unwrap();
    let (_, planned) = world.turn();
    let named = planned.waiting[&upgrade_id()]
        .iter()
        .find(|r| matches!(r, Reason::Store(StoreGate::Disregarded { .. })));
    let command = named.and_then(|reason| reason.explained(Waits::Upgrade(&upgrade_id())).next_step);
    assert_eq!(
        command.as_deref(),
        Some("tidegate fleet reconcile --include pantry-api/n1"),
        "{:?}",
        planned.waiting
    );
    apply(&mut world, &include(&[1])).unwrap();
    let (_, planned) = world.turn();
    let waiting = planned.waiting.get(&upgrade_id()).map(Vec::as_slice).unwrap_or_default();
    assert!(
        !waiting.iter().any(|r| matches!(r, Reason::Store(StoreGate::Disregarded { .. }))),
        "{waiting:?}"
    );
}

#[test]
fn event_of_a_reconciliation_names_the_plan_and_the_choices() {
    let world = blank_in_mid_roll();
    let choices = disregard(&[2]);
    let hash = propose(world.store.fleet(), &world.moment(), &choices).unwrap().hash();
    let commit: Commit = reconcile(world.store.fleet(), &world.moment(), &choices, hash, &asker()).unwrap();
    let event = commit.writes.iter().find_map(|write| match write {
        Write::Put(Key::Event(..), Value::Event(event)) => Some(event.body.clone()),
        _ => None,
    });
    let event = event.expect("it is written down");
    assert!(
        event.to.contains(&hash.to_string()) && event.to.contains("disregarded pantry-api/n2"),
        "{event:?}"
    );
    assert!(event.from.contains("pantry-api/n0 obeyed term t1"), "{event:?}");
}
