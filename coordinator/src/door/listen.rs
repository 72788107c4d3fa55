//! Sockets: bound before anything runs, closed with a limit.

use anyhow::{Context as _, Result};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// How long calls that are under way may take to end; a watch of an operator would last for hours.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// Binds a socket, or says which flag asked for it.
pub(crate) async fn bind(flag: &str, addr: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(addr).await.with_context(|| format!("could not listen on {flag} {addr}"))
}

/// Serves until `shutdown`, then for [`GRACE`] at most; none = it was cut off.
pub(crate) async fn with_grace<T, F: Future<Output = T>>(
    shutdown: CancellationToken,
    serve: impl FnOnce(futures::future::BoxFuture<'static, ()>) -> F,
) -> Option<T> {
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = serve(Box::pin(async move {
        // A dropped sender asks for the same.
        let _ = stopped.await;
    }));
    let late = async move {
        shutdown.cancelled().await;
        let _ = stop.send(());
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        ended = serving => Some(ended),
        () = late => None,
    }
}
