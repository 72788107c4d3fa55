//! Health checks served by the agent: by the disable-file, as OpenStack's middleware answers, and HAProxy's agent-check.

pub(crate) mod agent_check;
pub(crate) mod negotiate;
pub(crate) mod verdict;

use crate::config::Node;
use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use axum::routing::any;
use std::path::PathBuf;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Binds every socket that the configuration asks for, then answers on them until `cancel`.
pub(crate) async fn serve(node: &Node, cancel: &CancellationToken) -> anyhow::Result<JoinSet<()>> {
    let mut servers = JoinSet::new();
    for service in node.services.values() {
        let Some(asked) = &service.healthcheck else { continue };
        let own = asked.listen.iter().map(|listen| (*listen, service.disable_file.clone()));
        let further = asked.files.iter().map(|(listen, file)| (*listen, file.0.clone()));
        for (listen, file) in own.chain(further) {
            let listener = bind(listen, service.name.as_str()).await?;
            let ended = cancel.clone().cancelled_owned();
            servers.spawn(async move {
                let router = router(file);
                if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(ended).await {
                    tracing::error!(%listen, %error, "the health check ended");
                }
            });
        }
        if let Some(listen) = asked.agent_check {
            let listener = bind(listen, service.name.as_str()).await?;
            servers.spawn(agent_check::serve(listener, service.clone(), cancel.clone()));
        }
    }
    Ok(servers)
}

async fn bind(listen: std::net::SocketAddr, service: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(listen)
        .await
        .with_context(|| format!("could not listen on {listen} for the health check of {service}"))
}

fn router(file: PathBuf) -> Router {
    Router::new().route("/healthcheck", any(answer)).with_state(file)
}

async fn answer(State(file): State<PathBuf>, method: Method, headers: HeaderMap) -> Response {
    // A file that cannot be looked at counts as absent, as it does for the middleware.
    let disabled = file.exists();
    verdict::answer(disabled, &method, &headers)
}
