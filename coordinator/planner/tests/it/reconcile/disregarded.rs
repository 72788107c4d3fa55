//! A claim that a person has disregarded, after the store has come to later revisions.

use super::contracted::reconciled;
use super::listed::with_a_silent_one;
use super::{apply, asker, disregard, elect, include, version, with_a_false_claim};
use crate::sharing::runs_scheduler;
use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use std::collections::BTreeMap;
use tidegate_planner::ask::reconcile::{Choices, Fate, propose};
use tidegate_planner::ask::{self, Gone};
use tidegate_planner::gate::{Waits, preflight};
use tidegate_planner::plan;
use tidegate_proto::commit::Commit;
use tidegate_proto::record::MAX_RECORD_BYTES;
use tidegate_proto::record::reconciliation::{Claim, Reconciliation};
use tidegate_proto::record::report::{Report, Rotation};
use tidegate_proto::record::upgrade::MigrateOrder;
use tidegate_proto::record::window::Window;
use tidegate_proto::spec::Spec;
use tidegate_proto::{InstanceId, Key, NodeId, Revision, Value};

fn report_again(world: &mut World) {
    world.agents.get_mut(&node(1)).unwrap().report.in_flight = Some(0);
    world.publish(&node(1));
}

/// The window has a later revision than the one that was claimed, and the agent reports once more.
fn catch_up(world: &mut World) {
    world.store.revision = 1_000;
    let window = Window { floor: version(1), ceiling: version(1), set_by: upgrade_id(), contracted: None };
    world.store.put(Key::Window(service()), window);
    report_again(world);
}

fn disregarded(world: &World) -> Vec<String> {
    let disregarded = world.store.fleet().disregarded();
    disregarded.map(|(_, instance, against)| format!("{} {against}", instance.node)).collect()
}

fn unacknowledged(world: &World) -> Vec<String> {
    let pantry = world.store.fleet().service(&service()).unwrap();
    let found = pantry.unacknowledged();
    assert!(pantry.index_is_true());
    let names: Vec<_> = found.each.map(|instance| instance.node.to_string()).collect();
    assert_eq!(names.len(), found.count);
    names
}

/// It obeyed a window of revision 900, and nothing else shows that the store was behind it.
fn with_a_disregarded_window() -> World {
    let mut world = with_a_false_claim(900);
    let witness = &mut world.agents.get_mut(&node(1)).unwrap().report.witness;
    (witness.term, witness.floor) = (None, Some(version(1)));
    world.publish(&node(1));
    apply(&mut world, &disregard(&[1])).unwrap();
    world
}

#[test]
fn disregarded_claim_stands_once_the_store_has_caught_up() {
    let mut world = with_a_disregarded_window();
    catch_up(&mut world);
    let named = disregarded(&world);
    assert!(
        matches!(&named[..], [one] if one.contains("had obeyed revision 900, and the store was behind it")),
        "{named:?}"
    );
    assert_eq!(world.store.fleet().contradicted_by().count(), 0, "it stops nothing");
    apply(&mut world, &include(&[1])).unwrap();
    let word = world.store.fleet().reconciliation().unwrap();
    assert!(word.disregarded.is_empty() && word.revision == Revision(900), "{word:?}");
    assert!(disregarded(&world).is_empty());
}

#[test]
fn overtaken_claim_ends_with_a_reset_of_the_agent() {
    let mut world = with_a_disregarded_window();
    catch_up(&mut world);
    world.agents.get_mut(&node(1)).unwrap().report.window = Revision::ABSENT;
    world.publish(&node(1));
    assert!(disregarded(&world).is_empty());
}

#[test]
fn window_of_a_former_store_is_not_acknowledged() {
    let mut world = with_a_disregarded_window();
    world.store.revision = 1_000;
    report_again(&mut world);
    let claimant = node(1).to_string();
    assert_eq!(unacknowledged(&world), std::slice::from_ref(&claimant), "it is disregarded");
    apply(&mut world, &include(&[1])).unwrap();
    assert!(disregarded(&world).is_empty());
    assert_eq!(unacknowledged(&world), [claimant], "its window is of a later revision than the store's");
    let at = world.store.fleet().service(&service()).unwrap().window_at();
    world.agents.get_mut(&node(1)).unwrap().report.window = at;
    world.publish(&node(1));
    assert!(unacknowledged(&world).is_empty());
}

#[test]
fn disregarded_instance_has_acknowledged_no_window() {
    let mut world = with_a_false_claim(0);
    let at = world.store.fleet().service(&service()).unwrap().window_at();
    world.agents.get_mut(&node(1)).unwrap().report.window = at;
    world.publish(&node(1));
    apply(&mut world, &disregard(&[1])).unwrap();
    assert_eq!(unacknowledged(&world), [node(1).to_string()], "another store may have given that revision");
}

#[test]
fn disregarded_claim_is_checked_again_when_the_window_rises() {
    let mut world = with_a_false_claim(0);
    let at = world.store.fleet().service(&service()).unwrap().window_at();
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    (report.witness.term, report.witness.floor) = (None, Some(version(1)));
    report.window = Revision(at.0 + 1);
    world.publish(&node(1));
    apply(&mut world, &disregard(&[1])).unwrap();
    let claims = |world: &World, what: &str| match &disregarded(world)[..] {
        [one] => assert!(one.contains(what), "{one}"),
        more => panic!("{more:?}"),
    };
    claims(&world, "holds the window of revision");
    let window = Window { floor: version(1), ceiling: version(1), set_by: upgrade_id(), contracted: None };
    world.store.put(Key::Window(service()), window);
    claims(&world, "the store was behind it");
}

#[test]
fn later_plan_keeps_that_the_store_was_behind_a_claim() {
    let mut world = with_a_disregarded_window();
    catch_up(&mut world);
    let report = &mut world.agents.get_mut(&node(2)).unwrap().report;
    report.witness.term = Some("made-up".parse().unwrap());
    world.publish(&node(2));
    apply(&mut world, &disregard(&[2])).unwrap();
    let word = world.store.fleet().reconciliation().unwrap();
    assert!(word.at > Revision(900));
    let [first, second] = [1, 2].map(|n| word.disregarded_claim(&service(), &node(n)).unwrap());
    assert!(first.ahead && !second.ahead, "{word:?}");
    assert_eq!(disregarded(&world).len(), 2, "either has to be included");
    apply(&mut world, &disregard(&[1, 2])).unwrap_err();
    apply(&mut world, &include(&[1])).unwrap();
    assert_eq!(disregarded(&world).len(), 1);
}

fn set_ceiling(world: &mut World, ceiling: i64) {
    let (floor, ceiling) = (version(1), version(ceiling));
    let window = Window { floor, ceiling, set_by: upgrade_id(), contracted: None };
    world.store.put(Key::Window(service()), window);
}

#[test]
fn disregarded_newcomer_above_from_is_named_with_its_end() {
    let mut world = with_a_false_claim(0);
    set_ceiling(&mut world, 2);
    world.return_with(&node(1), 2);
    set_ceiling(&mut world, 1);
    apply(&mut world, &disregard(&[1])).unwrap();
    let found = preflight::findings(world.store.fleet(), &spec(json!({})), None);
    let above = found.iter().find(|finding| finding.what.contains("above `from` (1)"));
    let above = above.expect("it is named");
    assert!(above.blocks && above.what.contains("(start the release of `from` there, or stop"), "{above:?}");
    assert!(
        above.what.ends_with("fleet decommission pantry-api/NODE --why … --stopped-how …`) on: n1"),
        "{above:?}"
    );
}

/// The commands that an upgrade names at the end of its roll for an instance with this report, whose claim was disregarded.
fn advised(change: impl Fn(&mut Report)) -> Vec<String> {
    let mut world = World::at_version_1(4);
    elect(&mut world, 1);
    world.start(spec(json!({"approvals": ["remove"]}))).unwrap();
    world.run();
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.witness.term = Some("made-up".parse().unwrap());
    change(report);
    world.publish(&node(1));
    apply(&mut world, &disregard(&[1])).unwrap();
    next_steps(&world)
}

/// The commands that the upgrade names for instances whose claim was disregarded.
pub(super) fn next_steps(world: &World) -> Vec<String> {
    let mut planned = plan(world.store.fleet(), &world.moment());
    let reasons = planned.waiting.remove(&upgrade_id()).unwrap_or_default();
    let named = reasons.iter().filter(|reason| reason.kind() == "disregarded");
    named.filter_map(|reason| reason.explained(Waits::Upgrade(&upgrade_id())).next_step).collect()
}

#[test]
fn inclusion_is_advised_only_where_it_is_possible() {
    let include = "tidegate fleet reconcile --include pantry-api/n1";
    let decommission = "tidegate fleet decommission pantry-api/n1 --why … --stopped-how …";
    assert_eq!(advised(|_| ()), [include]);
    let above = |report: &mut Report, floor| {
        (report.version, report.probed, report.witness.floor) = (None, Some(version(3)), floor);
    };
    let widens = advised(|report| above(report, Some(version(1))));
    assert_eq!(widens, [format!("{include}, or {decommission}")], "the window may be widened");
    assert_eq!(advised(|report| above(report, None)), [decommission], "no window is raised to its claim");
    assert_eq!(advised(|report| report.version = None), ["tidegate-agent check (on n1)"]);
    let impossible = |report: &mut Report| report.window = Revision(i64::MAX);
    assert_eq!(advised(impossible), [decommission]);
}

/// A spec whose schema the scheduler shares.
fn shared() -> Spec {
    let schema =
        json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry", "shared_with": {"scheduler": 2}});
    spec(json!({"approvals": ["stage"], "schema": schema}))
}

/// The instance of the scheduler has no admission, claims what no store knows, and does not answer its version.
fn scheduler_claims(world: &mut World, rotation: Rotation) -> InstanceId {
    let id = InstanceId::new("scheduler".parse().unwrap(), node(7));
    let key = Key::Report(id.service.clone(), id.node.clone());
    let Some((Value::Report(record), ..)) = world.store.keys.get(&key).cloned() else { panic!("it reports") };
    let mut body = record.body;
    (body.version, body.rotation) = (None, rotation);
    body.witness.term = Some("made-up".parse().unwrap());
    let admission = Key::Inventory(id.service.clone(), id.node.clone());
    assert!(world.store.commit(&Commit::new().delete(admission)));
    world.store.put(key, body);
    id
}

#[test]
fn disregarded_instance_of_a_sharing_service_is_named() {
    let mut world = World::at_version_1(4);
    elect(&mut world, 1);
    runs_scheduler(&mut world, 1);
    let id = scheduler_claims(&mut world, Rotation::Out);
    apply(&mut world, &Choices { disregard: [id].into(), ..Choices::default() }).unwrap();
    let found = preflight::findings(world.store.fleet(), &shared(), None);
    let include = "includes it: `tidegate fleet reconcile --include scheduler/n7`";
    assert!(found.iter().any(|finding| finding.blocks && finding.what.ends_with(include)), "{found:?}");
}

/// Nothing moves an instance there, and neither is admitted before a plan includes it.
#[test]
fn undo_from_preflight_names_disregarded_instances() {
    let mut world = World::at_version_1(4);
    elect(&mut world, 1);
    runs_scheduler(&mut world, 1);
    world.start_with_schema(shared(), MigrateOrder::BeforeRoll);
    world.run();
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    (report.version, report.rotation) = (None, Rotation::Out);
    report.witness.term = Some("made-up".parse().unwrap());
    world.publish(&node(1));
    let id = scheduler_claims(&mut world, Rotation::In);
    let disregard = disregard(&[1]).disregard.into_iter().chain([id]).collect();
    apply(&mut world, &Choices { disregard, ..Choices::default() }).unwrap();
    world.roll_back();
    let include = "tidegate fleet reconcile --include pantry-api/n1";
    assert_eq!(next_steps(&world), [include, "tidegate-agent check (on n7)"]);
}

/// Instances with names of the greatest length, which were disregarded before and do not exist any more.
#[test]
fn plans_together_disregard_what_one_record_holds() {
    let mut world = with_a_false_claim(900);
    let gone = |n: usize| -> NodeId { format!("n{n:062}").parse().unwrap() };
    let claim = Claim {
        term: Some("f".repeat(36).parse().unwrap()),
        floor: Some(version(2_147_483_647)),
        revision: Revision(1_234_567),
        ahead: true,
    };
    let claims: BTreeMap<NodeId, Claim> = (0..1_000).map(|n| (gone(n), claim.clone())).collect();
    let disregarded = BTreeMap::from([(service(), claims)]);
    let record = Reconciliation { floors: BTreeMap::new(), disregarded, ..reconciled() };
    world.store.put(Key::Reconciliation, record);
    let admitted = world.store.keys[&Key::Inventory(service(), node(0))].0.clone();
    world.store.put(Key::Inventory(service(), gone(0)), admitted);
    let refused = apply(&mut world, &disregard(&[1])).unwrap_err();
    assert!(refused.message.contains("it would disregard 1001: decommission"), "{refused}");

    let how = Gone { stopped_how: Some("power is off".into()), revoked_how: None };
    let id = InstanceId::new(service(), gone(0));
    let commit = ask::decommission(world.store.fleet(), &world.moment(), &id, how, &asker()).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    apply(&mut world, &disregard(&[1])).unwrap();
    let word = world.store.fleet().reconciliation().unwrap();
    let is_disregarded = |node: &NodeId| word.disregarded_claim(&service(), node).is_some();
    assert_eq!([gone(0), gone(1), node(1)].each_ref().map(is_disregarded), [false, true, true]);
    let (record, ..) = &world.store.keys[&Key::Reconciliation];
    assert!(record.encode().len() < MAX_RECORD_BYTES / 4, "there is room for the instances that it lists");
}

/// It was silent when it was disregarded, and claims only what the record covers.
#[test]
fn returned_instance_is_named_as_disregarded_before() {
    let mut world = with_a_silent_one(3);
    for n in [0, 1, 3] {
        world.agents.get_mut(&node(n)).unwrap().report.witness.term = Some("another".parse().unwrap());
    }
    [0, 1].iter().for_each(|n| world.publish(&node(*n)));
    apply(&mut world, &disregard(&[3])).unwrap();
    world.agents.get_mut(&node(3)).unwrap().alive = true;
    world.publish(&node(3));
    let proposal = propose(world.store.fleet(), &world.moment(), &Choices::default()).unwrap();
    let [returned] = proposal.witnesses.as_slice() else { panic!("{:?}", proposal.witnesses) };
    let why = "an earlier plan disregarded the instance, so only --include applies its claim";
    assert_eq!((returned.fate, returned.lacks.as_deref()), (Fate::Quarantined, Some(why)));
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains(&format!("it applies no claim: pantry-api/n3: {why}")), "{refused}");
    apply(&mut world, &include(&[3])).unwrap();
    assert_eq!(world.store.fleet().contradicted_by().count(), 0);
    assert!(world.store.fleet().reconciliation().unwrap().disregarded.is_empty());
}
