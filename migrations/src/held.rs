//! Work of other threads under simulation. A database driver that works in a thread of its own answers at a moment that
//! nobody foresees; a run that is to be the same each time has the runtime's thread wait for it, and with it the clock.

use std::sync::atomic::{AtomicBool, Ordering};

static HOLDS: AtomicBool = AtomicBool::new(false);

/// From now on, [`held`] keeps the runtime's thread until its work is done. For simulation in a process of its own: what
/// waits for the network would wait for ever.
pub fn hold_the_runtime() {
    HOLDS.store(true, Ordering::Release);
}

/// Waits for `work` of another thread.
pub async fn held<T>(work: impl Future<Output = T>) -> T {
    if HOLDS.load(Ordering::Acquire) {
        // Without a budget: it would be used up here, and renewed only where this task ends its turn.
        futures::executor::block_on(tokio::task::unconstrained(work))
    } else {
        work.await
    }
}
