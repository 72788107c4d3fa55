//! The line between an agent and its store: a TCP proxy that can be cut.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A line that is whole at first; it ends with this value.
pub(super) struct Line {
    address: SocketAddr,
    whole: watch::Sender<bool>,
    _end: DropGuard,
}

impl Line {
    /// To a store, by its `host:port`.
    pub(super) async fn to(store: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (whole, seen) = watch::channel(true);
        let end = CancellationToken::new();
        let store = store.to_owned();
        tokio::spawn(end.clone().run_until_cancelled_owned(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                tokio::spawn(join(client, store.clone(), seen.clone()));
            }
        }));
        Self { address, whole, _end: end.drop_guard() }
    }

    /// The URL in the agent's configuration.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends every connection and admits none.
    pub(super) fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Admits connections again.
    pub(super) fn mend(&self) {
        self.whole.send_replace(true);
    }
}

async fn join(mut client: TcpStream, store: String, mut whole: watch::Receiver<bool>) {
    if !*whole.borrow_and_update() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(store).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        _ = whole.wait_for(|whole| !whole) => {}
    }
}
