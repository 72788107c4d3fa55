//! Rule 1: each part of the certificate being false keeps contract from running; an altered certificate is found out.

mod altered;

use crate::sim::{World, node, service, sessions, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{Asker, Gone, approve, decommission};
use tidegate_planner::certificate::{Sealed, Session, allowed_sessions};
use tidegate_planner::gate::SchemaGate;
use tidegate_planner::plan::{Made, certify, forget};
use tidegate_planner::{Reason, SchemaFacts};
use tidegate_proto::record::certificate::CertificatePage;
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{InstanceId, Key, Value};

/// A world in which everything is ready for contract, and only the certificate is missing.
fn ready() -> World {
    let mut world = World::at_version_1(3);
    let schema = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
    world.evidence.pending_rows = 1;
    world.start_with_schema(spec(schema), MigrateOrder::BeforeRoll);
    world.run();
    assert_eq!(world.phase(), Phase::Remove);
    world.evidence.pending_rows = 0;
    world
}

/// What is made of what the world shows now; nothing is committed.
fn made(world: &World) -> Made {
    certify(world.store.fleet(), &world.moment(), &upgrade_id(), world.evidence.clone()).unwrap()
}

/// The reasons for which no certificate can be made once `spoil` has been at it.
fn refused(spoil: impl FnOnce(&mut World)) -> String {
    let mut world = ready();
    spoil(&mut world);
    let reasons = world.certify().expect_err("a certificate was made");
    assert_eq!(world.phase(), Phase::Remove);
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn report(world: &mut World, n: usize, change: impl FnOnce(&mut tidegate_proto::record::report::Report)) {
    let key = Key::Report(service(), node(n));
    let Some((Value::Report(record), _, _)) = world.store.keys.get(&key).cloned() else {
        panic!("{key} is not there")
    };
    let mut body = record.body;
    change(&mut body);
    world.store.put(key, body);
}

#[test]
fn when_everything_is_so_it_is_made_and_true() {
    let mut world = ready();
    world.certify().unwrap();
    assert!(matches!(world.phase(), Phase::Contract { .. }));
    let certificate = world.certificate.unwrap();
    Sealed { digest: certificate.digest(), certificate }.verify().unwrap();
}

#[test]
fn completed_upgrade_names_the_certificate_of_its_contract() {
    let mut world = ready();
    world.certify().unwrap();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    let named = world.upgrade().unwrap().certificate;
    assert_eq!(named, world.certificate.map(|certificate| certificate.digest()));
}

#[test]
fn parts_of_earlier_attempt_are_removed_before_next() {
    let mut world = ready();
    let pages: Vec<Key> = (0..200).map(|page| Key::Certificate(upgrade_id(), page)).collect();
    for key in &pages {
        world.store.put(key.clone(), CertificatePage::sealed("of a larger fleet".into(), 200));
    }
    let commits = forget(world.store.fleet(), &upgrade_id(), &pages);
    assert_eq!(commits.len(), 2, "128 operations a transaction");
    assert!(commits.iter().all(|commit| world.store.commit(commit)));
    assert!(pages.iter().all(|key| !world.store.keys.contains_key(key)));
    // A commit planned before the upgrade moved on removes nothing: those may be the pages of the proof.
    let late = forget(world.store.fleet(), &upgrade_id(), &pages[..1]);
    world.certify().unwrap();
    assert!(!world.store.commit(&late[0]));
    assert!(world.store.keys.contains_key(&pages[0]));
}

#[test]
fn pending_rows() {
    assert!(refused(|w| w.evidence.pending_rows = 3).contains("pending_rows: 3 rows are not migrated"));
}

#[test]
fn an_old_session() {
    assert!(
        refused(|w| w.evidence.sessions = Ok(sessions(&["pantry-api/1/n0"]))).contains("is below version 2")
    );
}

/// What is found before an undo of an upgrade from 1 to 2, on a schema that billing shares: its version 9 uses it.
fn found_before_undo(names: &[&str]) -> Vec<String> {
    use tidegate_planner::certificate::{new_form, undo_flaws};
    let schema = json!({
        "database": {"from_env": "THINGS_URL"}, "migrations": "things", "shared_with": {"billing": 9},
    });
    let found = undo_flaws(&new_form(&spec(json!({"schema": schema}))), &sessions(names));
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn undoing_expand_wants_no_session_of_the_new_version() {
    assert_eq!(found_before_undo(&["pantry-api/1/n0", "psql", "other/9/n0"]), [""; 0]);
    assert_eq!(
        found_before_undo(&["pantry-api/1/n0", "pantry-api/2/n1"]),
        ["sessions: session \"pantry-api/2/n1\" uses what expand made, as pantry-api does from version 2 on"]
    );
}

#[test]
fn session_of_sharing_service_in_new_form_blocks_undo() {
    assert_eq!(found_before_undo(&["billing/8/n0"]), [""; 0]);
    assert_eq!(
        found_before_undo(&["billing/8/n0", "billing/9/n1"]),
        ["sessions: session \"billing/9/n1\" uses what expand made, as billing does from version 9 on"]
    );
}

#[test]
fn an_untagged_session() {
    assert!(refused(|w| w.evidence.sessions = Ok(sessions(&["psql"]))).contains("is not tagged"));
}

fn listed(name: &str, pid: Option<i64>, kind: &str) -> Session {
    Session {
        name: name.to_owned(),
        kind: kind.to_owned(),
        endpoint: Some("STANDBY".to_owned()),
        pid,
        user: Some("app".to_owned()),
        client: pid.map(|_| "10.0.0.7".to_owned()),
    }
}

#[test]
fn each_blocking_session_is_listed_with_command_to_end_it() {
    let all = [
        listed("psql", Some(7), "session"),
        listed("pantry-api/1/n0", Some(8), "session"),
        listed("it's", None, "prepared transaction"),
    ];
    let said = refused(|w| w.evidence.sessions = Ok(all.into_iter().collect()));
    for expected in [
        "session \"psql\" (pid 7, user app, client 10.0.0.7, at STANDBY) is not tagged",
        "SELECT pg_terminate_backend(7)",
        "(pid 8, user app, client 10.0.0.7, at STANDBY) is below version 2",
        "prepared transaction \"it's\" (user app, at STANDBY)",
        "ROLLBACK PREPARED 'it''s'",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let many = (0..30).map(|pid| listed("psql", Some(pid), "session"));
    assert!(refused(|w| w.evidence.sessions = Ok(many.collect())).contains("and 10 more"));
}

#[test]
fn session_is_accepted_by_name_as_the_finding_advises() {
    let mut world = ready();
    let accepts = |said: &str| {
        let part = said.split("--accept '").nth(1).and_then(|rest| rest.split('\'').next());
        Asker {
            who: "op".into(),
            why: "a standby".into(),
            accepts: [part.unwrap_or_else(|| panic!("{said}")).to_owned()].into(),
        }
    };
    let approve = |world: &mut World, asker: &Asker| {
        let (fleet, moment) = (world.store.fleet(), world.moment());
        let commit = approve(fleet, &moment, &upgrade_id(), ApprovalPoint::Contract, asker);
        commit.map(|commit| {
            assert!(world.store.commit(&commit));
            world.events += 1;
        })
    };
    let plain = Asker { who: "op".into(), why: String::new(), accepts: Default::default() };
    assert!(approve(&mut world, &plain).is_err(), "nothing waits for that");
    for name in ["walreceiver", "apply worker"] {
        world.evidence.sessions = Ok([listed(name, Some(7), "session")].into());
        let said = world.certify().unwrap_err().iter().map(ToString::to_string).collect::<String>();
        approve(&mut world, &accepts(&said)).unwrap();
    }
    world.evidence.sessions =
        Ok([listed("walreceiver", Some(8), "session"), listed("apply worker", Some(9), "session")].into());
    world.certify().unwrap();
    let certificate = world.certificate.clone().unwrap();
    assert_eq!(certificate.allowed_sessions, ["apply worker".to_owned(), "walreceiver".to_owned()].into());
    Sealed { digest: certificate.digest(), certificate }.verify().unwrap();
    // An instance of the old version is not accepted so.
    assert!(approve(&mut world, &accepts("--accept 'session:pantry-api/1/n0'")).is_err());
    // One that appears between two steps of contract is accepted in the same way.
    assert!(matches!(world.phase(), Phase::Contract { .. }));
    approve(&mut world, &accepts("--accept 'session:psql'")).unwrap();
    assert!(allowed_sessions(world.upgrade().unwrap()).contains("psql"));
}

/// A certificate of the time when sessions had a name and a kind only, and one endpoint was asked.
#[test]
fn certificate_of_a_former_version_is_still_true() {
    let sealed: Sealed = serde_json::from_str(include_str!("certificate_of_one_endpoint.json")).unwrap();
    sealed.verify().unwrap();
    assert!(sealed.certificate.endpoints.is_empty());
}

#[test]
fn certificate_names_the_endpoints_that_were_asked() {
    let mut world = ready();
    world.certify().unwrap();
    assert_eq!(world.certificate.unwrap().endpoints, ["PANTRY".to_owned()].into());
}

#[test]
fn a_session_of_an_unknown_service() {
    assert!(
        refused(|w| w.evidence.sessions = Ok(sessions(&["billing/9/n0"])))
            .contains("not known to share the schema")
    );
}

#[test]
fn unlisted_sessions_without_acceptance() {
    assert!(
        refused(|w| w.evidence.sessions = Err("cannot tell".into())).contains("no approval accepts that")
    );
}

#[test]
fn a_silent_instance() {
    assert!(refused(|w| w.fall_silent(1)).contains("instances.n1: the version that it runs is not known"));
}

#[test]
fn an_instance_that_reports_an_old_version() {
    let text = refused(|w| report(w, 1, |r| r.version = Some(crate::sim::release(1).version)));
    assert!(text.contains("instances.n1: it is at version 1, 2 is needed"), "{text}");
}

#[test]
fn old_admission_with_new_report_blocks_certificate() {
    let text = refused(|w| {
        let key = Key::Inventory(service(), node(1));
        let Some((Value::Inventory(record), _, _)) = w.store.keys.get(&key).cloned() else { panic!() };
        let mut body = record.body;
        body.version = crate::sim::release(1).version;
        let at = w.store.put(key, body);
        report(w, 1, |r| r.admission = tidegate_proto::Revision(at));
    });
    assert!(text.contains("instances.n1: it is at version 1"), "{text}");
}

#[test]
fn a_report_that_belongs_to_an_older_admission() {
    let text = refused(|w| assert!(w.admit(&node(1))));
    assert!(text.contains("its report belongs to admission"), "{text}");
}

#[test]
fn a_window_that_was_not_acknowledged() {
    let text = refused(|w| report(w, 2, |r| r.window = tidegate_proto::Revision(1)));
    assert!(text.contains("instances.n2: it acknowledged window 1"), "{text}");
}

#[test]
fn a_floor_that_does_not_stand() {
    let text = refused(|w| {
        let key = Key::Window(service());
        let Some((Value::Window(record), _, _)) = w.store.keys.get(&key).cloned() else { panic!() };
        let mut body = record.body;
        body.floor = crate::sim::release(1).version;
        w.store.put(key, body);
    });
    assert!(text.contains("its floor is 1, 2 is needed"), "{text}");
}

#[test]
fn unnamed_service_without_instances() {
    let text = refused(|w| {
        let key = Key::Schema("s1".parse().unwrap());
        let Some((Value::Schema(record), _, _)) = w.store.keys.get(&key).cloned() else { panic!() };
        let mut body = record.body;
        body.services.insert("pantry-worker".parse().unwrap(), crate::sim::release(2).version);
        w.store.put(key, body);
    });
    assert!(text.contains("services.pantry-worker.window: there is none"), "{text}");
}

#[test]
fn whatever_the_read_saw_must_not_have_moved() {
    for disturb in [
        |w: &mut World| assert!(w.admit(&node(1))),
        |w: &mut World| {
            w.store.put(Key::Schema("s1".parse().unwrap()), schema_record(w));
        },
        |w: &mut World| {
            let report = w.agents[&node(1)].report.clone();
            w.store.put(Key::Report(service(), node(9)), report);
        },
    ] {
        let mut world = ready();
        let made = made(&world);
        disturb(&mut world);
        let carried_out: Vec<bool> = made.commits.iter().map(|c| world.store.commit(c)).collect();
        assert_eq!(carried_out.last(), Some(&false));
        assert_eq!(world.phase(), Phase::Remove);
    }
}

fn schema_record(w: &World) -> Value {
    w.store.keys[&Key::Schema("s1".parse().unwrap())].0.clone()
}

/// It reports under its former admission: neither an admission nor a tombstone is put.
#[test]
fn decommissioned_instance_that_reports_voids_the_certificate() {
    let mut world = ready();
    world.fall_silent(1);
    let id = InstanceId::new(service(), node(1));
    let asker = Asker { who: "op".into(), why: "burnt".into(), accepts: Default::default() };
    let gone = decommission(world.store.fleet(), &world.moment(), &id, Gone::default(), &asker).unwrap();
    assert!(world.store.commit(&gone));
    world.events += 1;
    let made = made(&world);
    assert!(made.certificate.services[&service()].decommissioned.contains_key(&node(1)));
    world.agents.get_mut(&node(1)).unwrap().alive = true;
    world.publish(&node(1));
    assert!(made.commits.iter().all(|c| !world.store.commit(c)));
    assert_eq!(world.phase(), Phase::Remove);
}

#[test]
fn a_report_that_lapses_after_the_read_is_harmless() {
    let mut world = ready();
    let made = made(&world);
    world.fall_silent(1);
    assert!(made.commits.iter().all(|c| world.store.commit(c)));
    assert!(matches!(world.phase(), Phase::Contract { .. }));
}

#[test]
fn report_that_changes_after_the_read_voids_no_certificate() {
    let mut world = ready();
    let made = made(&world);
    report(&mut world, 2, |r| r.in_flight = Some(3));
    assert!(made.commits.iter().all(|c| world.store.commit(c)));
    assert!(matches!(world.phase(), Phase::Contract { .. }));
}

#[test]
fn nothing_is_certified_while_the_fill_is_not_done() {
    let mut world = ready();
    world.facts = Some(SchemaFacts { expanded: true, ..SchemaFacts::default() });
    let plan = tidegate_planner::plan(world.store.fleet(), &world.moment());
    assert!(!plan.actions.iter().any(|a| matches!(a, tidegate_planner::Action::Certify { .. })));
    assert!(matches!(plan.waiting[&upgrade_id()][..], [Reason::Schema(SchemaGate::Schema { .. })]));
}
