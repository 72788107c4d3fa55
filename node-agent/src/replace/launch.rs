//! The process between the agent and a service or the runner of a task: the agent's own program, called with the locked
//! file as its standard input. It makes its own session, writes its PID into the file, keeps the file open under
//! another number, and executes what it was called for.

use super::lock;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The hidden argument with which the agent calls itself for this.
const WORD: &str = "launch-service";

/// The call that becomes the program and arguments that are added to it; it needs the locked file as its standard input.
pub(crate) fn call() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(WORD);
    command
}

/// What this process is called to become, if it is.
pub(crate) fn asked() -> Option<Vec<OsString>> {
    let mut words = std::env::args_os().skip(1);
    (words.next()? == WORD).then(|| words.collect())
}

/// Becomes the service. Returns only when that failed.
pub(crate) fn become_service(argv: &[OsString]) -> io::Error {
    match detach() {
        Ok(()) => {}
        Err(errno) => return errno.into(),
    }
    let Some((program, arguments)) = argv.split_first() else {
        return io::Error::other("there is no program to become");
    };
    Command::new(program).args(arguments).exec()
}

/// Leaves the agent's session, signs the locked file that is the standard input, and keeps it open for whatever is
/// started from here.
pub(crate) fn detach() -> rustix::io::Result<()> {
    rustix::process::setsid()?;
    if let Ok(pid) = i32::try_from(std::process::id()) {
        lock::sign(rustix::stdio::stdin(), pid);
    }
    // A duplicate stays open over `exec`, unlike what Rust opens by itself; and it keeps the lock.
    let kept = rustix::io::dup(rustix::stdio::stdin())?;
    let nothing = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&nothing)?;
    // Never closed here: it is the service's from now on.
    let _ = kept.into_raw_fd();
    Ok(())
}
