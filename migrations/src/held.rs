//! Work of other threads under simulation. A database driver that works in a thread of its own answers at a moment that
//! nobody foresees; a run that is to be the same each time has the runtime's thread wait for it, and with it the clock.
//! How long the work takes is then said by the simulation.

use std::sync::OnceLock;
use std::time::Duration;

/// How long each piece of work takes, by the clock that is paused.
static TAKES: OnceLock<fn() -> Duration> = OnceLock::new();

/// From now on, [`held`] keeps the runtime's thread until its work is done, and lets as much of the paused time go by as
/// `takes` says. For simulation in a process of its own: what waits for the network would wait for ever.
pub fn hold_the_runtime(takes: fn() -> Duration) {
    // The first word stands.
    let _ = TAKES.set(takes);
}

/// Whether the runtime's thread is held: then nobody else can end what a thread waits for.
pub(crate) fn is_held() -> bool {
    TAKES.get().is_some()
}

/// Waits for `work` of another thread.
pub async fn held<T>(work: impl Future<Output = T>) -> T {
    let Some(takes) = TAKES.get() else { return work.await };
    // Without a budget: it would be used up here, and renewed only where this task ends its turn.
    let done = futures::executor::block_on(tokio::task::unconstrained(work));
    tokio::time::sleep(takes()).await;
    done
}
