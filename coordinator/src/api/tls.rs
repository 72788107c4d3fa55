//! HTTP over TLS: handshakes beside each other and with a limit, so that a caller that never finishes one holds
//! nobody up.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How many may be under way; more wait in the kernel.
const AT_ONCE: usize = 64;

/// A certificate and key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the TLS certificate and key cannot be used: {0}")]
pub struct Unusable(String);

/// A listener whose connections have finished their handshake.
pub struct TlsListener {
    addr: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl TlsListener {
    /// Speaks TLS on a bound socket.
    pub fn new(tcp: TcpListener, cert: &[u8], key: &[u8]) -> Result<Self, Unusable> {
        let unusable = |e: &dyn std::fmt::Display| Unusable(e.to_string());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(cert).collect();
        let chain = chain.map_err(|e| unusable(&e))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| unusable(&e))?;
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|e| unusable(&e))?;
        let addr = tcp.local_addr().map_err(|e| unusable(&e))?;
        let (shaken, ready) = mpsc::channel(AT_ONCE);
        tokio::spawn(accept(tcp, TlsAcceptor::from(Arc::new(config)), shaken));
        Ok(Self { addr, ready })
    }
}

async fn accept(
    tcp: TcpListener,
    tls: TlsAcceptor,
    shaken: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        let accepted = tokio::select! {
            () = shaken.closed() => return,
            accepted = tcp.accept() => accepted,
        };
        let Ok((stream, from)) = accepted else {
            // Out of descriptors: the next attempt after a moment.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (tls, shaken) = (tls.clone(), shaken.clone());
        tokio::spawn(async move {
            let _permit = permit;
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                // Nobody listens any more: the connection ends with that.
                let _ = shaken.send((stream, from)).await;
            }
        });
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(next) => next,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.addr)
    }
}
