//! A line between two processes: a TCP proxy that can be cut, made slow, and pointed elsewhere.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::nemesis::plan::Cut;

/// Bytes of one piece.
const PIECE: usize = 16 * 1024;

/// A line; it ends with this value.
#[derive(Debug)]
pub(super) struct Link {
    address: SocketAddr,
    state: watch::Sender<State>,
    _end: DropGuard,
}

#[derive(Debug, Clone, Copy)]
struct State {
    target: SocketAddr,
    /// Connections of an earlier number are closed.
    era: u64,
    cut: Option<Cut>,
    delay: Duration,
}

impl Link {
    /// A line that is whole.
    pub(super) fn to(target: SocketAddr) -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let (listener, address) = (TcpListener::from_std(listener.try_clone()?)?, listener.local_addr()?);
        let (state, seen) = watch::channel(State { target, era: 0, cut: None, delay: Duration::ZERO });
        let end = CancellationToken::new();
        tokio::spawn(end.clone().run_until_cancelled_owned(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                tokio::spawn(join(client, seen.clone()));
            }
        }));
        Ok(Self { address, state, _end: end.drop_guard() })
    }

    /// Where one end connects.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts it.
    pub(super) fn cut(&self, how: Cut) {
        self.state.send_modify(|state| {
            state.cut = Some(how);
            state.era += u64::from(how == Cut::Closed);
        });
    }

    /// Makes each piece late.
    pub(super) fn delay(&self, by: Duration) {
        self.state.send_modify(|state| state.delay = by);
    }

    /// Makes it whole and fast.
    pub(super) fn mend(&self) {
        self.state.send_modify(|state| {
            state.cut = None;
            state.delay = Duration::ZERO;
        });
    }

    /// Points it elsewhere and closes what goes to where it pointed.
    pub(super) fn point_to(&self, target: SocketAddr) {
        self.state.send_modify(|state| {
            state.target = target;
            state.era += 1;
        });
    }
}

async fn join(client: TcpStream, mut seen: watch::Receiver<State>) {
    let Some(state) = passes(&mut seen).await else { return };
    let Ok(server) = TcpStream::connect(state.target).await else { return };
    // Small pieces of a conversation; one that fails only makes the line slower.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from, to), (back, forth)) = (client.into_split(), server.into_split());
    let mut ended = seen.clone();
    tokio::select! {
        _ = futures::future::join(pump(from, forth, seen.clone()), pump(back, to, seen)) => {}
        _ = ended.wait_for(|now| now.era != state.era) => {}
    }
}

/// Waits while nothing passes silently; none where connections are closed.
async fn passes(seen: &mut watch::Receiver<State>) -> Option<State> {
    let state = *seen.wait_for(|state| state.cut != Some(Cut::Silent)).await.ok()?;
    state.cut.is_none().then_some(state)
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut seen: watch::Receiver<State>) -> Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let length = from.read(&mut piece).await?;
        let state = passes(&mut seen).await.ok_or_else(|| Error::other("the line was cut"))?;
        if !state.delay.is_zero() {
            tokio::time::sleep(state.delay).await;
        }
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&piece[..length]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }

    async fn asks(stream: &mut TcpStream) -> Result<u8> {
        stream.write_all(b"x").await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn silent_cut_holds_what_was_sent_until_it_is_mended() {
        let link = Link::to(echo().await).expect("a line");
        let mut stream = TcpStream::connect(link.address()).await.expect("it listens");
        assert_eq!(asks(&mut stream).await.ok(), Some(b'x'));
        link.cut(Cut::Silent);
        let held = tokio::time::timeout(Duration::from_millis(200), asks(&mut stream)).await;
        assert!(held.is_err(), "nothing passes");
        link.mend();
        assert_eq!(stream.read_u8().await.ok(), Some(b'x'), "what was sent comes");
    }

    #[tokio::test]
    async fn closed_cut_ends_connections_and_refuses_new_ones() {
        let link = Link::to(echo().await).expect("a line");
        let mut stream = TcpStream::connect(link.address()).await.expect("it listens");
        assert_eq!(asks(&mut stream).await.ok(), Some(b'x'));
        link.cut(Cut::Closed);
        assert!(asks(&mut stream).await.is_err(), "it is closed");
        let mut stream = TcpStream::connect(link.address()).await.expect("it listens");
        assert!(asks(&mut stream).await.is_err(), "new ones are closed");
        link.mend();
        let mut stream = TcpStream::connect(link.address()).await.expect("it listens");
        assert_eq!(asks(&mut stream).await.ok(), Some(b'x'));
    }

    #[tokio::test]
    async fn line_that_is_pointed_elsewhere_closes_what_it_had() {
        let link = Link::to(echo().await).expect("a line");
        let mut stream = TcpStream::connect(link.address()).await.expect("it listens");
        assert_eq!(asks(&mut stream).await.ok(), Some(b'x'));
        link.point_to(echo().await);
        assert!(asks(&mut stream).await.is_err(), "the old connection is closed");
        let mut stream = TcpStream::connect(link.address()).await.expect("it listens");
        assert_eq!(asks(&mut stream).await.ok(), Some(b'x'));
    }
}
