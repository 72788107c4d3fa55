//! A service as a process in its own session: started by the agent, not ended with it, stopped by signals. The lock
//! that it holds shows whether it runs; the PID only says what to signal.

use super::launch;
use super::lock::{self, RunningLock};
use super::proc_stat::ticks;
use crate::config::address::AbsolutePath;
use crate::config::settings::Process;
use crate::file_error::FileError;
use crate::host;
use crate::host::ProcessError;
use crate::host::{Alive, Started, Target};
use crate::place::Place;
use futures::FutureExt;
use futures::future::BoxFuture;
use rustix::process::{Pid, Signal};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tidegate_proto::ReleaseTag;
use tokio::process::Command;
use tokio::time::Instant;

/// How long the kernel may take to end what was killed.
const AFTER_KILL: Duration = Duration::from_secs(10);

/// How often the lock is looked at while a process ends.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Clone)]
pub(crate) struct ServiceProcess {
    lock: RunningLock,
    spec: Process,
    log: PathBuf,
}

impl ServiceProcess {
    /// The process of the service whose directory is `home`; its output is appended to `log`.
    pub(crate) fn new(home: &Path, spec: Process, log: PathBuf) -> Self {
        Self { lock: RunningLock::named(home, lock::NAME), spec, log }
    }

    async fn free_within(&self, limit: Duration) -> Result<bool, ProcessError> {
        let end = Instant::now() + limit;
        loop {
            let held = self.lock.is_held().map_err(FileError::at("look at the lock beside", &self.log))?;
            if !held || Instant::now() >= end {
                return Ok(!held);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn end(&self, started: Option<&Started>) -> Result<(), ProcessError> {
        let journalled = started.filter(|s| s.ticks != 0 && ticks(s.pid) == Some(s.ticks)).map(|s| s.pid);
        let leader = journalled.or_else(|| self.lock.leader());
        // Not the journal's process, but something holds the lock: its sessions' leaders are asked to end.
        let asked = leader.map_or_else(|| self.lock.holders(), |pid| vec![pid]);
        for pid in &asked {
            signal(*pid, Signal::TERM);
        }
        if self.free_within(self.spec.stop_timeout.into()).await? {
            return Ok(());
        }
        tracing::warn!(pids = ?asked, "the service did not end in its time and is killed");
        if let Some(pid) = leader.filter(|pid| ticks(*pid).is_some()).and_then(Pid::from_raw) {
            // Gone already is as good as killed.
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        for pid in self.lock.holders() {
            signal(pid, Signal::KILL);
        }
        match self.free_within(AFTER_KILL).await? {
            true => Ok(()),
            false => Err(ProcessError::Outlived { pids: self.lock.holders(), waited: AFTER_KILL }),
        }
    }
}

impl host::ServiceProcess for ServiceProcess {
    fn alive(&self) -> Alive {
        match self.lock.is_held() {
            Ok(true) => Alive::Yes,
            Ok(false) => Alive::No,
            Err(error) => {
                tracing::warn!(%error, "could not look at the lock of the service");
                Alive::Unknown
            }
        }
    }

    fn tag(&self) -> Option<ReleaseTag> {
        self.lock.is_held().unwrap_or(false).then(|| self.lock.tag()).flatten()
    }

    fn start(
        &self,
        target: &Target,
        directory: &Path,
        fill: &dyn Fn(&str) -> String,
    ) -> Result<Started, ProcessError> {
        let argv: Vec<String> = self.spec.argv.iter().map(|word| fill(word)).collect();
        let program = Path::new(argv.first().map_or("", String::as_str));
        if program.components().count() > 1 {
            fs::metadata(program).map_err(FileError::at("find the program", program))?;
        }
        if let Some(parent) = self.log.parent() {
            fs::create_dir_all(parent).map_err(FileError::at("make the directory", parent))?;
        }
        let log = Place::of(&self.log).and_then(|place| place.append());
        let log = log.map_err(FileError::at("open the log", &self.log))?;
        let second = log.try_clone().map_err(FileError::at("open the log", &self.log))?;
        let lock = self.lock.take(target.tag.as_str()).map_err(FileError::at("lock", directory))?;
        let Some(lock) = lock else {
            return Err(ProcessError::Running { pids: self.lock.holders() });
        };
        let mut child = Command::from(launch::call())
            .args(&argv)
            .envs(self.spec.env.iter().map(|(name, value)| (name, fill(value))))
            .current_dir(self.spec.cwd.as_ref().map_or(directory, AbsolutePath::as_path))
            .stdin(Stdio::from(lock))
            .stdout(Stdio::from(log))
            .stderr(Stdio::from(second))
            .spawn()
            .map_err(FileError::at("start", program))?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or(0);
        let started = Started { pid, ticks: ticks(pid).unwrap_or(0) };
        let tag = target.tag.clone();
        // Its exit status must be read, or it stays in the process table.
        tokio::spawn(async move {
            match child.wait().await {
                Ok(status) => tracing::info!(pid, release = %tag, %status, "the service's process ended"),
                Err(error) => tracing::warn!(pid, %error, "could not wait for the service's process"),
            }
        });
        Ok(started)
    }

    fn stop<'a>(&'a self, started: Option<&'a Started>) -> BoxFuture<'a, Result<(), ProcessError>> {
        self.end(started).boxed()
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // Gone already is as good as signalled.
        let _ = rustix::process::kill_process(pid, signal);
    }
}
