//! Work of other threads under simulation. A database driver with a thread of its own answers at an unpredictable
//! moment; a run that is to be the same each time has the runtime's thread wait for it, and with it the clock. The
//! simulation then says how long the work takes.

use futures::future::BoxFuture;
use std::sync::OnceLock;
use std::time::Duration;

/// What a simulation says of databases and of the processes that use them.
#[derive(Debug, Clone, Copy)]
pub struct Simulated {
    /// How long each piece of work takes, by the clock that is paused.
    pub takes: fn() -> Duration,
    /// Waits as long as the process of the leader's session with this name is stopped: it sends nothing meanwhile, and
    /// goes on where it was.
    pub goes_on: fn(&str) -> BoxFuture<'static, ()>,
}

static SIMULATED: OnceLock<Simulated> = OnceLock::new();

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

/// Waits until the process of a session goes on, where a simulation has stopped it.
pub(crate) async fn goes_on(session: &str) {
    if let Some(simulated) = SIMULATED.get() {
        (simulated.goes_on)(session).await;
    }
}

/// Waits for `work` of another thread.
pub async fn held<T>(work: impl Future<Output = T>) -> T {
    let Some(Simulated { takes, .. }) = SIMULATED.get() else { return work.await };
    // Without a budget: it would be used up here, and renewed only where this task ends its turn.
    let done = futures::executor::block_on(tokio::task::unconstrained(work));
    tokio::time::sleep(takes()).await;
    done
}
