//! The balancer as a process: listens, checks, passes on, and ends in good order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::balancer::check::{CheckPlan, keep_checking};
use crate::balancer::health::Thresholds;
use crate::balancer::proxy::pass_on;
use crate::balancer::server::{ServerAddress, Servers};
use crate::balancer::stats_socket::{self, Reported};

/// A client may take so long to send its request's head.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// At the end, requests in flight may take so long.
const LAST_REQUESTS_LIMIT: Duration = Duration::from_secs(10);

/// The balancer's configuration; all of it was parsed at the border.
#[derive(Debug, Clone)]
pub struct BalancerOptions {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where it reports its servers' state.
    pub stats_socket: PathBuf,
    /// How it checks.
    pub check: CheckPlan,
    /// How it counts checks.
    pub thresholds: Thresholds,
    /// Where requests may go.
    pub servers: Vec<ServerAddress>,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When an address or the socket cannot be had.
pub async fn run(options: BalancerOptions) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for SIGINT")?;
    let listener = TcpListener::bind(options.listen)
        .await
        .with_context(|| format!("could not listen on {}", options.listen))?;
    let (socket, _socket_file) = stats_socket::bind(&options.stats_socket)
        .with_context(|| format!("could not make the stats socket {}", options.stats_socket.display()))?;
    let servers = Arc::new(Servers::new(options.servers, options.thresholds));
    let mut tasks = JoinSet::new();
    for server in servers.all() {
        tasks.spawn(keep_checking(Arc::clone(server), options.check.clone()));
    }
    let reported = Reported { servers: Arc::clone(&servers), thresholds: options.thresholds };
    tasks.spawn(stats_socket::answer(socket, reported));
    let (connections, ending) = (TaskTracker::new(), CancellationToken::new());
    tracing::info!(listen = %options.listen, servers = servers.all().len(), "balancing");
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    connections.spawn(attend(stream, from, Arc::clone(&servers), ending.clone()));
                }
                Err(e) => {
                    // Out of descriptors, most likely: a moment later there may be some.
                    tracing::warn!(error = %e, "could not accept");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            },
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    drop(listener);
    ending.cancel();
    connections.close();
    if tokio::time::timeout(LAST_REQUESTS_LIMIT, connections.wait()).await.is_err() {
        tracing::warn!("requests were still in flight at the end");
    }
    Ok(())
}

async fn attend(stream: TcpStream, from: SocketAddr, servers: Arc<Servers>, ending: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| pass_on(request, from, Arc::clone(&servers)));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = ending.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(e) = ended {
        tracing::debug!(error = %e, "a client's connection ended");
    }
}
