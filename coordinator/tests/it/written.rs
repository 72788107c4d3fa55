//! What the answer to a request about a release says after its commit.

use crate::releases::door;
use crate::world::store;
use axum::http::StatusCode;
use serde_json::json;
use tidegate_coordinator::operation;
use tidegate_proto::wire::v1::PinComputeRequest;
use tidegate_proto::{Commit, Digest, Key, ReleaseRevision};

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

    let seat = coordinator.room.led_here().unwrap();
    let asked = PinComputeRequest { compute: "ep-1".into(), revision: 1, ..pin_by_hand() };
    let pinned = operation::release::pin(&coordinator.room, &seat, asked).await.unwrap();
    assert!(pinned.changed && pinned.release.contains("release-1"), "{pinned:?}");
    assert!(pinned.warnings[0].contains("no revision 1") && pinned.warnings[1].contains("is missing"));
    let is_pinned = || coordinator.room.mirror.picture().fleet.streams().any(|(_, s)| !s.pins.is_empty());
    assert!(is_pinned(), "it was made");

    let back = door.post("/rollback", &json!({ "revision": 2 })).await;
    assert_eq!(back.status, StatusCode::CONFLICT, "nothing was changed, so it is an error: {}", back.body);
    coordinator.stop().await;
}
