//! Connections of both doors: plain ones as they come; those over TLS when their handshake is done. Handshakes go on
//! beside each other and with a limit, so that a caller that never finishes one holds nobody up.

use super::tls::Config;
use super::{Peer, Shown};
use axum::extract::connect_info;
use axum::serve::IncomingStream;
use futures::Stream;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tonic::transport::server::Connected;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How many may be under way; more wait in the kernel.
const AT_ONCE: usize = 64;

/// A connection, and who is at its other end.
pub struct Wire {
    io: Either<TcpStream, TlsStream<TcpStream>>,
    peer: Peer,
}

/// A bound socket.
pub struct Listener {
    addr: SocketAddr,
    from: Source,
}

enum Source {
    Plain(TcpListener),
    Tls(mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>),
}

impl Listener {
    /// Takes connections of a bound socket, over TLS where there is a configuration of it.
    ///
    /// # Errors
    /// When the socket does not tell its address.
    pub fn new(tcp: TcpListener, tls: Option<Config>) -> io::Result<Self> {
        let addr = tcp.local_addr()?;
        let from = match tls {
            None => Source::Plain(tcp),
            Some(config) => {
                let (shaken, ready) = mpsc::channel(AT_ONCE);
                tokio::spawn(shake_hands(tcp, config, shaken));
                Source::Tls(ready)
            }
        };
        Ok(Self { addr, from })
    }

    async fn next(&mut self) -> Wire {
        match &mut self.from {
            Source::Plain(tcp) => {
                let (stream, address) = axum::serve::Listener::accept(tcp).await;
                without_delay(&stream);
                Wire { io: Either::Left(stream), peer: Peer { address, shown: Shown::Nothing } }
            }
            Source::Tls(ready) => match ready.recv().await {
                Some((stream, address)) => {
                    without_delay(stream.get_ref().0);
                    let shown = Shown::of(stream.get_ref().1.peer_certificates());
                    Wire { io: Either::Right(stream), peer: Peer { address, shown } }
                }
                None => std::future::pending().await,
            },
        }
    }

    /// Its connections, as gRPC takes them.
    pub fn incoming(self) -> impl Stream<Item = io::Result<Wire>> + Send {
        futures::stream::unfold(
            self,
            |mut listener| async move { Some((Ok(listener.next().await), listener)) },
        )
    }
}

/// Small answers are sent at once; where that cannot be had, they come all the same.
fn without_delay(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
}

async fn shake_hands(
    tcp: TcpListener,
    config: Config,
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
        // The one of now: certificates are renewed while connections last.
        let (tls, shaken) = (TlsAcceptor::from(config.borrow().clone()), shaken.clone());
        tokio::spawn(async move {
            let _permit = permit;
            match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                // Nobody listens any more: the connection ends with that.
                Ok(Ok(stream)) => drop(shaken.send((stream, from)).await),
                Ok(Err(error)) => tracing::debug!(%from, %error, "a TLS handshake did not succeed"),
                Err(_) => tracing::debug!(%from, "a TLS handshake was not finished in time"),
            }
        });
    }
}

impl axum::serve::Listener for Listener {
    type Io = Wire;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Wire, SocketAddr) {
        let wire = self.next().await;
        let address = wire.peer.address;
        (wire, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.addr)
    }
}

impl connect_info::Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        stream.io().peer.clone()
    }
}

impl Connected for Wire {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
