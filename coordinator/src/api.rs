//! What machines ask over HTTP: is it alive, can it do its work, what does it count; compute releases and metadata groups.

pub mod metadata;
mod problem;
pub mod releases;
pub mod start;

use crate::daemon::with_grace;
use crate::door::{Listener, Peer};
use crate::grpc::{MetadataService, ReleasesService};
use crate::guard::{self, Guard};
use crate::room::Room;
use anyhow::{Context, Result};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use std::future::IntoFuture;
use tokio_util::sync::CancellationToken;

/// Serves the routes until `shutdown`.
pub async fn serve(listener: Listener, router: Router, shutdown: CancellationToken) -> Result<()> {
    let service = router.into_make_service_with_connect_info::<Peer>();
    let ended = with_grace(shutdown, |stop| {
        axum::serve(listener, service).with_graceful_shutdown(stop).into_future()
    })
    .await;
    ended.unwrap_or(Ok(())).context("HTTP is no longer served")
}

/// The routes in a room, behind the guard: each is in its table, or needs everything. One asks the guard itself.
pub fn router(room: Room, releases: ReleasesService, metadata: MetadataService, guard: Guard) -> Router {
    let start = start::route(room.clone(), guard.clone());
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(room)
        .merge(releases::routes(releases))
        .merge(metadata::routes(metadata))
        .layer(middleware::from_fn_with_state(guard, guard::http))
        .merge(start)
}

/// It runs: that is all.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether it sees the store and somebody leads; if not, why.
async fn readyz(State(room): State<Room>) -> Response {
    let trouble = room.trouble();
    let status = if trouble.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let leader = room.mirror.picture().leader.as_ref().map(|leader| leader.address.clone());
    let body = json!({
        "ready": trouble.is_none(),
        "trouble": trouble,
        "leads": room.led_here().is_some(),
        "leader": leader,
        "revision": room.mirror.picture().fleet.revision().0,
    });
    (status, Json(body)).into_response()
}

async fn metrics(State(room): State<Room>) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    match room.metrics.text(&room.mirror.picture()) {
        Ok(text) => (kind, text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("could not write the counts: {error}\n"))
            .into_response(),
    }
}
