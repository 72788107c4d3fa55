//! Runs this program once more in namespaces of its own: network, mounts and processes. Whatever it makes in them (network
//! namespaces, veth pairs, mounts, processes) ends with its first process, also after a panic or kill -9, because the
//! kernel ends it. So nothing can be left behind, and nothing stale can be met at the next start.

use anyhow::{Context, bail};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Stdio};

use crate::world::interrupt::Interrupt;
use crate::world::{descendants, program};

/// Set in the program that runs inside.
const INSIDE: &str = "TIDEGATE_NEMESIS_INSIDE";

/// Whether this process is the one inside.
pub(super) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// What `unshare` is asked for. Who is not root gets a user namespace in which they may have the others.
fn namespaces() -> Vec<&'static str> {
    let mut all = vec!["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if !rustix::process::geteuid().is_root() {
        all.extend(["--user", "--map-current-user", "--keep-caps"]);
    }
    all.extend(["--propagation", "private", "--"]);
    all
}

/// Whether namespaces can be had; if not, why.
///
/// # Errors
/// What is missing, in a sentence.
pub(super) fn is_possible() -> anyhow::Result<()> {
    for name in ["unshare", "setpriv", "nsenter", "ip", "mount"] {
        program::outside(name)?;
    }
    let tried = Command::new(program::outside("unshare")?)
        .args(namespaces())
        .arg("true")
        .stdin(Stdio::null())
        .output()
        .context("could not run unshare")?;
    if !tried.status.success() {
        let said = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
        bail!("the system gives this user no namespaces of its own: {said}; run it as root");
    }
    Ok(())
}

/// Runs this program with `arguments` inside and waits for its end; what asks this process to end is passed on.
///
/// # Errors
/// When it cannot be started or waited for.
pub(super) fn run_inside(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let own = std::env::current_exe().context("could not find this program")?;
    // Started by this thread, which waits for it: its end ends the child too.
    let mut child = Command::new(program::outside("setpriv")?)
        .args(["--pdeathsig", "KILL", "unshare"])
        .args(namespaces())
        .arg(own)
        .args(arguments)
        .env(INSIDE, "1")
        .spawn()
        .context("could not run unshare")?;
    let outer = i32::try_from(child.id()).context("a pid that is none")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(async {
        let mut interrupt = Interrupt::listen()?;
        loop {
            if let Some(status) = child.try_wait()? {
                return anyhow::Ok(status);
            }
            tokio::select! {
                _ = interrupt.interrupted() => end(outer),
                () = tokio::time::sleep(std::time::Duration::from_millis(100)) => {}
            }
        }
    })?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(2);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(2)))
}

/// Asks the program inside to end: it is the one child of `unshare`.
fn end(unshare: i32) {
    let inside = descendants::below(unshare).into_iter().next().and_then(rustix::process::Pid::from_raw);
    if let Some(inside) = inside {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(inside, rustix::process::Signal::TERM);
    }
}
