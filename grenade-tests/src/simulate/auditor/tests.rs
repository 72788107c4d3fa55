//! What counts as written by a person, which agents were started again, and when a copy is obeyed.

use super::*;
use crate::simulate::event_log::EventLog;
use crate::simulate::judge::{Facts, ServiceFacts};
use crate::simulate::names::Names;

const READABLE: &str = r#"{"schema":1,"upgrade":"u1"}"#;
const UNREADABLE: &str = "{";
const RECONCILED: &str = r#"{"schema":1,"who":"op","why":"restored","at":1,"terms":["former"]}"#;

fn nowhere() -> Testbed {
    Testbed::new(Names::default(), BTreeMap::new(), EventLog::new(false), Facts::default())
}

async fn put(store: &Embedded, service: &str, text: &str) {
    let key = Key::Active(service.parse().unwrap());
    let mut client = store.client().await.unwrap();
    client.put(Prefix::default().key(&key), text, None).await.unwrap();
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
    let auditor = Auditor::follow_copy(history, &copy, nowhere()).await.unwrap();
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
    let mut client = store.client().await.unwrap();
    let given = r#"{"schema":1,"address":"http://c0:1","at":1}"#;
    for (key, text) in [(Key::Term("own".parse().unwrap()), given), (Key::Reconciliation, RECONCILED)] {
        client.put(Prefix::default().key(&key), text, None).await.unwrap();
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

#[tokio::test(start_paused = true)]
async fn copy_is_obeyed_once_it_is_reconciled_itself() {
    let reconcile = async |store: &Embedded| {
        let mut client = store.client().await.unwrap();
        client.put(Prefix::default().key(&Key::Reconciliation), RECONCILED, None).await.unwrap();
    };
    let store = Embedded::in_memory();
    let auditor = Auditor::begin(&store, nowhere(), 0).await.unwrap();
    reconcile(&store).await;
    auditor.catch_up(&store).await.unwrap();
    let copy = store.restored_in_memory();
    let testbed = nowhere();
    let service = ServiceFacts { former: Some((u64::MAX, 2..=2)), ..ServiceFacts::default() };
    testbed.state().facts.services.push(service);
    let obeys_former = || testbed.state().facts.services[0].is_admitted_by_former(2, u64::MAX - 1);
    let auditor = Auditor::follow_copy(auditor.history(), &copy, testbed.clone()).await.unwrap();
    assert!(obeys_former(), "its former store was reconciled");
    reconcile(&copy).await;
    auditor.catch_up(&copy).await.unwrap();
    assert!(!obeys_former());
}
