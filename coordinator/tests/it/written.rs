//! What the answer to a request about a release says after its commit, and when nothing had to be committed.

use crate::releases::door;
use crate::world::{LIMIT, context, store};
use axum::http::StatusCode;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tidegate_coordinator::leadership::Leadership;
use tidegate_coordinator::operation::{self, OperationError};
use tidegate_coordinator::report::Mirror;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::wire::v1::{CreateReleaseRequest, PinComputeRequest};
use tidegate_proto::{Commit, Digest, Key, ReleaseRevision};
use tidegate_store::Reader;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

fn manifest() -> serde_json::Value {
    json!({ "pg_settings": {} })
}

fn pin_by_hand() -> PinComputeRequest {
    PinComputeRequest { who: "op".into(), why: "it fared badly".into(), ..PinComputeRequest::default() }
}

#[tokio::test]
async fn change_that_cannot_be_read_back_is_answered_as_made() {
    let (embedded, coordinator, door) = door().await;
    door.create(1).await;
    door.create(2).await;
    door.becomes(&coordinator, 2, "deployed").await;
    let manifest = Digest::of(tidegate_proto::compute::canonical(&manifest()).as_bytes());
    let first = Key::Release("compute".parse().unwrap(), ReleaseRevision::new(1).unwrap());
    let lost = Commit::new().delete(Key::Manifest(manifest)).delete(first);
    store(&embedded).await.commit(&lost).await.unwrap();

    let leadership = coordinator.context.led_here().unwrap();
    let asked = PinComputeRequest { compute: "ep-1".into(), revision: 1, ..pin_by_hand() };
    let pinned = operation::release::pin_compute(&coordinator.context, &leadership, asked).await.unwrap();
    assert!(pinned.changed && pinned.release.contains("release-1"), "{pinned:?}");
    assert!(pinned.warnings[0].contains("no revision 1") && pinned.warnings[1].contains("is missing"));
    let is_pinned = || coordinator.context.mirror.view().fleet.streams().any(|(_, s)| !s.pins.is_empty());
    assert!(is_pinned(), "it was made");

    let back = door.post("/rollback", &json!({ "revision": 2 })).await;
    assert_eq!(back.status, StatusCode::CONFLICT, "nothing was changed, so it is an error: {}", back.body);
    coordinator.stop().await;
}

#[tokio::test]
async fn deposed_leader_does_not_answer_that_it_is_so_already() {
    let embedded = Embedded::in_memory();
    let (mirror, follows) = (Mirror::with_report_grace(Duration::ZERO), CancellationToken::new());
    let store = store(&embedded).await;
    tokio::spawn(Arc::clone(&mirror).follow(Reader::clone(&store), follows.clone()));
    let context = context(Reader::clone(&store), mirror, watch::channel(None).1, "http://one.invalid:7400");
    let campaign = store.campaign("t1".parse().unwrap(), "one".into(), LIMIT, CancellationToken::new());
    let leadership = Leadership::new(campaign.await.unwrap(), Arc::clone(&context.metrics));
    let body = json!({ "version": 1, "tag": "release-1", "manifest": manifest() }).to_string();
    let asked = CreateReleaseRequest { body, who: "ci".into(), ..CreateReleaseRequest::default() };
    let created = operation::release::create_release(&context, &leadership, asked.clone()).await.unwrap();
    assert!(created.changed);
    let again = operation::release::create_release(&context, &leadership, asked.clone()).await.unwrap();
    assert_eq!((again.changed, again.revision), (false, 1));
    // From here on it sees nothing more, and another leads.
    follows.cancel();
    store.commit(&Commit::new().delete(Key::Leader)).await.unwrap();
    let answer = operation::release::create_release(&context, &leadership, asked).await;
    let Err(OperationError::Unavailable(why)) = answer else { panic!("{answer:?}") };
    assert!(why.contains("lost the leadership"), "{why}");
}
