//! Standard output. `println!` panics where the pipe is closed or the disk is full; here the caller ends.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

/// Standard output takes no more.
#[derive(Debug, thiserror::Error)]
#[error("could not write to standard output")]
struct NotWritten(#[source] io::Error);

/// Writes a line.
///
/// # Errors
/// Where it cannot be written.
pub(super) fn print(line: impl Display) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    written.map_err(|why| NotWritten(why).into())
}

/// Whether the reader of standard output has closed its end: `tidegate-simulate … | head`.
pub(super) fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<NotWritten>().is_some_and(|NotWritten(why)| why.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_pipe_differs_from_a_full_disk() {
        let error = |kind: ErrorKind| anyhow::Error::from(NotWritten(io::Error::from(kind)));
        assert!(is_closed(&error(ErrorKind::BrokenPipe)));
        assert!(!is_closed(&error(ErrorKind::StorageFull)));
        assert!(!is_closed(&anyhow::Error::from(io::Error::from(ErrorKind::BrokenPipe))), "of a schedule");
    }
}
