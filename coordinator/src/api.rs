//! What machines ask over HTTP: is it alive, can it do its work, what does it count.

mod tls;

pub use tls::TlsListener;

use crate::daemon::{Identity, with_grace};
use crate::grpc::Token;
use crate::room::Room;
use anyhow::{Context, Result};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::future::Either;
use serde_json::json;
use std::future::IntoFuture;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves the routes until `shutdown`, over TLS where there is a certificate.
pub fn serve(
    listener: TcpListener,
    router: Router,
    identity: Option<&Identity>,
    shutdown: CancellationToken,
) -> Result<impl Future<Output = Result<()>> + use<>> {
    let tls = match identity {
        Some(identity) => Either::Left(TlsListener::new(listener, &identity.cert, &identity.key)?),
        None => Either::Right(listener),
    };
    Ok(async move {
        let ended = match tls {
            Either::Left(tls) => {
                with_grace(shutdown, |stop| {
                    axum::serve(tls, router).with_graceful_shutdown(stop).into_future()
                })
                .await
            }
            Either::Right(tcp) => {
                with_grace(shutdown, |stop| {
                    axum::serve(tcp, router).with_graceful_shutdown(stop).into_future()
                })
                .await
            }
        };
        ended.unwrap_or(Ok(())).context("HTTP is no longer served")
    })
}

/// The routes in a room; `/metrics` asks for `token`, where there is one.
pub fn router(room: Room, token: Option<Token>) -> Router {
    let counts = Router::new().route("/metrics", get(metrics));
    let counts = match token {
        Some(token) => counts.layer(middleware::from_fn_with_state(token, guard)),
        None => counts,
    };
    Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz)).merge(counts).with_state(room)
}

async fn guard(State(token): State<Token>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if token.check_header(given) {
        next.run(request).await
    } else {
        (StatusCode::UNAUTHORIZED, "a bearer token is needed\n").into_response()
    }
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
