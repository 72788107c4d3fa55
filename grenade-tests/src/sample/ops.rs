//! What an operator's tools ask: health, readiness, version, requests in flight. Never touches the catalogue.

use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use serde_json::json;

use crate::sample::edition::Edition;
use crate::sample::in_flight::InFlight;

/// Whether the service may take requests, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It may.
    Ready,
    /// Not yet, or never; in a sentence.
    NotReady(String),
}

/// What the ops endpoints know.
#[derive(Debug, Clone)]
pub struct Ops {
    /// Which version this is.
    pub edition: &'static Edition,
    /// The file whose presence takes the instance out of rotation.
    pub disable_file: PathBuf,
    /// Catalogue requests in flight.
    pub in_flight: InFlight,
    /// Set by the start-up, read by every handler.
    pub readiness: Arc<RwLock<Readiness>>,
}

impl Ops {
    /// What holds now.
    pub fn readiness(&self) -> Readiness {
        match self.readiness.read() {
            Ok(readiness) => readiness.clone(),
            Err(_) => Readiness::NotReady("its readiness was lost to a panic".to_owned()),
        }
    }

    /// States what holds from now on.
    pub fn set(&self, readiness: Readiness) {
        if let Ok(mut slot) = self.readiness.write() {
            *slot = readiness;
        }
    }
}

/// The ops routes.
pub fn routes(ops: Ops) -> Router {
    Router::new()
        .route("/healthcheck", get(health))
        .route("/ready", get(ready))
        .route("/version", get(version))
        .route("/in-flight", get(in_flight))
        .with_state(ops)
}

/// oslo's health check: 503 `DISABLED BY FILE` while the file is there; and never OK before the service is ready.
///
/// A file that cannot be looked for counts as there: the check must not fail open.
async fn health(State(ops): State<Ops>) -> Response {
    match tokio::fs::try_exists(&ops.disable_file).await {
        Ok(true) => (StatusCode::SERVICE_UNAVAILABLE, "DISABLED BY FILE").into_response(),
        Err(e) => {
            let text = format!("DISABLED: the disable-file cannot be looked for: {e}");
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
        Ok(false) => match ops.readiness() {
            Readiness::Ready => (StatusCode::OK, "OK").into_response(),
            Readiness::NotReady(why) => {
                (StatusCode::SERVICE_UNAVAILABLE, format!("NOT READY: {why}")).into_response()
            }
        },
    }
}

async fn ready(State(ops): State<Ops>) -> Response {
    match ops.readiness() {
        Readiness::Ready => (StatusCode::OK, Json(json!({"ready": true}))).into_response(),
        Readiness::NotReady(why) => {
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"ready": false, "reason": why}))).into_response()
        }
    }
}

async fn version(State(ops): State<Ops>) -> Json<serde_json::Value> {
    Json(json!({"service": "pantry-api", "version": ops.edition.version, "release": ops.edition.release}))
}

async fn in_flight(State(ops): State<Ops>) -> Json<serde_json::Value> {
    Json(json!({"in_flight": ops.in_flight.count()}))
}
