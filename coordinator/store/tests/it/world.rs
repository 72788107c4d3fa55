//! One store for one test, reached directly, raw, or through a line that can be cut; and records to put into it.

use crate::proxy::Proxy;
use etcd_client::Client;
use std::any::Any;
use std::time::Duration;
use tidegate_proto::key::{EventSeq, Subject};
use tidegate_proto::record::{Timestamp, budget::Budget, event::Event};
use tidegate_proto::{Key, Prefix, ServiceName, TermId};
use tidegate_store::{Change, Endpoints, Seen, Store, WatchStream};
use tokio_util::sync::CancellationToken;

/// How long anything may take before a test fails. The machine may be busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct World {
    address: String,
    _server: Box<dyn Any + Send + Sync>,
}

impl World {
    pub(crate) fn new(address: String, server: impl Any + Send + Sync) -> Self {
        Self { address, _server: Box::new(server) }
    }

    /// A connection of its own.
    pub(crate) async fn store(&self) -> Store {
        connect(&format!("http://{}", self.address)).await
    }

    /// The client below, for what the store's own ways do not allow.
    pub(crate) async fn raw(&self) -> Client {
        Client::connect([&self.address], None).await.unwrap()
    }

    /// A connection over a line that can be cut.
    pub(crate) async fn over_proxy(&self) -> (Store, Proxy) {
        let proxy = Proxy::before(self.address.clone()).await;
        (connect(&proxy.url()).await, proxy)
    }
}

/// Connects, and goes on trying while a server that was just started comes up.
pub(crate) async fn connect(url: &str) -> Store {
    let endpoints = Endpoints::plain([url]);
    let trying = async {
        loop {
            match Store::connect(&endpoints, Prefix::default()).await {
                Ok(store) => return store,
                Err(error) if error.retryable() => continue,
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    tokio::time::timeout(LIMIT, trying).await.expect("the store did not come up in time")
}

pub(crate) fn service(name: &str) -> ServiceName {
    name.parse().unwrap()
}

pub(crate) fn budget_key(name: &str) -> Key {
    Key::Budget(service(name))
}

pub(crate) fn budget(taken: u32) -> Budget {
    Budget { term: term("t"), taken }
}

pub(crate) fn term(name: &str) -> TermId {
    name.parse().unwrap()
}

pub(crate) fn event_key(number: u64) -> Key {
    Key::Event(Subject::Fleet, EventSeq { term: 1, number })
}

pub(crate) fn event(because: impl Into<String>) -> Event {
    Event {
        from: "roll".into(),
        to: "remove".into(),
        because: because.into(),
        who: "coordinator".into(),
        at: Timestamp(0),
    }
}

/// A watch with what it has reported so far, for the message when something does not come.
pub(crate) struct Watched {
    stream: WatchStream,
    pub(crate) reported: Vec<String>,
    _end: tokio_util::sync::DropGuard,
}

impl Watched {
    pub(crate) fn begin(store: &Store, scopes: Vec<tidegate_store::Scope>) -> Self {
        let cancel = CancellationToken::new();
        Self { stream: store.watch(scopes, cancel.clone()), reported: Vec::new(), _end: cancel.drop_guard() }
    }

    /// The next item that is no mere progress.
    pub(crate) async fn next(&mut self) -> Seen {
        loop {
            let next = tokio::time::timeout(LIMIT, self.stream.recv()).await;
            let Ok(seen) = next else { panic!("nothing more came after {:#?}", self.reported) };
            let seen = seen.expect("the watch ended by itself");
            self.reported.push(brief(&seen));
            if !matches!(seen, Seen::Progress { .. }) {
                return seen;
            }
        }
    }

    /// Goes on to the next item that matches.
    pub(crate) async fn until(&mut self, what: impl Fn(&Seen) -> bool) -> Seen {
        loop {
            let seen = self.next().await;
            if what(&seen) {
                return seen;
            }
        }
    }
}

/// An item in a line.
pub(crate) fn brief(seen: &Seen) -> String {
    match seen {
        Seen::Listed(snapshot) => format!("listed {} at {}", snapshot.entries.len(), snapshot.revision),
        Seen::Changed { revision, changes } => {
            let keys: Vec<_> = changes.iter().map(brief_change).collect();
            format!("{} at {revision}", keys.join(" "))
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn brief_change(change: &Change) -> String {
    match change {
        Change::Put(entry) => format!("+{}", entry.key),
        Change::Gone { key, .. } => format!("-{key}"),
        Change::Foreign { key, .. } => format!("?{key}"),
    }
}

/// Waits until something is so; the message names what was seen last.
pub(crate) async fn eventually<T: std::fmt::Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> T,
    good: impl Fn(&T) -> bool,
) -> T {
    let begun = std::time::Instant::now();
    loop {
        let seen = look().await;
        if good(&seen) {
            return seen;
        }
        assert!(begun.elapsed() < LIMIT, "{what} did not come about; last seen: {seen:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
