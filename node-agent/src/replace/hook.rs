//! A hook of the `command` driver, run so that it is never run beside itself: it holds a lock while it runs, in which
//! stands which hook it is, so that an agent that was ended meanwhile finds it, waits for its end, and knows that it
//! was begun.

use super::command::{self, Done, NotRun};
use super::lock::{RunningLock, Written};
use crate::directive::seen::Hook;
use rustix::process::{Pid, Signal};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often an earlier hook is looked at until it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// How long the kernel may take to end what was killed.
const AFTER_KILL: Duration = Duration::from_secs(10);

/// Hooks of which one at a time runs.
#[derive(Debug, Clone)]
pub struct Hooks(RunningLock);

impl Hooks {
    /// Those that stop and start the service whose directory is `home`.
    pub fn moving(home: &Path) -> Self {
        Self(RunningLock::named(home, "hook.lock"))
    }

    /// Those that bring and drop its releases.
    pub fn staging(home: &Path) -> Self {
        Self(RunningLock::named(home, "stage.lock"))
    }

    /// Those that are told of another metadata document.
    pub fn of_metadata(home: &Path) -> Self {
        Self(RunningLock::named(home, "hook.lock"))
    }

    /// How `hook` stands, as one who did not see its end finds it.
    pub fn look(&self, hook: &str) -> Hook {
        match self.0.written() {
            None => Hook::NotBegun,
            Some(written) if !written.this_boot => Hook::EarlierBoot,
            Some(written) if written.label != hook => Hook::NotBegun,
            Some(written) if self.runs(&written) => Hook::Runs,
            Some(_) => Hook::Ended,
        }
    }

    /// Runs `argv` as `hook` to its end, for at most `limit`. One that was begun earlier is waited for first, for as
    /// long, and then killed.
    pub async fn run(&self, hook: &str, argv: &[String], limit: Duration) -> Result<Done, NotRun> {
        let not_begun = |source| NotRun::Start { program: format!("the {hook} hook"), source };
        if !self.free_within(limit).await {
            self.end().await.map_err(not_begun)?;
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
        command::run_holding(argv, limit, lock).await
    }

    /// Kills what was begun earlier, and waits until it has ended.
    pub async fn end(&self) -> io::Result<()> {
        if let Some(pid) = self.0.leader().and_then(Pid::from_raw) {
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

    /// Whether the hook itself runs, not only what it left behind. Before it has signed, who holds the lock is it.
    fn runs(&self, written: &Written) -> bool {
        match written.leader {
            Some(_) => self.0.leader().is_some(),
            None => written.this_boot && self.0.is_locked().unwrap_or(true),
        }
    }

    async fn free_within(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let runs = self.0.written().is_some_and(|written| self.runs(&written));
            if !runs || Instant::now() >= end {
                return !runs;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
