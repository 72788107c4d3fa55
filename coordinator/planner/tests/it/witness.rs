//! Witnesses outrank the store: an agent that obeyed what the store does not know of shows that it was restored from a
//! backup, or is blank, and no step is taken until an operator reconciles it.

use crate::sim::{Store, World, node, service, spec, upgrade_id};
use serde_json::json;
use std::collections::BTreeMap;
use tidegate_planner::ask::reconcile::{Choices, Fate, propose, reconcile};
use tidegate_planner::ask::{self, Asker, Refusal};
use tidegate_planner::gate::{StoreGate, Waits};
use tidegate_planner::{Fleet, Moment, Reason, SchemaFacts};
use tidegate_proto::commit::{Commit, Write};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::leader::Term;
use tidegate_proto::record::report::{Report, Witness};
use tidegate_proto::record::{Malformed, Timestamp};
use tidegate_proto::{InstanceId, Key, Revision, TermId, Value};

fn asker() -> Asker {
    Asker {
        who: "op".into(),
        why: "the disk died; restored from last night".into(),
        accepts: Default::default(),
    }
}

/// Elects a leader and keeps its term, as a campaign does.
fn elect(world: &mut World, term: usize) {
    world.elect(term);
    let record = Term { address: "here".into(), at: Timestamp(0) };
    world.store.put(Key::Term(world.term.term.clone()), record);
}

/// Agents that journal whom they obey, at version 1, under term t1.
fn fleet() -> World {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    world
}

/// What each agent obeyed, as its journal has it, named in its report.
fn testify(world: &mut World) {
    for n in world.agents.keys().cloned().collect::<Vec<_>>() {
        let floor = match world.store.keys.get(&Key::Window(service())) {
            Some((Value::Window(window), _, _)) => Some(window.body.floor),
            _ => None,
        };
        let term = match world.store.keys.get(&Key::Directive(service(), n.clone())) {
            Some((Value::Directive(directive), _, _)) => Some(directive.body.term.clone()),
            _ => None,
        };
        world.agents.get_mut(&n).unwrap().report.witness =
            Witness { term, floor, reconciled: Revision::ABSENT };
        world.publish(&n);
    }
}

/// The store as it was, under the agents as they are now: they report, and another coordinator leads.
fn restore(world: &mut World, backup: Store) {
    world.store = backup;
    world.agents.keys().cloned().collect::<Vec<_>>().iter().for_each(|n| world.publish(n));
    elect(world, 9);
}

/// The plan, and then the application of just that.
fn reconciled(fleet: &Fleet, moment: &Moment, choices: &Choices) -> Result<Commit, Refusal> {
    let hash = propose(fleet, moment, choices)?.hash();
    reconcile(fleet, moment, choices, hash, &asker())
}

fn apply(world: &mut World, choices: &Choices) -> Result<(), Refusal> {
    let commit = reconciled(world.store.fleet(), &world.moment(), choices)?;
    assert!(world.store.commit(&commit));
    world.events += 1;
    Ok(())
}

fn said(world: &World) -> String {
    let reason = tidegate_planner::gate::unreconciled(world.store.fleet(), &world.moment().schemas);
    reason.map(|reason| reason.to_string()).unwrap_or_default()
}

/// A whole upgrade to version 2, and the store as it was when it began to roll.
fn upgraded() -> (World, Store) {
    let mut world = fleet();
    world.start(spec(json!({"min_in_service": 1, "approvals": ["roll"]}))).unwrap();
    world.run();
    let backup = world.store.clone();
    let roll = tidegate_proto::spec::ApprovalPoint::Roll;
    let word = ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), roll, &asker()).unwrap();
    assert!(world.store.commit(&word));
    world.events += 1;
    world.run();
    assert!(world.upgrade().unwrap().phase.is_over());
    testify(&mut world);
    assert_eq!(said(&world), "", "no witness contradicts a store that only went forward");
    (world, backup)
}

#[test]
fn an_older_copy_under_live_agents_is_noticed_and_nothing_acts() {
    let (mut world, backup) = upgraded();
    world.agents.get_mut(&node(1)).unwrap().report.witness.term = None;
    restore(&mut world, backup);
    let plan = tidegate_planner::plan(world.store.fleet(), &world.moment());
    assert!(plan.actions.is_empty(), "{:?}", plan.actions);
    let reasons = &plan.waiting[&upgrade_id()];
    let [Reason::Store(StoreGate::Restored { witnesses, count: 3 })] = reasons.as_slice() else {
        panic!("{reasons:?}")
    };
    assert_eq!(witnesses[0], "pantry-api/n0 obeyed term t1 after the store's next one had begun");
    assert!(witnesses[1].starts_with("pantry-api/n1 holds the directive of revision"), "{witnesses:?}");
    let people = reasons[0].explained(Waits::Upgrade(&upgrade_id()));
    assert_eq!(people.next_step.as_deref(), Some("tidegate fleet reconcile"));
    let refused = ask::reconciled(world.store.fleet(), &world.moment()).unwrap_err();
    assert!(refused.message.contains("no step is taken until a person reconciles it"), "{refused}");
}

#[test]
fn blank_store_is_detected_and_floors_respect_journals() {
    let (mut world, _) = upgraded();
    restore(&mut world, Store::default());
    assert!(said(&world).contains("obeyed term t1, which the store does not know"), "{}", said(&world));
    let commit = reconciled(world.store.fleet(), &world.moment(), &Choices::default()).unwrap();
    assert!(world.store.commit(&commit));
    assert_eq!(said(&world), "", "what was reconciled is no longer held against it");
    let Some((Value::Window(window), _, _)) = world.store.keys.get(&Key::Window(service())) else {
        panic!("no window")
    };
    assert_eq!((window.body.floor.get(), window.body.ceiling.get()), (2, 2));
    let event = world.store.keys.iter().find_map(|(key, (value, _, _))| match (key, value) {
        (Key::Event(tidegate_proto::key::Subject::Fleet, _), Value::Event(event)) => Some(event.body.clone()),
        _ => None,
    });
    let event = event.expect("it is written down");
    assert!(event.who == "op" && event.to.starts_with("reconciled by plan"), "{event:?}");
    assert!(event.from.contains("pantry-api/n0 obeyed term t1"), "{event:?}");
}

#[test]
fn directive_after_its_term_ended_shows_restored_store() {
    let (mut world, _) = upgraded();
    // Both terms are known, and the directive is gone with the backup: only the order of the terms shows it.
    let mut backup = fleet().store;
    backup.put(Key::Window(service()), tidegate_proto::record::window::Window::open(upgrade_id()));
    world.agents.values_mut().for_each(|agent| agent.report.window = Revision::ABSENT);
    restore(&mut world, backup);
    assert!(said(&world).contains("obeyed term t1 after the store's next one had begun"), "{}", said(&world));
}

/// The first store with an instance that is ordered to drain, and the world in which the same upgrade has ended since.
fn backup_of_the_first_drain() -> (World, Store) {
    let mut world = fleet();
    world.start(spec(json!({"min_in_service": 2}))).unwrap();
    let drains = |world: &World| {
        let mut orders = world.store.keys.values().filter_map(|(value, _, _)| match value {
            Value::Directive(directive) => Some(directive.body.disposition.clone()),
            _ => None,
        });
        orders.any(|disposition| disposition == Disposition::Drain)
    };
    while !drains(&world) {
        let (changed, plan) = world.turn();
        assert!(changed | world.agents_step(), "{:?}", plan.waiting);
    }
    let backup = world.store.clone();
    world.run();
    assert!(world.upgrade().unwrap().phase.is_over());
    testify(&mut world);
    (world, backup)
}

/// Whatever revision the restored store has come to when a person looks at it: that of the backup, or one beyond all
/// that agents had obeyed.
#[test]
fn reconciled_upgrade_continues_from_observed_state() {
    for later in [0, 1_000] {
        let (mut world, mut backup) = backup_of_the_first_drain();
        backup.revision += later;
        restore(&mut world, backup);
        assert!(said(&world).contains("pantry-api/n0"), "{}", said(&world));
        let commit = reconciled(world.store.fleet(), &world.moment(), &Choices::default()).unwrap();
        assert!(world.store.commit(&commit));
        world.events += 1;
        assert_eq!(said(&world), "");
        let (_, plan) = world.turn();
        let [Reason::Store(StoreGate::FormerStore { nodes })] = plan.waiting[&upgrade_id()].as_slice() else {
            panic!("{:?}", plan.waiting)
        };
        assert_eq!(nodes.count, 3, "what they said was of another store");
        assert!(plan.actions.is_empty(), "an agent that has not read the reconciliation gets no directive");
        world.min_seen_in_service = usize::MAX;
        let last = world.run();
        assert_eq!(world.phase().name().word(), "completed", "{:?}", last.waiting);
        assert_eq!(
            (world.versions(), world.min_seen_in_service),
            (vec![2, 2, 2], 3),
            "no instance is moved twice"
        );
    }
}

#[test]
fn reconciliation_lost_with_second_backup_is_detected() {
    let (mut world, backup) = backup_of_the_first_drain();
    let second = backup.clone();
    restore(&mut world, backup);
    let commit = reconciled(world.store.fleet(), &world.moment(), &Choices::default()).unwrap();
    assert!(world.store.commit(&commit));
    world.agents_step();
    assert_eq!(said(&world), "");
    restore(&mut world, second);
    assert!(said(&world).contains("holds the reconciliation of revision"), "{}", said(&world));
}

#[test]
fn agent_that_was_away_contradicts_when_it_returns() {
    let (mut world, _) = upgraded();
    let late = node(2);
    let mut testimony: Report = world.agents[&late].report.clone();
    testimony.witness.floor = Some(tidegate_proto::ServiceVersion::new(3).unwrap());
    world.agents.get_mut(&late).unwrap().report.witness = Witness::default();
    world.agents.get_mut(&late).unwrap().report.window = Revision::ABSENT;
    restore(&mut world, Store::default());
    let commit = reconciled(world.store.fleet(), &world.moment(), &Choices::default()).unwrap();
    assert!(world.store.commit(&commit));
    assert_eq!(said(&world), "");
    world.events += 1;
    world.agents.get_mut(&late).unwrap().report = testimony;
    world.publish(&late);
    let contradict: Vec<_> = world.store.fleet().contradicted_by().map(|(_, i, _)| i.node.clone()).collect();
    assert_eq!(contradict, std::slice::from_ref(&late), "its floor is higher than what was reconciled");
    assert_eq!(said(&world), "", "the word of one node counts for that node");
    let proposal = propose(world.store.fleet(), &world.moment(), &Choices::default()).unwrap();
    assert_eq!(proposal.witnesses[0].fate, Fate::Quarantined);
    assert_eq!(
        proposal.witnesses[0].lacks.as_deref(),
        Some("no other node obeyed a floor of 3 or above"),
        "it obeyed the term that the others obeyed"
    );
    let include = Choices { include: [InstanceId::new(service(), late)].into(), ..Choices::default() };
    let refused = apply(&mut world, &include).unwrap_err();
    assert!(refused.message.contains("outside the new window [3, 3]"), "{refused}");
}

#[test]
fn a_database_that_obeyed_another_stores_term_is_a_witness() {
    let mut world = fleet();
    world.start(spec(json!({"min_in_service": 1, "approvals": ["stage"]}))).unwrap();
    let stranger: TermId = "elsewhere".parse().unwrap();
    world.facts =
        Some(SchemaFacts { obeyed: Some((stranger.clone(), Revision(900))), ..SchemaFacts::default() });
    let (changed, plan) = world.turn();
    assert!(!changed);
    let reason = plan.waiting[&upgrade_id()][0].to_string();
    assert!(reason.contains("the database of upgrade u1 obeyed term elsewhere"), "{reason}");
    let commit = reconciled(world.store.fleet(), &world.moment(), &Choices::default()).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    let word = world.store.fleet().reconciliation().unwrap();
    assert_eq!(word.revision, Revision(900), "its terms count on from there");
    assert!(word.terms.contains(&stranger) && said(&world).is_empty());
}

/// Numbers count on from a store that was lost before: agents name only the term.
#[test]
fn known_term_with_a_higher_number_is_a_witness() {
    let mut world = fleet();
    let (term, own) = (world.term.term.clone(), world.store.fleet().revision());
    let obeyed = |number| SchemaFacts { obeyed: Some((term.clone(), number)), ..SchemaFacts::default() };
    world.start(spec(json!({"min_in_service": 1, "approvals": ["stage"]}))).unwrap();
    world.facts = Some(obeyed(own));
    assert_eq!(said(&world), "", "the leader has claimed it");
    elect(&mut world, 2);
    assert_eq!(said(&world), "", "a former leader of this store has claimed it");
    world.facts = Some(obeyed(world.store.fleet().revision()));
    assert!(said(&world).contains("gives no higher number"), "the database refuses an equal number");
    world.facts = Some(obeyed(Revision(900)));
    let (changed, plan) = world.turn();
    assert!(!changed);
    let reason = &plan.waiting[&upgrade_id()][0];
    assert!(reason.to_string().contains("obeyed term t1 (number 900)"), "{reason}");
    let people = reason.explained(Waits::Upgrade(&upgrade_id()));
    assert_eq!(people.next_step.as_deref(), Some("tidegate fleet reconcile"));
    apply(&mut world, &Choices::default()).unwrap();
    let word = world.store.fleet().reconciliation().unwrap();
    assert_eq!(word.revision, Revision(900), "its terms count on from there");
    assert!(word.terms.is_empty(), "the store has given that term");
    assert_eq!(said(&world), "");
}

/// Nothing depends on what the record of a term says. It was written again after its term had begun.
#[test]
fn unreadable_term_is_known_by_its_key() {
    let mut world = fleet();
    elect(&mut world, 2);
    let (last, begun) = (world.term.term.clone(), Revision(world.store.revision));
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    let written = Revision(world.store.revision);
    world.run();
    testify(&mut world);
    assert_eq!(said(&world), "");
    for key in [Key::Term("t1".parse().unwrap()), Key::Term(last.clone())] {
        let mut seen = world.store.fleet().clone();
        seen.put(key.clone(), Err(Malformed::Encoding), written);
        let records = world.store.keys.iter().map(|(other, (value, at, _))| match *other == key {
            true => (other.clone(), Err(Malformed::Encoding), written),
            false => (other.clone(), Ok(value.clone()), Revision(*at)),
        });
        for fleet in [Fleet::load(records, seen.revision()), seen] {
            assert_eq!(tidegate_planner::gate::unreconciled(&fleet, &BTreeMap::new()), None, "{key}");
            assert_eq!(fleet.contradicted_by().count(), 0, "{key}");
            assert!(fleet.acknowledges_database(&last, begun), "its database obeys this store: {key}");
            let mut gone = fleet.clone();
            gone.delete(&key);
            assert_eq!(gone.contradicted_by().count() > 0, key == Key::Term(last.clone()), "{key}");
        }
    }
}

#[test]
fn store_seen_falling_needs_later_reconciliation() {
    let mut fleet = fleet().store.fleet().clone();
    fleet.fell_back(Revision(90), fleet.revision());
    let reason = tidegate_planner::gate::unreconciled(&fleet, &BTreeMap::new()).unwrap().to_string();
    assert!(reason.contains("a coordinator saw the store at revision 90"), "{reason}");
    let mut world = World::at_version_1(1);
    world.store.put(Key::Term("t1".parse().unwrap()), Term { address: "here".into(), at: Timestamp(0) });
    let commit = reconciled(&fleet, &world.moment(), &Choices::default()).unwrap();
    let Some(Write::Put(key, value)) =
        commit.writes.iter().find(|w| matches!(w, Write::Put(Key::Reconciliation, _)))
    else {
        panic!("{commit:?}")
    };
    let found = fleet.revision();
    fleet.put(key.clone(), Ok(value.clone()), found);
    assert!(fleet.fall().is_some(), "this word was there before it fell");
    fleet.put(key.clone(), Ok(value.clone()), Revision(found.0 + 1));
    assert!(fleet.fall().is_none());
}

#[test]
fn no_decision_before_reports_and_no_needless_reconciliation() {
    let mut world = fleet();
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    let mut moment = world.moment();
    moment.report_grace_left_ms = 2_100;
    let plan = tidegate_planner::plan(world.store.fleet(), &moment);
    assert!(plan.actions.is_empty());
    assert_eq!(plan.waiting[&upgrade_id()], [Reason::Store(StoreGate::AwaitingReports { for_ms: 2_100 })]);
    assert!(plan.waiting[&upgrade_id()][0].to_string().ends_with("waits for reports of the agents: 3s left"));
    let refused = reconciled(world.store.fleet(), &world.moment(), &Choices::default()).unwrap_err();
    assert!(refused.message.contains("there is nothing to reconcile"), "{refused}");
}

#[test]
fn no_plan_is_made_before_agents_had_time_to_report() {
    let (mut world, _) = upgraded();
    restore(&mut world, Store::default());
    let mut moment = world.moment();
    moment.report_grace_left_ms = 2_100;
    let early = reconciled(world.store.fleet(), &moment, &Choices::default()).unwrap_err();
    assert!(early.message.contains("waits for reports of the agents: 3s left"), "{early}");
    moment.report_grace_left_ms = 0;
    assert!(reconciled(world.store.fleet(), &moment, &Choices::default()).is_ok());
}

#[test]
fn database_of_refused_start_counts_for_reconciliation_only() {
    let mut world = fleet();
    let stranger: TermId = "elsewhere".parse().unwrap();
    world.facts =
        Some(SchemaFacts { obeyed: Some((stranger.clone(), Revision(900))), ..SchemaFacts::default() });
    let mut moment = world.moment();
    moment.schemas.insert(upgrade_id(), world.facts.clone().unwrap());
    assert_eq!(
        tidegate_planner::gate::unreconciled(world.store.fleet(), &moment.schemas),
        None,
        "its URL may be wrong"
    );
    let commit = reconciled(world.store.fleet(), &moment, &Choices::default()).unwrap();
    assert!(world.store.commit(&commit));
    let fleet = world.store.fleet();
    assert!(fleet.acknowledges_term(&stranger));
    assert_eq!(fleet.reconciliation().map(|by| by.revision), Some(Revision(900)), "terms count on from it");
    let again = reconciled(fleet, &moment, &Choices::default());
    assert!(again.is_err(), "there is nothing left to reconcile");
}
