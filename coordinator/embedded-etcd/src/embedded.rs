//! The handle on an embedded store: open it, talk to it in process, serve it, close it.

use std::{convert::Infallible, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use etcd_client::{Channel, Client};
use futures::Stream;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tonic::{
    body::Body,
    codegen::http,
    transport::server::{Connected, Server, TcpIncoming},
};
use tower::{ServiceExt, util::BoxCloneSyncService};

use crate::{
    disk::Disk,
    durable::Durable,
    engine::Engine,
    error::OpenError,
    expiry,
    identity::Identity,
    kv::{FIRST_REVISION, Kv},
    lease::Leases,
    retention, server,
};

/// Streams of one connection. HTTP/2 servers default to 200, which a client with many watches exceeds.
const MAX_STREAMS: u32 = 100_000;

/// How often a silent connection is asked whether it still lives, and how long it may take to answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// How long connections may take to end after a shutdown, before they are dropped.
const GRACE: Duration = Duration::from_secs(2);

/// An open embedded store. Clones are handles on the same store; it ends with [`Embedded::close`], or when the last
/// handle, client and server of it are dropped.
///
/// Every answer that a client gets, to a read too, is durable: no crash takes back what was seen.
#[derive(Debug, Clone)]
pub struct Embedded {
    engine: Arc<Engine>,
    /// Largest request that changes keys, in bytes.
    max_request: usize,
}

/// Why a store could not be served over TCP any more.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener has no address.
    #[error("could not read the address that the store is served at")]
    Address {
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The server ended by an error.
    #[error("could not go on serving the store at {address}")]
    Transport {
        /// Where it was served.
        address: std::net::SocketAddr,
        /// What the server said.
        #[source]
        source: tonic::transport::Error,
    },
}

impl Embedded {
    /// Opens the store in `dir`, or makes it, and locks it. `holder` is reported to a second opener besides this
    /// process' id: the advertised address, say. All leases restart with their whole TTL.
    ///
    /// # Errors
    /// [`OpenError::Lock`] if the store is open already, here or in another process; others if the directory or the
    /// file cannot be made, read or understood.
    pub async fn open(dir: &Path, holder: &str) -> Result<Self, OpenError> {
        let (disk, loaded, durable) = Disk::open(dir, holder).await?;
        let leases = restore_leases(&loaded.kv, &loaded.leases);
        let engine = Arc::new(Engine::new(loaded.kv, leases, loaded.identity, durable, Some(disk)));
        expiry::ensure_running(&engine);
        retention::begin(&engine);
        Ok(Self::of(engine))
    }

    /// A store with nothing on disk, for tests and simulation. It starts no thread and keeps to tokio's time, also when
    /// that is paused. A jump of paused time by more than two seconds at once looks to it like a stall of the process,
    /// after which all leases restart: sleep through such spans instead.
    pub fn in_memory() -> Self {
        let identity = Identity { cluster: rand::random(), member: rand::random(), term: 1 };
        let durable = Arc::new(Durable::new(FIRST_REVISION));
        Self::of(Arc::new(Engine::new(Kv::default(), Leases::default(), identity, durable, None)))
    }

    fn of(engine: Arc<Engine>) -> Self {
        Self { engine, max_request: server::MAX_REQUEST }
    }

    /// The same store, whose clients and servers from now on refuse requests to change keys that are larger than this, in
    /// bytes, as etcd does with `--max-request-bytes`. Without it the limit is etcd's default, 1.5 MiB.
    #[must_use]
    pub fn with_max_request(self, bytes: usize) -> Self {
        Self { max_request: bytes, ..self }
    }

    /// A store of its own in memory that holds what this one holds now, as one that is restored from a snapshot does: the
    /// revision is that of the snapshot, and every lease has its whole TTL. Its limits are the same.
    pub fn restored_in_memory(&self) -> Self {
        let (kv, ttls) = self.engine.peek(|state| (state.kv.clone(), state.leases.ttls()));
        let leases = restore_leases(&kv, &ttls);
        let durable = Arc::new(Durable::new(kv.revision()));
        let engine = Engine::new(kv, leases, self.engine.identity(), durable, None);
        Self { engine: Arc::new(engine), max_request: self.max_request }
    }

    /// Whether both are handles on the same store.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.engine, &other.engine)
    }

    #[cfg(test)]
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// A client that talks to this store in process, without a socket. Each client lives on without this handle.
    ///
    /// # Errors
    /// None in practice; the signature is that of connecting to any etcd.
    pub async fn client(&self) -> Result<Client, etcd_client::Error> {
        Client::from_channel(self.channel(), None).await
    }

    /// What such a client talks over, for a test that puts something in between.
    pub fn channel(&self) -> Channel {
        expiry::ensure_running(&self.engine);
        let routes =
            server::routes(self.engine.clone(), self.max_request, self.engine.closed().child_token());
        let service = ServiceExt::<http::Request<Body>>::map_err(routes, |never: Infallible| match never {});
        Channel::Custom(BoxCloneSyncService::new(service))
    }

    /// Serves the store on `listener` until `shutdown`, or until it is closed; then its streams end, and connections
    /// have two seconds to do so. Several servers at once are fine.
    ///
    /// # Errors
    /// [`ServeError`] if the listener is unusable or the server ends by an error.
    pub async fn serve(&self, listener: TcpListener, shutdown: CancellationToken) -> Result<(), ServeError> {
        let address = listener.local_addr().map_err(|source| ServeError::Address { source })?;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        self.serve_each(address, incoming, shutdown).await
    }

    /// The same over connections to `address` that are accepted elsewhere, where they may be limited in number. Each is
    /// pinged every 30 s, so that a live one is never silent for longer.
    ///
    /// # Errors
    /// [`ServeError::Transport`] if the server ends by an error.
    pub async fn serve_each<C>(
        &self,
        address: SocketAddr,
        incoming: impl Stream<Item = std::io::Result<C>>,
        shutdown: CancellationToken,
    ) -> Result<(), ServeError>
    where
        C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let stop = self.engine.closed().child_token();
        let routes = server::routes(self.engine.clone(), self.max_request, stop.clone());
        expiry::ensure_running(&self.engine);
        let ended = async {
            tokio::select! {
                () = shutdown.cancelled() => stop.cancel(),
                () = stop.cancelled() => {}
            }
        };
        let serving = Server::builder()
            .max_concurrent_streams(MAX_STREAMS)
            .http2_keepalive_interval(Some(PING_EVERY))
            .http2_keepalive_timeout(Some(PING_TIMEOUT))
            .add_routes(routes)
            .serve_with_incoming_shutdown(incoming, ended);
        let overdue = async {
            stop.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        let url = format!("http://{address}");
        self.engine.note_served_at(|urls| urls.push(url.clone()));
        let served = tokio::select! {
            served = serving => served,
            () = overdue => Ok(()),
        };
        self.engine.note_served_at(|urls| urls.retain(|other| *other != url));
        stop.cancel();
        served.map_err(|source| ServeError::Transport { address, source })
    }

    /// Waits until the store can answer nothing any more, though it was not closed; why. A full disk is no such end: the
    /// store goes on when there is space.
    pub async fn broken(&self) -> String {
        let why = self.engine.durable().ended().await;
        if self.engine.closed().is_cancelled() {
            // The thread that writes ends with the store.
            std::future::pending::<()>().await;
        }
        why.to_string()
    }

    /// Closes the store: later requests are refused, streams and servers end, everything accepted is written, the
    /// file is closed and the directory unlocked. Doing it again does nothing.
    pub async fn close(&self) {
        self.engine.close().await;
    }
}

/// Every lease with a whole TTL from now on, and the keys that hang on it.
fn restore_leases(kv: &Kv, stored: &[(i64, i64)]) -> Leases {
    let now = Instant::now();
    let mut leases = Leases::default();
    for &(id, ttl) in stored {
        if leases.grant(id, ttl, now).is_err() {
            tracing::warn!(lease = id, ttl, "left out a lease of the store's file that cannot be");
        }
    }
    let everything = crate::kv::KeyRange::new(b"\0", b"\0");
    for kv in kv.live(&everything) {
        leases.move_key(&kv.key, 0, kv.lease);
    }
    leases
}
