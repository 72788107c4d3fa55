//! What counts as written by a person, which agents were started again, and what a copy of the store orders and when it is
//! obeyed.

use super::*;
use crate::simulate::agent::IMPOSTOR;
use crate::simulate::event_log::EventLog;
use crate::simulate::judge::{Facts, Limits, ServiceFacts};
use crate::simulate::names::Names;
use crate::simulate::slot::Behaviour;
use serde_json::json;
use tidegate_proto::record::upgrade::PhaseName;

const READABLE: &str = r#"{"schema":1,"upgrade":"u1"}"#;
const UNREADABLE: &str = "{";
const RECONCILED: &str = r#"{"schema":1,"who":"op","why":"restored","at":1,"terms":["former"]}"#;

/// A directive that replaces an instance.
const REPLACES: &str = include_str!("../../../../proto/tests/golden/directives.1.json");

/// An upgrade of `pantry-api` in phase roll.
const ROLLS: &str = include_str!("../../../../proto/tests/golden/upgrades.1.json");

/// An admission of version 1.
const ADMITTED: &str = include_str!("../../../../proto/tests/golden/inventory.1.json");
/// A window that admits 1 to 2.
const WINDOW: &str = include_str!("../../../../proto/tests/golden/windows.1.json");
/// A report of an instance that has obeyed revision 30.
const REPORTS: &str = include_str!("../../../../proto/tests/golden/reports.1.json");

fn nowhere() -> Testbed {
    Testbed::new(Names::default(), BTreeMap::new(), EventLog::new(false), Facts::default())
}

/// One service on one node.
fn pantry() -> Names {
    Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] }
}

fn report_key() -> Key {
    Key::Report("pantry".parse().unwrap(), "n00".parse().unwrap())
}

fn directive_key() -> Key {
    Key::Directive("pantry".parse().unwrap(), "n00".parse().unwrap())
}

async fn write(store: &Embedded, key: &Key, text: &str) {
    let mut client = store.client().await.unwrap();
    client.put(Prefix::default().key(key), text, None).await.unwrap();
}

async fn put(store: &Embedded, service: &str, text: &str) {
    write(store, &Key::Active(service.parse().unwrap()), text).await;
}

/// Revisions that count as written by a person, of a store and of its copy: after so much was written to the store before
/// the copy was made, to the store afterwards, and to the copy.
async fn by_hand(before: &[&str], after: &[&str], copied: &[(&str, &str)]) -> [BTreeSet<i64>; 2] {
    let store = Embedded::in_memory();
    let auditor = Auditor::begin(&store, nowhere(), 0).await.unwrap();
    for text in before {
        put(&store, "pantry", text).await;
    }
    let copy = store.restored_in_memory();
    for text in after {
        put(&store, "pantry", text).await;
    }
    auditor.catch_up(&store).await.unwrap();
    let history = auditor.history();
    let of_the_store = history.by_hand.clone();
    let auditor = Auditor::follow_copy(history, &auditor.directives(), &copy, nowhere()).await.unwrap();
    for (service, text) in copied {
        put(&copy, service, text).await;
    }
    auditor.catch_up(&copy).await.unwrap();
    [of_the_store, auditor.history().by_hand]
}

#[tokio::test(start_paused = true)]
async fn record_put_back_in_a_copy_too_is_by_hand() {
    let copied = [("larder", READABLE), ("pantry", READABLE)];
    let found = by_hand(&[READABLE, UNREADABLE], &[READABLE], &copied).await;
    assert_eq!(found, [BTreeSet::from([4]), BTreeSet::from([5])], "the larder's record is a coordinator's");
}

#[tokio::test(start_paused = true)]
async fn record_that_became_unreadable_later_is_no_persons() {
    let found = by_hand(&[READABLE], &[UNREADABLE], &[("pantry", READABLE)]).await;
    assert_eq!(found, [BTreeSet::new(), BTreeSet::new()]);
}

#[tokio::test(start_paused = true)]
async fn store_knows_its_own_terms_and_those_it_is_reconciled_with() {
    let store = Embedded::in_memory();
    let auditor = Auditor::begin(&store, nowhere(), 0).await.unwrap();
    let given = r#"{"schema":1,"address":"http://c0:1","at":1}"#;
    for (key, text) in [(Key::Term("own".parse().unwrap()), given), (Key::Reconciliation, RECONCILED)] {
        write(&store, &key, text).await;
    }
    auditor.catch_up(&store).await.unwrap();
    let found = ["own", "former", "other"].map(|term| auditor.origin(term));
    assert_eq!(found, [TermOrigin::Given, TermOrigin::Reconciled, TermOrigin::Unknown]);
}

#[tokio::test(start_paused = true)]
async fn agent_that_its_supervisor_started_again_is_noted() {
    let store = Embedded::in_memory();
    let names = Names { services: Vec::new(), nodes: vec!["n00".to_owned()] };
    let testbed = Testbed::new(names, BTreeMap::new(), EventLog::new(false), Facts::default());
    let auditor = Auditor::begin(&store, testbed.clone(), 0).await.unwrap();
    put(&store, "pantry", READABLE).await;
    auditor.catch_up(&store).await.unwrap();
    testbed.state().restarted.push(0);
    put(&store, "larder", READABLE).await;
    auditor.catch_up(&store).await.unwrap();
    let restarts = auditor.history().restarts;
    assert_eq!(restarts, [("n00".parse().unwrap(), 2)], "before the larder's record");
}

/// Orders an instance to do this, a second after the order before.
async fn direct(store: &Embedded, disposition: &str) {
    tokio::time::sleep(Duration::from_secs(1)).await;
    let text = json!({
        "schema": 1, "upgrade": "u0", "disposition": {"name": disposition},
        "drain": {}, "health": {}, "term": "t1",
    });
    write(store, &directive_key(), &text.to_string()).await;
}

/// In which second an instance was ordered out, and in which its last directive was written, as the judge knows it once a copy
/// has taken the store's place. The copy was made between these directives.
async fn ordered(before: &[&str], after: &[&str]) -> [Option<u64>; 2] {
    let facts = Facts { services: vec![ServiceFacts::default()], ..Facts::default() };
    let testbed = Testbed::new(pantry(), BTreeMap::new(), EventLog::new(false), facts);
    let store = Embedded::in_memory();
    let auditor = Auditor::begin(&store, testbed.clone(), 0).await.unwrap();
    for disposition in before {
        direct(&store, disposition).await;
    }
    let copy = store.restored_in_memory();
    for disposition in after {
        direct(&store, disposition).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    auditor.catch_up(&store).await.unwrap();
    let history = auditor.history();
    Auditor::follow_copy(history, &auditor.directives(), &copy, testbed.clone()).await.unwrap();
    let facts = &testbed.state().facts;
    [&facts.ordered_out, &facts.directed].map(|times| times.get(&(0, 0)).map(|at| at / 1_000))
}

#[tokio::test(start_paused = true)]
async fn directive_that_a_copy_has_too_is_no_new_order() {
    assert_eq!(ordered(&["serve", "drain"], &[]).await, [Some(2), Some(2)]);
    let older = ordered(&["serve", "drain"], &["stop"]).await;
    assert_eq!(older, [Some(2), Some(4)], "the copy has another directive, which takes it out too");
    let again = ordered(&["drain"], &["serve", "drain"]).await;
    assert_eq!(again, [Some(3), Some(4)], "the copy has the drain before, which was taken back");
    assert_eq!(ordered(&["drain"], &["serve"]).await, [Some(3), Some(3)], "the drain was taken back");
    assert_eq!(ordered(&["serve"], &["drain"]).await, [None, Some(3)], "it was not ordered out yet");
}

/// The rules that are broken where an instance of the pantry is drained on behalf of an upgrade of this service, which rolls and
/// has not written down what failed in it.
async fn broken_by_a_drain_of(service: usize) -> Vec<u8> {
    let services = ["pantry", "larder"].map(str::to_owned).to_vec();
    let names = Names { services, nodes: vec!["n00".to_owned()] };
    let limits = vec![Limits { service, min_in_service: 0, drain_deadline: 5_000 }];
    let mut facts = Facts { services: vec![ServiceFacts::default(); 2], limits, ..Facts::default() };
    facts.enters("u0", PhaseName::Roll, 0);
    facts.late_failures.goes_to("u0", service, 2);
    facts.late_failures.reported((service, 0), Some(2), 0);
    let testbed = Testbed::new(names, BTreeMap::new(), EventLog::new(false), facts);
    let store = Embedded::in_memory();
    let auditor = Auditor::begin(&store, testbed.clone(), 0).await.unwrap();
    for disposition in ["serve", "drain"] {
        direct(&store, disposition).await;
    }
    auditor.catch_up(&store).await.unwrap();
    testbed.state().facts.breaches.iter().map(|breach| breach.rule).collect()
}

#[tokio::test(start_paused = true)]
async fn drain_in_another_service_is_no_step_of_a_roll() {
    assert_eq!(broken_by_a_drain_of(0).await, [12]);
    assert_eq!(broken_by_a_drain_of(1).await, Vec::<u8>::new(), "the roll did not go on");
}

#[tokio::test(start_paused = true)]
async fn order_that_only_a_copy_has_is_lost_with_it() {
    let facts = Facts { services: vec![ServiceFacts::default()], ..Facts::default() };
    let testbed = Testbed::new(pantry(), BTreeMap::new(), EventLog::new(false), facts);
    let store = Embedded::in_memory();
    let auditor = Auditor::begin(&store, testbed.clone(), 0).await.unwrap();
    write(&store, &directive_key(), REPLACES).await;
    auditor.catch_up(&store).await.unwrap();
    let (history, copy) = (auditor.history(), store.restored_in_memory());
    let is_ordered_out = || testbed.state().facts.ordered_out.contains_key(&(0, 0));
    assert!(is_ordered_out());
    testbed.state().facts.stopped((0, 0));
    Auditor::follow_copy(history.clone(), &Directives::new(), &copy, testbed.clone()).await.unwrap();
    assert!(is_ordered_out(), "its agent may obey the copy's order");
    Auditor::follow_copy(history, &Directives::new(), &Embedded::in_memory(), testbed.clone()).await.unwrap();
    assert!(!is_ordered_out(), "a blank store took the place of the copy");
}

/// Whether a directive that is put back orders an instance out, after its agent has started this release under it.
async fn orders_again(started: &str, ready_after: u64, then: fn(&Testbed)) -> bool {
    let is = Behaviour::good(2, ready_after);
    let releases = ["pantry-1.0.0", "pantry-2.0.0"].map(|tag| (tag.to_owned(), is.clone()));
    let facts = Facts { services: vec![ServiceFacts::default()], ..Facts::default() };
    let testbed = Testbed::new(pantry(), releases.into(), EventLog::new(false), facts);
    let store = Embedded::in_memory();
    let auditor = Auditor::begin(&store, testbed.clone(), 0).await.unwrap();
    write(&store, &directive_key(), REPLACES).await;
    auditor.catch_up(&store).await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    testbed.start_by_agent((0, 0), started);
    then(&testbed);
    for text in [UNREADABLE, REPLACES] {
        write(&store, &directive_key(), text).await;
    }
    auditor.catch_up(&store).await.unwrap();
    testbed.state().facts.ordered_out.contains_key(&(0, 0))
}

#[tokio::test(start_paused = true)]
async fn directive_put_back_that_is_carried_out_is_no_new_order() {
    assert!(!orders_again("pantry-2.0.0", 0, |_| ()).await);
    assert!(!orders_again("pantry-2.0.0", 800, |_| ()).await, "it is about to come in");
    assert!(orders_again("pantry-1.0.0", 0, |_| ()).await, "its agent has started another release");
    assert!(orders_again("pantry-2.0.0", 0, |testbed| testbed.crash((0, 0))).await, "its release has ended");
}

#[tokio::test(start_paused = true)]
async fn copy_is_obeyed_once_it_is_reconciled_itself() {
    let reconcile = async |store: &Embedded| {
        write(store, &Key::Reconciliation, RECONCILED).await;
    };
    let store = Embedded::in_memory();
    let auditor = Auditor::begin(&store, nowhere(), 0).await.unwrap();
    reconcile(&store).await;
    auditor.catch_up(&store).await.unwrap();
    let copy = store.restored_in_memory();
    let testbed = nowhere();
    let service = ServiceFacts { former: Some((u64::MAX, vec![2..=2])), ..ServiceFacts::default() };
    testbed.state().facts.services.push(service);
    testbed.state().facts.bound.insert((0, 0));
    let obeys_former = || testbed.state().facts.obeys_former((0, 0), 2, u64::MAX - 1);
    let auditor =
        Auditor::follow_copy(auditor.history(), &Directives::new(), &copy, testbed.clone()).await.unwrap();
    assert!(obeys_former(), "its former store was reconciled");
    reconcile(&copy).await;
    auditor.catch_up(&copy).await.unwrap();
    assert!(!obeys_former());
}

#[tokio::test(start_paused = true)]
async fn window_put_back_in_a_copy_is_none_that_is_committed() {
    let obeys_former = async |ceiling: u32| {
        let service = ServiceFacts {
            windows: vec![(0, 1, ceiling)],
            former: Some((u64::MAX, vec![3..=3])),
            ..ServiceFacts::default()
        };
        let facts = Facts { services: vec![service], bound: [(0, 0)].into(), ..Facts::default() };
        let testbed = Testbed::new(pantry(), BTreeMap::new(), EventLog::new(false), facts);
        let store = Embedded::in_memory();
        let auditor = Auditor::begin(&store, testbed.clone(), 0).await.unwrap();
        write(&store, &Key::Window("pantry".parse().unwrap()), WINDOW).await;
        auditor.catch_up(&store).await.unwrap();
        testbed.state().facts.obeys_former((0, 0), 3, u64::MAX - 1)
    };
    assert!(obeys_former(2).await, "it admits what the copy had");
    assert!(!obeys_former(1).await, "it is another window");
}

#[tokio::test(start_paused = true)]
async fn store_that_is_reconciled_without_an_agent_does_not_bind_it() {
    let testbed = Testbed::new(pantry(), BTreeMap::new(), EventLog::new(false), Facts::default());
    let store = Embedded::in_memory();
    let auditor = Auditor::begin(&store, testbed.clone(), 0).await.unwrap();
    write(&store, &report_key(), REPORTS).await;
    auditor.catch_up(&store).await.unwrap();
    let (directives, blank) = (auditor.directives(), Embedded::in_memory());
    let auditor =
        Auditor::follow_copy(auditor.history(), &directives, &blank, testbed.clone()).await.unwrap();
    let is_uncovered = || testbed.state().facts.obeyed.is_uncovered((0, 0), u64::MAX - 1);
    write(&blank, &Key::Reconciliation, RECONCILED).await;
    auditor.catch_up(&blank).await.unwrap();
    assert!(is_uncovered(), "its claim is not among those that were applied");
    let covers = RECONCILED.replace("\"terms\"", "\"revision\":30,\"terms\"");
    write(&blank, &Key::Reconciliation, covers.as_str()).await;
    auditor.catch_up(&blank).await.unwrap();
    assert!(!is_uncovered());
    let is_bound = || testbed.state().facts.bound.contains(&(0, 0));
    assert!(is_bound(), "it may not have seen that yet");
    let mut obeys: serde_json::Value = serde_json::from_str(REPORTS).unwrap();
    obeys.as_object_mut().unwrap().remove("window").unwrap();
    write(&blank, &report_key(), &obeys.to_string()).await;
    auditor.catch_up(&blank).await.unwrap();
    assert!(!is_bound(), "the store that it obeys has no window");
}

#[tokio::test(start_paused = true)]
async fn report_of_a_second_agent_does_not_bind_the_first() {
    let is_bound = async |nonce: &str| {
        let testbed = Testbed::new(pantry(), BTreeMap::new(), EventLog::new(false), Facts::default());
        let store = Embedded::in_memory();
        let auditor = Auditor::begin(&store, testbed.clone(), 0).await.unwrap();
        let mut report: serde_json::Value = serde_json::from_str(REPORTS).unwrap();
        report["identity"]["nonce"] = nonce.into();
        write(&store, &report_key(), &report.to_string()).await;
        auditor.catch_up(&store).await.unwrap();
        testbed.state().facts.bound.contains(&(0, 0))
    };
    assert!(is_bound("nonce-0").await && !is_bound(IMPOSTOR).await);
}

#[tokio::test(start_paused = true)]
async fn newcomer_that_a_blank_store_admits_is_bound_by_no_window() {
    let is_unbound = async |has_no_window: bool, floor: u32| {
        let service = ServiceFacts { windows: vec![(0, floor, 7)], has_no_window, ..ServiceFacts::default() };
        let facts = Facts { services: vec![service], ..Facts::default() };
        let testbed = Testbed::new(pantry(), BTreeMap::new(), EventLog::new(false), facts);
        let store = Embedded::in_memory();
        let auditor = Auditor::begin(&store, testbed.clone(), 0).await.unwrap();
        write(&store, &Key::Inventory("pantry".parse().unwrap(), "n00".parse().unwrap()), ADMITTED).await;
        auditor.catch_up(&store).await.unwrap();
        testbed.state().facts.unbound.contains(&(0, 0))
    };
    assert!(is_unbound(true, 2).await);
    assert!(!is_unbound(false, 2).await, "the store has the window");
    assert!(!is_unbound(true, 1).await, "the lost window admits it");
}

#[tokio::test(start_paused = true)]
async fn report_counts_again_once_the_lies_have_ended() {
    let is_bound_and_uncovered = async |lied_until: u64| {
        let facts = Facts { byzantine: [(0, lied_until)].into(), ..Facts::default() };
        let testbed = Testbed::new(pantry(), BTreeMap::new(), EventLog::new(false), facts);
        let store = Embedded::in_memory();
        let auditor = Auditor::begin(&store, testbed.clone(), 0).await.unwrap();
        tokio::time::advance(Duration::from_millis(100)).await;
        write(&store, &report_key(), REPORTS).await;
        auditor.catch_up(&store).await.unwrap();
        let word = json!({"who": "op", "why": "lost", "at": 1, "revision": 0});
        let word = serde_json::from_value(word).unwrap();
        let facts = &mut testbed.state().facts;
        facts.obeyed.reconciled(&word, tidegate_proto::Revision(1), 200);
        [facts.bound.contains(&(0, 0)), facts.obeyed.is_uncovered((0, 0), 200)]
    };
    assert_eq!(is_bound_and_uncovered(99).await, [true; 2], "its own agent has reported revision 30");
    assert_eq!(is_bound_and_uncovered(u64::MAX).await, [false; 2], "something lies in its place");
}

#[tokio::test(start_paused = true)]
async fn report_in_a_copy_binds_no_agent_without_journal() {
    let testbed = Testbed::new(pantry(), BTreeMap::new(), EventLog::new(false), Facts::default());
    let store = Embedded::in_memory();
    let auditor = Auditor::begin(&store, testbed.clone(), 0).await.unwrap();
    write(&store, &report_key(), REPORTS).await;
    auditor.catch_up(&store).await.unwrap();
    let copy = store.restored_in_memory();
    let is_bound = || testbed.state().facts.bound.contains(&(0, 0));
    assert!(is_bound());
    testbed.state().facts.starts_without_journal((0, 0));
    let history = auditor.history();
    Auditor::follow_copy(history, &Directives::new(), &copy, testbed.clone()).await.unwrap();
    assert!(!is_bound(), "what the copy has was reported before that");
}

#[tokio::test(start_paused = true)]
async fn roll_before_a_copy_was_made_concerns_no_newcomer() {
    let names = Names { services: vec!["pantry-api".to_owned()], nodes: vec!["n00".to_owned()] };
    let service = ServiceFacts { newcomers: [(0, 2)].into(), ..ServiceFacts::default() };
    let facts = Facts { services: vec![service], unbound: [(0, 0)].into(), ..Facts::default() };
    let testbed = Testbed::new(names, BTreeMap::new(), EventLog::new(false), facts);
    let roll = async |store: &Embedded, id: &str| {
        write(store, &Key::Upgrade(id.parse().unwrap()), ROLLS).await;
    };
    let are_judged = || {
        let facts = &testbed.state().facts;
        [facts.unbound.is_empty(), facts.services[0].newcomers.is_empty()]
    };
    let store = Embedded::in_memory();
    let auditor = Auditor::begin(&store, nowhere(), 0).await.unwrap();
    roll(&store, "u0").await;
    auditor.catch_up(&store).await.unwrap();
    let (history, copy) = (auditor.history(), store.restored_in_memory());
    let auditor = Auditor::follow_copy(history, &Directives::new(), &copy, testbed.clone()).await.unwrap();
    assert!(testbed.state().facts.phases.contains_key("u0"), "the copy has the roll");
    assert_eq!(are_judged(), [false; 2], "they came after that roll");
    roll(&copy, "u1").await;
    auditor.catch_up(&copy).await.unwrap();
    assert_eq!(are_judged(), [true; 2], "an upgrade rolls beside them");
}
