//! Hooks of the `command` driver, one at a time. A hook holds a lock file while it runs, and the file names the hook:
//! an agent that starts again finds it, waits for its end, and knows that it was begun.

use super::command;
use super::lock::{self, RunningLock};
use crate::host;
use crate::host::{Done, HookSet, HookState, NotRun};
use futures::FutureExt;
use futures::future::BoxFuture;
use rustix::process::{Pid, Signal};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::time::Instant;

/// How often an earlier hook is looked at until it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long the kernel may take to end what was killed.
const AFTER_KILL: Duration = Duration::from_secs(10);

/// Hooks that run one at a time.
#[derive(Debug, Clone)]
pub(crate) struct Hooks(RunningLock);

impl Hooks {
    /// Those of `set`, of the service or metadata group whose directory is `home`.
    pub(crate) fn of(home: &Path, set: HookSet) -> Self {
        let lock = match set {
            HookSet::Moving => "hook.lock",
            HookSet::Staging => "stage.lock",
        };
        Self(RunningLock::named(home, lock))
    }

    /// Runs `argv` as `hook` to its end, for at most `limit`. One that was begun earlier is waited for first, for as
    /// long, and then killed.
    async fn run_alone(&self, hook: &str, argv: &[String], limit: Duration) -> Result<Done, NotRun> {
        let not_begun = |source| NotRun::Start { program: format!("the {hook} hook"), source };
        if !self.free_within(limit).await {
            self.end_earlier().await.map_err(not_begun)?;
        }
        let lock = match self.0.take(hook).map_err(not_begun)? {
            Some(lock) => lock,
            // Only what a former hook left behind on purpose: a service that it started.
            None => {
                self.0.leave_behind().map_err(not_begun)?;
                self.0.take(hook).map_err(not_begun)?.ok_or_else(|| {
                    not_begun(io::Error::other("another hook of this service was begun at the same time"))
                })?
            }
        };
        let signature = lock.try_clone().map_err(not_begun)?;
        // Whatever of the hook runs holds the lock, as a standard input that is at its end.
        command::run_with(argv, Stdio::from(lock), limit, move |pid| lock::sign(signature, pid)).await
    }

    /// Kills what was begun earlier, and waits until it has ended.
    async fn end_earlier(&self) -> io::Result<()> {
        if let Some(pid) = self.0.leader_if_unsigned_too().and_then(Pid::from_raw) {
            // Gone already is as good as killed.
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        match self.free_within(AFTER_KILL).await {
            true => Ok(()),
            false => {
                let pids = self.0.holders();
                Err(io::Error::other(format!("a hook that was begun earlier does not end (pids {pids:?})")))
            }
        }
    }

    /// Whether the hook itself runs, not only what it left behind.
    fn runs(&self) -> bool {
        self.0.leader_if_unsigned_too().is_some()
    }

    async fn free_within(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let runs = self.runs();
            if !runs || Instant::now() >= end {
                return !runs;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl host::Hooks for Hooks {
    fn look(&self, hook: &str) -> HookState {
        match self.0.written() {
            None => HookState::NotBegun,
            Some(written) if !written.this_boot => HookState::EarlierBoot,
            Some(written) => match (written.label == hook, self.runs()) {
                (true, true) => HookState::Runs,
                (true, false) => HookState::Ended,
                (false, true) => HookState::OtherRuns,
                (false, false) => HookState::NotBegun,
            },
        }
    }

    fn run<'a>(
        &'a self,
        hook: &'a str,
        argv: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Done, NotRun>> {
        self.run_alone(hook, argv, limit).boxed()
    }

    fn end(&self) -> BoxFuture<'_, io::Result<()>> {
        self.end_earlier().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Hooks as _;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    /// As an agent leaves it that was killed before it could sign for the hook that it had begun.
    fn begin_unsigned(hooks: &Hooks, hook: &str, script: &str) -> Child {
        let lock = hooks.0.take(hook).unwrap().expect("it is free");
        let mut sh = Command::new("sh");
        sh.args(["-c", script]).stdin(Stdio::from(lock)).process_group(0).spawn().unwrap()
    }

    #[tokio::test]
    async fn unsigned_hook_is_found_and_ended() {
        let room = tempfile::tempdir().unwrap();
        let hooks = Hooks::of(room.path(), HookSet::Moving);
        let mut unsigned = begin_unsigned(&hooks, "start", "sleep 60; true");
        assert_eq!((hooks.look("start"), hooks.look("stop")), (HookState::Runs, HookState::OtherRuns));
        // The killer of the agent reaps it.
        let reaped = tokio::task::spawn_blocking(move || unsigned.wait().unwrap());
        hooks.end().await.unwrap();
        assert!(!reaped.await.unwrap().success());
        assert_eq!((hooks.look("start"), hooks.look("stop")), (HookState::Ended, HookState::NotBegun));
    }

    #[tokio::test]
    async fn leftovers_of_an_unsigned_hook_are_no_hook() {
        let room = tempfile::tempdir().unwrap();
        let hooks = Hooks::of(room.path(), HookSet::Moving);
        // It has the lock as its standard input, as a service that a hook started may have.
        let script = format!("exec 9<&0; sleep 60 <&9 & echo $! > {}", room.path().join("pid").display());
        assert!(begin_unsigned(&hooks, "start", &script).wait().unwrap().success());
        assert_eq!(hooks.look("start"), HookState::Ended);
        assert!(hooks.0.is_locked().unwrap(), "what it left behind has the lock");
        let argv = ["true"].map(str::to_owned);
        assert!(hooks.run("stop", &argv, Duration::from_secs(5)).await.unwrap().success);
        let left: i32 = std::fs::read_to_string(room.path().join("pid")).unwrap().trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
    }

    #[tokio::test]
    async fn a_hook_has_a_standard_input_at_its_end_and_is_signed_for() {
        let room = tempfile::tempdir().unwrap();
        let hooks = Hooks::of(room.path(), HookSet::Moving);
        let lock = room.path().join("hook.lock").display().to_string();
        let script = "until [ -n \"$(sed -n 2p \"$1\")\" ]; do :; done; cat; sed -n 2p \"$1\" | cut -d' ' -f1; echo $$";
        let argv = ["sh", "-c", script, "sh", &lock].map(str::to_owned);
        let done = hooks.run("start", &argv, Duration::from_secs(10)).await.unwrap();
        let said = String::from_utf8(done.stdout).unwrap();
        let lines: Vec<_> = said.lines().collect();
        assert!(done.success && lines.len() == 2 && lines[0] == lines[1], "{said}");
    }
}
