//! A proxy that sends each transaction twice, and passes on the answer to the second one.

use crate::world::{budget, budget_key, term};
use etcd_client::{Channel, Client};
use http_body_util::{BodyExt, Full};
use std::time::Duration;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::key::{EventSeq, Subject};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::event::Event;
use tidegate_proto::{Commit, Key, Precondition, Prefix, Revision};
use tidegate_store::{CommitError, Scope, Store};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt};

type Request = tonic::codegen::http::Request<Body>;

async fn over_a_proxy(embedded: &Embedded) -> Store {
    let Channel::Custom(inner) = embedded.channel() else { panic!("it is reached in process") };
    let proxy = tower::service_fn(move |request: Request| {
        let inner = inner.clone();
        async move {
            if !request.uri().path().ends_with("/Txn") {
                return inner.oneshot(request).await;
            }
            let (head, body) = request.into_parts();
            let message = body.collect().await?.to_bytes();
            let again = || Request::from_parts(head.clone(), Body::new(Full::new(message.clone())));
            let first: Result<_, BoxError> = inner.clone().oneshot(again()).await;
            first?;
            inner.oneshot(again()).await
        }
    });
    let channel = Channel::Custom(BoxCloneSyncService::new(proxy));
    Store::over(Client::from_channel(channel, None).await.unwrap(), Prefix::default())
}

fn event(number: u64) -> (Key, Event) {
    let event = Event {
        from: "roll".to_owned(),
        to: "paused".to_owned(),
        because: "lunch".to_owned(),
        who: "op".to_owned(),
        at: Timestamp(0),
    };
    (Key::Event(Subject::Fleet, EventSeq { term: 1, number }), event)
}

#[tokio::test]
async fn commit_that_arrives_twice_is_carried_out_once() {
    let embedded = Embedded::in_memory();
    let store = over_a_proxy(&embedded).await;
    let absent = |key: &Key| Precondition::At(key.clone(), Revision::ABSENT);
    let (key, body) = event(1);
    let commit =
        Commit::new().when(absent(&budget_key("a"))).put(budget_key("a"), budget(1)).put(key.clone(), body);
    let done = store.commit(&commit).await.unwrap();
    let written = store.list(&Scope::Key(budget_key("a"))).await.unwrap().entries;
    assert_eq!(written[0].mod_revision, done.revision, "the revision of the first time");

    let (other, body) = event(2);
    let late = Commit::new().when(absent(&budget_key("a"))).put(budget_key("a"), budget(2)).put(other, body);
    let conflict = store.commit(&late).await.unwrap_err();
    assert!(matches!(conflict, CommitError::Conflict { .. }), "neither was carried out: {conflict:?}");
    let (_, same) = event(1);
    let again = Commit::new().when(absent(&budget_key("a"))).put(budget_key("a"), budget(3)).put(key, same);
    let conflict = store.commit(&again).await.unwrap_err();
    assert!(
        matches!(conflict, CommitError::Conflict { .. }),
        "its event was there before it was sent: {conflict:?}"
    );
}

#[tokio::test]
async fn leader_whose_claim_arrives_twice_leads() {
    let embedded = Embedded::in_memory();
    let store = over_a_proxy(&embedded).await;
    let campaign = store.campaign(term("t"), "a:1".into(), Duration::from_secs(2), CancellationToken::new());
    let leader =
        tokio::time::timeout(Duration::from_secs(20), campaign).await.expect("no other one leads").unwrap();
    let commit = Commit::new().put(budget_key("a"), budget(1));
    leader.writes().commit(&commit).await.unwrap();
}
