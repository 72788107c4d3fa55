//! Connections of both listeners: plain ones as they come; those over TLS when their handshake is done. Handshakes run
//! concurrently and with a limit, so that a caller that never finishes one delays no other. The number of connections
//! per listener is limited too.

use super::connections::{self, ConnectionLimit, Place};
use super::tls::Config;
use super::{Peer, Shown};
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

/// A connection whose other end said something within this time is in use: no call over HTTP/1.1 takes longer.
const IN_USE: Duration = Duration::from_secs(15);

/// How often the other end of an HTTP/2 connection is asked whether it is there: a live one moves as often.
pub const PING: Duration = Duration::from_secs(15);

/// The same of HTTP/2, where a watch may be silent for hours but for its pings.
const IN_USE_WITH_PINGS: Duration = Duration::from_secs(45);

/// A connection, and who is at its other end.
pub struct Wire {
    io: Either<TcpStream, TlsStream<TcpStream>>,
    peer: Peer,
    place: Place,
}

/// A bound socket.
pub struct Listener {
    tcp: TcpListener,
    tls: Option<Config>,
}

/// Connections as they come.
pub struct Connections(Source);

enum Source {
    Plain(TcpListener, ConnectionLimit),
    Tls(mpsc::Receiver<TlsConnection>),
}

/// A connection whose handshake is done.
type TlsConnection = (TlsStream<TcpStream>, SocketAddr, Place);

impl Listener {
    /// A bound socket; over TLS where there is a configuration of it.
    pub fn new(tcp: TcpListener, tls: Option<Config>) -> Self {
        Self { tcp, tls }
    }

    /// Its connections, for HTTP/1.1.
    pub fn connections(self) -> Connections {
        self.within(ConnectionLimit::new(connections::MOST, IN_USE))
    }

    /// Its connections, as gRPC takes them; it must send a [`PING`] in time.
    pub fn incoming(self) -> impl Stream<Item = io::Result<Wire>> + Send {
        self.each(connections::MOST)
    }

    /// Its connections, as the store takes them, which pings them too.
    pub fn agents(self) -> impl Stream<Item = io::Result<Wire>> + Send {
        self.each(connections::MOST_AGENTS)
    }

    fn each(self, most: u64) -> impl Stream<Item = io::Result<Wire>> + Send {
        let connections = self.within(ConnectionLimit::new(most, IN_USE_WITH_PINGS));
        futures::stream::unfold(connections, |mut connections| async move {
            Some((Ok(connections.next().await), connections))
        })
    }

    fn within(self, limit: ConnectionLimit) -> Connections {
        Connections(match self.tls {
            None => Source::Plain(self.tcp, limit),
            Some(config) => {
                let (handshaken, ready) = mpsc::channel(AT_ONCE);
                tokio::spawn(shake_hands(self.tcp, config, limit, handshaken));
                Source::Tls(ready)
            }
        })
    }
}

impl Connections {
    /// The next one. Dropping the future loses none.
    pub async fn next(&mut self) -> Wire {
        match &mut self.0 {
            Source::Plain(tcp, limit) => {
                // Before the connection is taken, so that none is taken and dropped.
                let place = limit.enter().await;
                let (stream, address) = loop {
                    match tcp.accept().await {
                        Ok(accepted) => break accepted,
                        Err(error) => not_accepted(&error).await,
                    }
                };
                without_delay(&stream);
                let peer = Peer { address, shown: Shown::Nothing };
                Wire { io: Either::Left(stream), peer, place }
            }
            Source::Tls(ready) => match ready.recv().await {
                Some((stream, address, place)) => {
                    without_delay(stream.get_ref().0);
                    let shown = Shown::of(stream.get_ref().1.peer_certificates());
                    Wire { io: Either::Right(stream), peer: Peer { address, shown }, place }
                }
                None => std::future::pending().await,
            },
        }
    }
}

impl Wire {
    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }
}

/// Out of descriptors, mostly: the next attempt after a moment.
async fn not_accepted(error: &io::Error) {
    tracing::debug!(%error, "a connection was not accepted");
    tokio::time::sleep(Duration::from_millis(100)).await;
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
    limit: ConnectionLimit,
    ready: mpsc::Sender<TlsConnection>,
) {
    let context = Arc::new(Semaphore::new(AT_ONCE));
    while let Ok(permit) = Arc::clone(&context).acquire_owned().await {
        let place = limit.enter().await;
        let accepted = tokio::select! {
            () = ready.closed() => return,
            accepted = tcp.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                not_accepted(&error).await;
                continue;
            }
        };
        // The one of now: certificates are renewed while connections last.
        let (tls, ready) = (TlsAcceptor::from(config.borrow().clone()), ready.clone());
        tokio::spawn(async move {
            let _permit = permit;
            match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                // The listener is closed: the connection ends with it.
                Ok(Ok(stream)) => drop(ready.send((stream, from, place)).await),
                Ok(Err(error)) => tracing::debug!(%from, %error, "a TLS handshake did not succeed"),
                Err(_) => tracing::debug!(%from, "a TLS handshake was not finished in time"),
            }
        });
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
        if self.place.has_ended(cx.waker()) {
            // As if the other end had closed it.
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        // Only what the other end says counts: greetings and pings of our own are no sign of it.
        if buf.filled().len() > before {
            self.place.moved();
        }
        polled
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
