//! Places at which a test may end this process as by kill -9: it is asked at each of them, and does so while the
//! process waits. In builds without debug assertions there are none.

/// The socket of the test that is asked: a line `before database steps`, answered by a byte.
#[cfg(debug_assertions)]
const ASKED: &str = "TIDEGATE_CRASH_ASK";

/// Whether the act is still to come, or done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Before,
    After,
}

/// A place: `what` is about to be committed, or was.
#[cfg(debug_assertions)]
pub(crate) fn point(what: &str, when: When) {
    use std::io::{Read, Write};
    static SOCKET: std::sync::LazyLock<Option<std::ffi::OsString>> =
        std::sync::LazyLock::new(|| std::env::var_os(ASKED));
    let Some(socket) = SOCKET.as_deref() else { return };
    let word = if when == When::Before { "before" } else { "after" };
    // Goes on where no test listens.
    if let Ok(mut asked) = std::os::unix::net::UnixStream::connect(socket) {
        let _ = asked.write_all(format!("{word} database {what}\n").as_bytes());
        let _ = asked.read(&mut [0]);
    }
}

/// A place: nothing, in this build.
#[cfg(not(debug_assertions))]
pub(crate) fn point(_what: &str, _when: When) {}
