//! What machines ask over HTTP: is it alive, can it do its work, what does it count; and every rpc.

mod etag;
mod given;
mod openapi;
mod rpc;
pub mod start;

use crate::context::Context;
use crate::door::listen::GRACE;
use crate::door::{Listener, Wire};
use crate::guard::{self, Guard};
use anyhow::Result;
use axum::extract::{ConnectInfo, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::pin::pin;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tower::ServiceExt;

/// How long a caller may take to send the head of a request, and how long a connection may rest between two.
const HEAD_TIME: Duration = Duration::from_secs(15);

/// Serves the routes until `shutdown`.
///
/// # Errors
/// None at present; the signature is that of every door.
pub async fn serve(listener: Listener, router: Router, shutdown: CancellationToken) -> Result<()> {
    let mut connections = listener.connections();
    // Dropped, it ends what has not ended within the grace.
    let mut open = JoinSet::new();
    loop {
        let wire = tokio::select! {
            () = shutdown.cancelled() => break,
            wire = connections.next() => wire,
            Some(_) = open.join_next() => continue,
        };
        open.spawn(connection(wire, router.clone(), shutdown.clone()));
    }
    let _ = tokio::time::timeout(GRACE, async { while open.join_next().await.is_some() {} }).await;
    Ok(())
}

/// One connection, to its end.
async fn connection(wire: Wire, router: Router, shutdown: CancellationToken) {
    let peer = ConnectInfo(wire.peer().clone());
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        router.clone().oneshot(request)
    });
    let mut served = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .serve_connection(TokioIo::new(wire), service)
    );
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = shutdown.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended by an error");
    }
}

/// The routes, behind the guard: each is in its table, or needs everything. One asks the guard itself.
pub fn router(context: Context, services: Routes, guard: Guard) -> Router {
    let start = start::route(context.clone(), guard.clone());
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(context)
        .merge(rpcs(services))
        // Only routes that have a handler are guarded: 404 and 405 need no token.
        .route_layer(middleware::from_fn_with_state(guard, guard::http))
        .merge(start)
        .fallback(given::no_route)
        .method_not_allowed_fallback(given::no_method)
}

/// Every rpc, and the descriptions, without the guard that says of each call who calls.
pub fn rpcs(services: Routes) -> Router {
    rpc::routes(services).merge(openapi::routes())
}

/// It runs: that is all.
async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether it sees the store and a leader exists; if not, why.
async fn readyz(State(context): State<Context>) -> Response {
    let trouble = context.trouble();
    let status = if trouble.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let leader = context.mirror.view().leader.as_ref().map(|leader| leader.address.clone());
    let body = json!({
        "ready": trouble.is_none(),
        "trouble": trouble,
        "leads": context.led_here().is_some(),
        "leader": leader,
        "revision": context.mirror.view().fleet.revision().0,
    });
    (status, Json(body)).into_response()
}

async fn metrics(State(context): State<Context>) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    match context.metrics.text(&context.mirror.view()) {
        Ok(text) => (kind, text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("could not write the counts: {error}\n"))
            .into_response(),
    }
}
