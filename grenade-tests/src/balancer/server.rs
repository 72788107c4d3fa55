//! The servers behind the balancer: their health, what is in flight to each, and whose turn it is.

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::balancer::health::{Change, Health, Thresholds};

/// A server by name and address, as `NAME=ADDR` or `NAME=ADDR,check=ADDR` on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// Its name in the statistics: letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where its health is asked for; the same address for most.
    pub check: SocketAddr,
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, address) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is no server; NAME=ADDR:PORT is allowed"))?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            return Err(format!(
                "`{name}` is no server name; 1 to 64 letters, digits, `-`, `_`, `.` are allowed"
            ));
        }
        let (address, check) = address.split_once(",check=").unwrap_or((address, address));
        let parsed = |text: &str| {
            text.parse::<SocketAddr>()
                .map_err(|_| format!("`{text}` is no address; IP:PORT is allowed, say 127.0.0.1:9292"))
        };
        Ok(Self { name: name.to_owned(), address: parsed(address)?, check: parsed(check)? })
    }
}

/// What the last check of a server found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastCheck {
    /// HAProxy's code: `L7OK`, `L7STS`, `L4CON`, `L7TOUT`…; empty before the first check.
    pub status: &'static str,
    /// The HTTP status, where one came.
    pub code: Option<u16>,
    /// How long it took.
    pub duration: Duration,
}

#[derive(Debug)]
struct Seen {
    health: Health,
    last: LastCheck,
    changed: Instant,
    fails: u64,
    downs: u64,
}

/// The statistics of a server, taken at one instant.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Its health.
    pub health: Health,
    /// The last check.
    pub last: LastCheck,
    /// Since when it has been up or down.
    pub since: Duration,
    /// Failed checks while up, as HAProxy counts.
    pub fails: u64,
    /// How often it went down.
    pub downs: u64,
    /// Requests in flight, and the most there ever were.
    pub in_flight: u64,
    /// The most requests that were ever in flight at once.
    pub in_flight_max: u64,
    /// All requests ever sent to it.
    pub total: u64,
}

/// One server.
#[derive(Debug)]
pub struct Server {
    /// Its name and address.
    pub at: ServerAddress,
    seen: Mutex<Seen>,
    in_flight: AtomicU64,
    in_flight_max: AtomicU64,
    total: AtomicU64,
}

impl Server {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        // The state is a few plain numbers: it is whole even if a holder panicked.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a check.
    pub fn observe(&self, passed: bool, last: LastCheck) -> Change {
        let mut seen = self.seen();
        if !passed && seen.health.is_up() {
            seen.fails += 1;
        }
        let change = seen.health.observe(passed);
        seen.last = last;
        if change != Change::None {
            seen.changed = Instant::now();
        }
        if change == Change::WentDown {
            seen.downs += 1;
        }
        change
    }

    /// All of its statistics.
    pub fn snapshot(&self) -> Snapshot {
        let seen = self.seen();
        Snapshot {
            health: seen.health,
            last: seen.last.clone(),
            since: seen.changed.elapsed(),
            fails: seen.fails,
            downs: seen.downs,
            in_flight: self.in_flight.load(Ordering::SeqCst),
            in_flight_max: self.in_flight_max.load(Ordering::SeqCst),
            total: self.total.load(Ordering::SeqCst),
        }
    }
}

/// One request in flight to a server; ends when dropped.
#[derive(Debug)]
pub struct Session {
    server: Arc<Server>,
}

impl Session {
    /// Where it goes.
    pub fn address(&self) -> &ServerAddress {
        &self.server.at
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.server.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

/// All servers.
#[derive(Debug)]
pub struct Servers {
    all: Vec<Arc<Server>>,
    next: AtomicUsize,
}

impl Servers {
    /// The servers, none seen yet.
    pub fn new(addresses: Vec<ServerAddress>, thresholds: Thresholds) -> Self {
        let server = |at| {
            let seen = Seen {
                health: Health::unseen(thresholds),
                last: LastCheck::default(),
                changed: Instant::now(),
                fails: 0,
                downs: 0,
            };
            Arc::new(Server {
                at,
                seen: Mutex::new(seen),
                in_flight: AtomicU64::new(0),
                in_flight_max: AtomicU64::new(0),
                total: AtomicU64::new(0),
            })
        };
        Self { all: addresses.into_iter().map(server).collect(), next: AtomicUsize::new(0) }
    }

    /// All of them, in the order of the command line.
    pub fn all(&self) -> &[Arc<Server>] {
        &self.all
    }

    /// The next server that is up, with a session on it; `None` when none is up.
    ///
    /// The session is counted before health is read: a reader that sees a server down and no session on it can rely on
    /// no request being on its way there.
    pub fn pick(&self) -> Option<Session> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        (0..self.all.len()).find_map(|offset| {
            let server = &self.all[(start + offset) % self.all.len()];
            let now = server.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            let session = Session { server: Arc::clone(server) };
            if !server.seen().health.is_up() {
                return None;
            }
            server.in_flight_max.fetch_max(now, Ordering::SeqCst);
            server.total.fetch_add(1, Ordering::SeqCst);
            Some(session)
        })
    }
}
