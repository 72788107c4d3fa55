//! A TCP proxy between a client and its store, which can lose what is said in either direction, or cut the line.

use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What happens to what is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// It is passed on.
    Open,
    /// What the store answers is lost.
    DeafToAnswers,
    /// What the client asks is lost.
    DeafToRequests,
    /// New connections are closed at once.
    Closed,
}

pub(crate) struct Proxy {
    address: String,
    line: Arc<watch::Sender<Line>>,
    cut: watch::Sender<CancellationToken>,
    _end: tokio_util::sync::DropGuard,
}

impl Proxy {
    /// In front of `store`, a `host:port`.
    pub(crate) async fn before(store: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let line = Arc::new(watch::Sender::new(Line::Open));
        let cut = watch::Sender::new(CancellationToken::new());
        let end = CancellationToken::new();
        let (cuts, lines, ended) = (cut.subscribe(), line.clone(), end.clone());
        tokio::spawn(ended.run_until_cancelled_owned(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                if *lines.borrow() == Line::Closed {
                    continue;
                }
                let (store, lines, cut) = (store.clone(), lines.clone(), cuts.borrow().clone());
                tokio::spawn(cut.run_until_cancelled_owned(async move {
                    let Ok(server) = TcpStream::connect(store).await else { return };
                    join(client, server, &lines).await;
                }));
            }
        }));
        Self { address, line, cut, _end: end.drop_guard() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn set(&self, line: Line) {
        self.line.send_replace(line);
    }

    /// Ends every connection that there is.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(CancellationToken::new()).cancel();
    }
}

async fn join(client: TcpStream, server: TcpStream, line: &watch::Sender<Line>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::select! {
        () = pump(&mut from_client, &mut to_server, line, Line::DeafToRequests) => {}
        () = pump(&mut from_server, &mut to_client, line, Line::DeafToAnswers) => {}
    }
}

async fn pump(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    line: &watch::Sender<Line>,
    lost: Line,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if *line.borrow() != lost && to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
