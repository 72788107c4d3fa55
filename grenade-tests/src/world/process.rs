//! One process of a world: its own group, its output in a file, ended when dropped.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::world::wait::wait_for;
use crate::world::{Host, WorldError, program};

/// How much of a log is quoted in an error, in bytes.
const TAIL: usize = 1500;

/// What git exports to its hooks: in a process of ours it would name the repository and the index of a commit that is under
/// way.
const OF_A_REPOSITORY: [&str; 15] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// What is to be started.
#[derive(Debug, Clone)]
pub struct Spawn {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    user: Option<(u32, u32)>,
    dir: Option<PathBuf>,
    namespace: Option<PathBuf>,
    ends_with_starter: bool,
}

impl Spawn {
    /// The program, under a name that is this world's own.
    pub fn new(name: &str, program: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            user: None,
            dir: None,
            namespace: None,
            ends_with_starter: false,
        }
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    pub fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// One variable of its environment, beside those that it inherits.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Another user and group to run as.
    pub fn user(mut self, user: u32, group: u32) -> Self {
        self.user = Some((user, group));
        self
    }

    /// The host that it runs on.
    pub fn on(mut self, host: &Host) -> Self {
        self.namespace.clone_from(&host.namespace);
        self
    }

    /// The system sends it SIGINT when the thread that starts it ends, also where this process is killed with SIGKILL.
    pub fn ends_with_starter(mut self) -> Self {
        self.ends_with_starter = true;
        self
    }

    /// The program as it is started: `setpriv` becomes the program where it ends with its starter, and `nsenter` in another
    /// network namespace, so that its pid is the program's.
    fn command(&self) -> Result<Command, WorldError> {
        let setpriv = self.ends_with_starter.then(|| program::outside("setpriv")).transpose()?;
        let mut command = self.entered(setpriv.as_ref().unwrap_or(&self.program))?;
        if setpriv.is_some() {
            command.args(["--pdeathsig", "INT", "--"]).arg(&self.program);
        }
        Ok(command)
    }

    /// A program as its user in its network namespace.
    fn entered(&self, program: &Path) -> Result<Command, WorldError> {
        let Some(namespace) = &self.namespace else {
            let mut command = Command::new(program);
            if let Some((user, group)) = self.user {
                command.uid(user).gid(group);
            }
            return Ok(command);
        };
        let mut command = Command::new(program::outside("nsenter")?);
        command.arg(format!("--net={}", namespace.display()));
        if let Some((user, group)) = self.user {
            command.arg(format!("--setuid={user}")).arg(format!("--setgid={group}"));
        }
        command.arg("--").arg(program);
        Ok(command)
    }

    /// The directory that it starts in.
    pub fn dir(mut self, dir: &Path) -> Self {
        self.dir = Some(dir.to_owned());
        self
    }
}

/// The end of a log; empty where there is none.
pub fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(TAIL)..]).trim().to_owned()
}

/// A process of this world.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    pid: Pid,
    log: PathBuf,
}

impl Process {
    /// Starts it with its output appended to `<dir>/<name>.log`.
    pub(crate) fn start(spawn: Spawn, dir: &Path) -> Result<Self, WorldError> {
        let log = dir.join(format!("{}.log", spawn.name));
        let failed = |source| WorldError::Process { tried: "start", name: spawn.name.clone(), source };
        let out = File::options().create(true).append(true).open(&log).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        let mut command = spawn.command()?;
        for name in OF_A_REPOSITORY {
            command.env_remove(name);
        }
        command
            .args(&spawn.args)
            // An error is a sentence; where it came from is asked of a panic only.
            .env("RUST_LIB_BACKTRACE", "0")
            .envs(spawn.env.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        if let Some(dir) = &spawn.dir {
            command.current_dir(dir);
        }
        let child = command.spawn().map_err(failed)?;
        let pid = Pid::from_child(&child);
        Ok(Self { name: spawn.name, child, pid, log })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file with its output.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The end of its output.
    pub fn tail(&self) -> String {
        tail(&self.log)
    }

    /// How it ended, or `None` while it runs. One that the sweep reaped before us counts as killed.
    pub fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(_) => Some("an end that another process saw".to_owned()),
        }
    }

    /// An error if it has ended: a service that is waited for must not be waited for in vain.
    ///
    /// # Errors
    /// [`WorldError::Ended`].
    pub fn must_run(&mut self) -> Result<(), WorldError> {
        match self.ended() {
            None => Ok(()),
            Some(status) => Err(WorldError::Ended { name: self.name.clone(), status, tail: self.tail() }),
        }
    }

    /// Sends a signal to the process alone, not to its group.
    ///
    /// # Errors
    /// When there is no such process any more.
    pub fn signal(&self, signal: Signal) -> Result<(), WorldError> {
        kill_process(self.pid, signal).map_err(|e| WorldError::Process {
            tried: "signal",
            name: self.name.clone(),
            source: e.into(),
        })
    }

    /// Freezes it (SIGSTOP).
    ///
    /// # Errors
    /// As [`Process::signal`].
    pub fn freeze(&self) -> Result<(), WorldError> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// As [`Process::signal`].
    pub fn thaw(&self) -> Result<(), WorldError> {
        self.signal(Signal::CONT)
    }

    /// kill -9 of the process alone, as a crash would end it; what it started lives on.
    ///
    /// # Errors
    /// As [`Process::signal`].
    pub fn crash(&mut self) -> Result<(), WorldError> {
        self.signal(Signal::KILL)?;
        // Killed for certain: the wait ends, or the sweep has reaped it.
        let _ = self.child.wait();
        Ok(())
    }

    /// Waits for its end; answers how it ended.
    ///
    /// # Errors
    /// [`WorldError::Late`] if it still runs after `limit`.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus, WorldError> {
        let what = format!("the end of {}", self.name);
        let child = std::sync::Mutex::new(&mut self.child);
        wait_for(&what, limit, || async {
            let mut child = child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match child.try_wait() {
                Ok(Some(status)) => Ok(status),
                Ok(None) => Err("it runs".to_owned()),
                Err(e) => Err(e.to_string()),
            }
        })
        .await
    }

    /// Kills what it started and left running, once it has ended.
    pub fn end_group(&self) {
        // Without such processes there is no group any more.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }

    /// Asks it to end with `signal`; kills it after `limit`. Answers how it ended.
    ///
    /// # Errors
    /// When it cannot be signalled or does not even end when killed.
    pub async fn stop(mut self, signal: Signal, limit: Duration) -> Result<ExitStatus, WorldError> {
        self.signal(signal)?;
        match self.wait(limit).await {
            Err(WorldError::Late { .. }) => {
                tracing::warn!(name = self.name, "did not end by itself and is killed");
                self.signal(Signal::KILL)?;
                self.wait(limit).await
            }
            other => other,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            // Its group too: a shell that was asked for, say, has children.
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
