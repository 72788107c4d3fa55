//! Crash points: places where a test can end this process as `kill -9` does. Builds without debug assertions have none.
//!
//! A test names the place beforehand, or is asked at each of them through a socket.

/// Names the place and when: `journal:3:before` ends the process before the third write of a journal.
#[cfg(debug_assertions)]
const VARIABLE: &str = "TIDEGATE_AGENT_CRASH_AT";

/// The socket of the test that is asked: a line `before journal draining`, answered by a byte.
#[cfg(debug_assertions)]
const ASKED: &str = "TIDEGATE_CRASH_ASK";

/// Whether the act is still to come, or done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Still to come; each act has this first, and it counts.
    Before,
    /// Done.
    After,
}

/// A crash point of the `kind`; `what` names the act for the test that is asked.
#[cfg(debug_assertions)]
pub(crate) fn point(kind: &str, what: impl FnOnce() -> String, when: When) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    static NAMED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(VARIABLE).ok());
    static SOCKET: LazyLock<Option<std::ffi::OsString>> = LazyLock::new(|| std::env::var_os(ASKED));
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (number, word) = match when {
        When::Before => (COUNT.fetch_add(1, Ordering::SeqCst) + 1, "before"),
        When::After => (COUNT.load(Ordering::SeqCst), "after"),
    };
    if let Some(socket) = SOCKET.as_deref() {
        ask(socket, &format!("{word} {kind} {}\n", what()));
    }
    if NAMED.as_deref() == Some(&format!("{kind}:{number}:{word}")) {
        // As sudden as kill -9: no destructor, no flush.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Asks and waits for the answer; continues if no test is there.
#[cfg(debug_assertions)]
fn ask(socket: &std::ffi::OsStr, line: &str) {
    use std::io::{Read, Write};
    if let Ok(mut asked) = std::os::unix::net::UnixStream::connect(socket) {
        let _ = asked.write_all(line.as_bytes());
        let _ = asked.read(&mut [0]);
    }
}

/// A place of the `kind`: nothing, in this build.
#[cfg(not(debug_assertions))]
pub(crate) fn point(_kind: &str, _what: impl FnOnce() -> String, _when: When) {}
