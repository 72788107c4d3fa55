//! Revokes leases when their time is over: one task per store, alive only while there are leases.

use std::sync::{Arc, Weak};

use tokio::time::Instant;

use crate::engine::Engine;
use crate::lease::TICK;

/// Waits for deadlines until the store is closed or dropped. Never holds the store while it sleeps.
pub(crate) async fn run(store: Weak<Engine>) {
    loop {
        let Some(engine) = store.upgrade() else { return };
        let (closed, granted) = (engine.closed().clone(), engine.lease_granted());
        let wake = engine.expire(Instant::now());
        drop(engine);
        let sleep = async {
            match wake {
                Some(deadline) => tokio::time::sleep_until(deadline.min(Instant::now() + TICK)).await,
                None => granted.notified().await,
            }
        };
        tokio::select! {
            () = closed.cancelled() => return,
            () = sleep => {}
        }
    }
}

/// Starts the task if it does not run, or if the runtime that ran it has gone.
pub(crate) fn ensure_running(engine: &Arc<Engine>) {
    engine.with_expiry_task(|task| {
        if task.as_ref().is_none_or(tokio::task::JoinHandle::is_finished) {
            *task = Some(tokio::spawn(run(Arc::downgrade(engine))));
        }
    });
}
