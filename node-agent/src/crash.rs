//! Places at which a test may have this process end as by kill -9. In builds without debug assertions there are none.

/// Names the place and when: `journal:3:before` ends the process before the third write of a journal.
#[cfg(debug_assertions)]
const VARIABLE: &str = "TIDEGATE_AGENT_CRASH_AT";

/// Whether the act is still to come, or done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Still to come; each act has this first, and it counts.
    Before,
    /// Done.
    After,
}

/// A place of the `kind`.
#[cfg(debug_assertions)]
pub fn point(kind: &str, when: When) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    static ASKED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(VARIABLE).ok());
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let Some(asked) = ASKED.as_deref() else { return };
    let (number, word) = match when {
        When::Before => (COUNT.fetch_add(1, Ordering::SeqCst) + 1, "before"),
        When::After => (COUNT.load(Ordering::SeqCst), "after"),
    };
    if asked == format!("{kind}:{number}:{word}") {
        // As sudden as kill -9: no destructor, no flush.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// A place of the `kind`: nothing, in this build.
#[cfg(not(debug_assertions))]
pub fn point(_kind: &str, _when: When) {}
