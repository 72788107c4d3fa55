//! Sockets: bound before anything runs, closed with a limit.

use crate::config::Settings;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tonic::transport::ServerTlsConfig;

/// How long calls that are under way may take to end; a watch of an operator would last for hours.
const GRACE: Duration = Duration::from_millis(500);

/// Binds a socket, or says which flag asked for it.
pub async fn bind(flag: &str, addr: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(addr).await.with_context(|| format!("could not listen on {flag} {addr}"))
}

/// Certificate and key of this coordinator.
pub struct Identity {
    /// PEM.
    pub cert: Vec<u8>,
    /// PEM.
    pub key: Vec<u8>,
}

impl Identity {
    /// Reads them, where they are configured.
    pub fn read(settings: &Settings) -> Result<Option<Self>> {
        let (Some(cert), Some(key)) = (&settings.tls_cert, &settings.tls_key) else { return Ok(None) };
        let read =
            |path: &Path| std::fs::read(path).with_context(|| format!("could not read {}", path.display()));
        Ok(Some(Self { cert: read(cert)?, key: read(key)? }))
    }

    /// As tonic wants them.
    pub fn for_grpc(&self) -> ServerTlsConfig {
        ServerTlsConfig::new().identity(tonic::transport::Identity::from_pem(&self.cert, &self.key))
    }
}

/// Serves until `shutdown`, then for [`GRACE`] at most; none = it was cut off.
pub async fn with_grace<T, F: Future<Output = T>>(
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
