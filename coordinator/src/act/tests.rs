//! Commits of a plan, as a turn carries them out.

use super::*;
use crate::metrics::Metrics;
use std::sync::Arc;
use std::time::Duration;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::key::Kind;
use tidegate_proto::record::budget::Budget;
use tidegate_proto::{Commit, Key, Prefix};
use tidegate_store::{Scope, Store};
use tokio_util::sync::CancellationToken;

fn order(by_recent_view: bool) -> PlannedCommit {
    let budget = Budget { term: "t1".parse().unwrap(), taken: 1 };
    let commit = Commit::new().put(Key::Budget("pantry-api".parse().unwrap()), budget);
    PlannedCommit { subject: Subject::Fleet, what: "order".to_owned(), commit, by_recent_view }
}

async fn leads() -> (Store, Leadership) {
    let store = Store::over(Embedded::in_memory().client().await.unwrap(), Prefix::default());
    let (term, address) = ("t1".parse().unwrap(), "a:1".to_owned());
    let led = store.campaign(term, address, Duration::from_secs(60), CancellationToken::new()).await;
    let leadership = Leadership::new(led.unwrap(), Arc::new(Metrics::new()));
    (store, leadership)
}

#[tokio::test(start_paused = true)]
async fn order_is_sent_within_a_second_of_its_plan() {
    let planned_at = Instant::now();
    let drain = order(true);
    tokio::time::advance(OLDEST_VIEW).await;
    assert!(!is_too_late(&drain, planned_at));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(is_too_late(&drain, planned_at));
    assert!(!is_too_late(&order(false), planned_at));
}

#[tokio::test]
async fn order_that_was_planned_long_ago_is_not_sent() {
    let (store, leadership) = leads().await;
    let written = async || store.list(&Scope::Kind(Kind::Budget)).await.unwrap().entries.len();
    let long_ago = Instant::now() - OLDEST_VIEW - Duration::from_millis(1);
    assert_eq!(commit(&leadership, order(true), long_ago).await, Outcome::Overtaken);
    assert_eq!(written().await, 0);
    assert_eq!(commit(&leadership, order(true), Instant::now()).await, Outcome::Done);
    assert_eq!(written().await, 1);
}

#[tokio::test]
async fn refusal_stays_known_while_nothing_is_tried() {
    let (_, leadership) = leads().await;
    let (subject, other) = (Subject::Upgrade("u1".parse().unwrap()), Subject::Fleet);
    let why = || refused("the next phase".to_owned(), &"it is too large");
    leadership.keep_refused([(subject.clone(), why()), (other.clone(), why())].into(), &BTreeSet::new());
    leadership.keep_refused(BTreeMap::new(), &[subject.clone()].into());
    assert!(leadership.refused(&subject).is_some(), "its move was withheld");
    assert!(leadership.refused(&other).is_none(), "it was tried, and is done");
    leadership.keep_refused(BTreeMap::new(), &BTreeSet::new());
    assert!(leadership.refused(&subject).is_none());
}
