//! How many connections a door may have, so that idle ones of one door leave descriptors for everything else. Where there
//! are too many, the one that has been silent for the longest ends.
//!
//! # Invariants
//! * A connection whose other end said something lately is never ended; a new one waits then.

use futures::task::AtomicWaker;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Descriptors that are left for the store, its clients, files and databases.
const RESERVE: u64 = 96;

/// Who shares what is left: gRPC, HTTP and the store for agents.
const SHARES: u64 = 3;

/// The most connections of a door for persons and programs, whatever the limit of descriptors is.
pub(super) const MOST: u64 = 4096;

/// The same of the store, where each agent of a fleet stays connected.
pub(super) const MOST_AGENTS: u64 = 65_536;

/// The fewest, so that a door works at all.
const FEWEST: u64 = 16;

/// Between two looks for a place while all are in use.
const LOOK: Duration = Duration::from_millis(50);

/// How many may be ending while others enter already.
const ENDING: usize = 8;

/// Raises the number of descriptors that this process may have to the most that it is allowed; there is no harm where it
/// cannot.
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::debug!(%error, "the number of descriptors stays as it is");
    }
}

/// How many connections a door may have.
fn within_descriptors(most: u64) -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = (descriptors.saturating_sub(RESERVE) / SHARES).clamp(FEWEST, most);
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// The limit of connections of one door, and those that are open.
#[derive(Debug, Clone)]
pub(super) struct ConnectionLimit {
    most: usize,
    /// A connection whose other end said something within this time is in use.
    in_use: Duration,
    connections: Arc<Mutex<OpenConnections>>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    open: BTreeMap<u64, Arc<TrackedConnection>>,
}

#[derive(Debug)]
struct TrackedConnection {
    /// When its other end said something; none = it has not yet.
    moved: Mutex<Option<Instant>>,
    ended: AtomicBool,
    reader: AtomicWaker,
}

/// The place of one connection; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    connection: Arc<TrackedConnection>,
    connections: Arc<Mutex<OpenConnections>>,
}

impl ConnectionLimit {
    /// As many as the descriptors of this process allow for one door, and not more than `most`.
    pub(super) fn new(most: u64, in_use: Duration) -> Self {
        Self::of(within_descriptors(most), in_use)
    }

    fn of(most: usize, in_use: Duration) -> Self {
        Self { most, in_use, connections: Arc::default() }
    }

    /// A place for one more, as soon as there is one.
    pub(super) async fn enter(&self) -> Place {
        loop {
            if let Some(place) = self.try_enter(Instant::now()) {
                return place;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn try_enter(&self, now: Instant) -> Option<Place> {
        let mut connections = held(&self.connections);
        if connections.open.len() >= self.most && !self.ends_one(&connections, now) {
            return None;
        }
        let (number, connection) = (connections.next, Arc::new(TrackedConnection::new()));
        connections.next += 1;
        connections.open.insert(number, Arc::clone(&connection));
        Some(Place { number, connection, connections: Arc::clone(&self.connections) })
    }

    /// Ends the connection that has been silent for the longest; whether there is one that may end.
    fn ends_one(&self, connections: &OpenConnections, now: Instant) -> bool {
        let ending =
            connections.open.values().filter(|connection| connection.ended.load(Ordering::Acquire)).count();
        if ending >= ENDING {
            return false;
        }
        let staying =
            connections.open.values().filter(|connection| !connection.ended.load(Ordering::Acquire));
        // Who never said a word goes first, and among those who came first: numbers rise.
        let silent =
            staying.map(|connection| (*held(&connection.moved), connection)).min_by_key(|(moved, _)| *moved);
        let Some((moved, connection)) = silent else { return false };
        if moved.is_some_and(|moved| now.duration_since(moved) < self.in_use) {
            return false;
        }
        connection.ended.store(true, Ordering::Release);
        connection.reader.wake();
        true
    }
}

impl TrackedConnection {
    fn new() -> Self {
        Self { moved: Mutex::new(None), ended: AtomicBool::new(false), reader: AtomicWaker::new() }
    }
}

impl Place {
    /// Its other end said something.
    pub(super) fn moved(&self) {
        *held(&self.connection.moved) = Some(Instant::now());
    }

    /// Whether the connection is to end; where not, `reader` is woken when it is.
    pub(super) fn has_ended(&self, reader: &Waker) -> bool {
        self.connection.reader.register(reader);
        self.connection.ended.load(Ordering::Acquire)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        held(&self.connections).open.remove(&self.number);
    }
}

/// A lock is held for a computation only.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_ended(place: &Place) -> bool {
        place.has_ended(Waker::noop())
    }

    #[test]
    fn silent_connection_gives_way_and_one_in_use_does_not() {
        let in_use = Duration::from_secs(10);
        let (limit, now) = (ConnectionLimit::of(3, in_use), Instant::now());
        let enter = |after: Duration| limit.try_enter(now + after);
        let [used, dumb, later] = [(); 3].map(|()| enter(Duration::ZERO).unwrap());
        used.moved();
        let first = enter(Duration::ZERO).unwrap();
        assert_eq!([&used, &dumb, &later].map(has_ended), [false, true, false]);
        drop(dumb);
        later.moved();
        first.moved();
        assert!(enter(Duration::ZERO).is_none(), "all are in use");
        assert!(enter(in_use * 2).is_some(), "the one that moved first is silent by then");
        assert!(has_ended(&used) && !has_ended(&later));
    }
}
