//! The agent as a process.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate-agent");

pub(crate) struct Agent(Child);

impl Agent {
    pub(crate) fn start(config: &Path, log: &Path, env: &[(&str, &str)]) -> Self {
        let log = OpenOptions::new().append(true).create(true).open(log).unwrap();
        let child = Command::new(PROGRAM)
            .arg("run")
            .arg("--config")
            .arg(config)
            .env("RUST_LOG", "tidegate_agent=debug,info")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// As sudden as a power cut.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_raw(self.0.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// How it ended, once it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + super::LONG;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(Instant::now() < end, "the agent did not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
