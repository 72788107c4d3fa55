//! Work of other threads and of database servers under simulation. It is done at an unpredictable moment; a run that is to
//! be the same each time has the runtime's thread wait for it, and with it the clock. The simulation then says how long the
//! work takes.
//!
//! A connection to SQLite has a thread of its own. The socket of one to PostgreSQL belongs to the runtime in which it was
//! opened, and under simulation that is a second one, whose clock is real.

use futures::future::BoxFuture;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;

/// What a simulation says of databases and of the processes that use them.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// How long each piece of work takes, by the clock that is paused.
    pub takes: fn() -> Duration,
    /// Waits as long as the process of the leader's session with this name is stopped: it sends nothing meanwhile, and
    /// goes on where it was.
    pub goes_on: fn(&str) -> BoxFuture<'static, ()>,
    /// The server of databases that are reached over a socket; none = there is none.
    pub server: Option<SimulatedServer>,
}

/// The database server of a simulation.
#[derive(Debug, Clone)]
pub struct SimulatedServer {
    /// The runtime of its sockets; a thread of its own runs it.
    pub sockets: Handle,
    /// Waits until the server has ended each session that this process has closed, and keeps no lock of it.
    pub settles: fn(),
}

static SIMULATED: OnceLock<Simulated> = OnceLock::new();

/// How many sessions with a database server are open.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A session has ended since the server settled last.
static ENDED: AtomicBool = AtomicBool::new(false);

/// How long a session waits for a lock, by the real clock: only what a server is about to end can release it meanwhile.
const LOCK_LIMIT: Duration = Duration::from_millis(5);

/// From now on, [`held`] keeps the runtime's thread until its work is done, and lets as much of the paused time go by as
/// `simulated` says. For simulation in a process of its own: what waits for the network would wait for ever.
pub fn hold_the_runtime(simulated: Simulated) {
    // The first value is kept.
    let _ = SIMULATED.set(simulated);
}

/// Whether the runtime's thread is held: then no other task can end what a thread waits for.
pub(crate) fn is_held() -> bool {
    SIMULATED.get().is_some()
}

/// How long a session may wait for a lock. Where the runtime's thread is held, no task can release it meanwhile.
pub(crate) fn lock_limit(asked: Duration) -> Duration {
    if is_held() { asked.min(LOCK_LIMIT) } else { asked }
}

/// Waits until the process of a session goes on, where a simulation has stopped it.
pub(crate) async fn goes_on(session: &str) {
    if let Some(simulated) = SIMULATED.get() {
        (simulated.goes_on)(session).await;
    }
}

/// A session with a database server, as long as it is open.
#[derive(Debug)]
pub struct OpenSession(());

impl OpenSession {
    /// One more.
    pub fn one() -> Self {
        OPEN.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::SeqCst);
        session_ended();
    }
}

/// How many sessions with a database server this process has open.
pub fn open_sessions() -> usize {
    OPEN.load(Ordering::SeqCst)
}

/// A session was closed; the server may not have ended it yet. What it did last is done before the next statement.
pub fn session_ended() {
    ENDED.store(true, Ordering::SeqCst);
}

/// Waits for `work` of another thread or of a server, and lets no time go by.
pub fn hold<T>(work: impl Future<Output = T>) -> T {
    let server = SIMULATED.get().and_then(|simulated| simulated.server.as_ref());
    if let Some(server) = server.filter(|_| ENDED.swap(false, Ordering::SeqCst)) {
        (server.settles)();
    }
    let _entered = server.map(|server| server.sockets.enter());
    // Without a budget: it would be used up here, and renewed only where this task ends its turn.
    futures::executor::block_on(tokio::task::unconstrained(work))
}

/// Waits for `work` of another thread or of a server.
pub async fn held<T>(work: impl Future<Output = T>) -> T {
    let Some(Simulated { takes, .. }) = SIMULATED.get() else { return work.await };
    let done = hold(work);
    tokio::time::sleep(takes()).await;
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    static SETTLED: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn server_settles_once_after_a_session_has_ended() {
        assert_eq!(lock_limit(Duration::from_secs(1)), Duration::from_secs(1));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let settles = || {
            SETTLED.fetch_add(1, Ordering::SeqCst);
        };
        let server = Some(SimulatedServer { sockets: runtime.handle().clone(), settles });
        hold_the_runtime(Simulated {
            takes: || Duration::ZERO,
            goes_on: |_| std::future::ready(()).boxed(),
            server,
        });
        assert!(lock_limit(Duration::from_secs(1)) < Duration::from_millis(100));
        let sessions = [OpenSession::one(), OpenSession::one()];
        let settled = || {
            let of = hold(async { Handle::current().id() });
            assert_eq!(of, runtime.handle().id(), "sockets belong to the second runtime");
            (SETTLED.load(Ordering::SeqCst), open_sessions())
        };
        assert_eq!(settled(), (0, 2));
        drop(sessions);
        assert_eq!((settled(), settled()), ((1, 0), (1, 0)));
    }
}
