//! The runner of a task's hook: this program, called again, which waits for the hook within its time limit and writes its
//! outcome. So the agent may end and start meanwhile. The state of a run, by what is found:
//!
//! | `outcome.json` | the lock | |
//! |---|---|---|
//! | there | | it has ended so |
//! | | never taken, or never signed and free | it has not begun |
//! | | signed, or held | it runs, while its runner does; else its outcome is unknown |

use crate::host::RunState;
use crate::host::{Done, TaskEnd, TaskRuns};
use crate::replace::lock::RunningLock;
use crate::replace::{command, launch};
use crate::{durable, identity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tidegate_proto::record::task::{MAX_OUTPUT, Outcome};
use tidegate_proto::{Chain, TaskId};

/// The hidden subcommand with which the agent starts the runner.
pub const WORD: &str = "run-task";

/// The most characters of a hook's last line that the reason of its failure contains.
const LAST_LINE: usize = 300;

/// How a hook ended, as its runner writes it down.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    success: bool,
    why: String,
    output: String,
}

/// Where tasks are run: a directory for each.
#[derive(Debug, Clone)]
pub struct Runs(PathBuf);

impl Runs {
    /// Those within `home`.
    pub fn within(home: &Path) -> Self {
        Self(home.to_owned())
    }

    fn of(&self, id: &TaskId) -> PathBuf {
        self.0.join(id.as_str())
    }
}

impl TaskRuns for Runs {
    fn look(&self, id: &TaskId, boot: &str) -> RunState {
        let lock = lock(&self.of(id));
        let rebooted = || RunState::Lost("the machine was rebooted while the hook ran".to_owned());
        let stand = match lock.written() {
            None if identity::boot().is_ok_and(|now| now == boot) => RunState::NotBegun,
            None => rebooted(),
            Some(written) if !written.this_boot => rebooted(),
            Some(written) if written.leader.is_none() => match lock.is_locked() {
                Ok(false) => RunState::NotBegun,
                Ok(true) | Err(_) => RunState::Runs,
            },
            Some(_) if lock.leader().is_some() => RunState::Runs,
            Some(_) => {
                let left = lock.is_locked().unwrap_or(true);
                let left =
                    if left { "a process that it started still runs" } else { "none of its processes runs" };
                RunState::Lost(format!("the process that waited for the hook was killed; {left}"))
            }
        };
        // Asked last: a runner writes it down before it ends.
        match read(&self.of(id)) {
            Some(written) => RunState::Ended(written.into_end()),
            None => stand,
        }
    }

    fn start(
        &self,
        id: &TaskId,
        argv: &[String],
        env: &BTreeMap<String, String>,
        limit: Duration,
    ) -> io::Result<()> {
        let directory = self.of(id);
        fs::create_dir_all(&directory)?;
        let taken = lock(&directory).take(id.as_str())?;
        let taken =
            taken.ok_or_else(|| io::Error::other("something of an earlier run still holds its lock"))?;
        let mut child = tokio::process::Command::new("/proc/self/exe")
            .arg(WORD)
            .arg("--directory")
            .arg(&directory)
            .arg("--limit-ms")
            .arg(limit.as_millis().to_string())
            .arg("--")
            .args(argv)
            .envs(env)
            .stdin(Stdio::from(taken))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // Its exit status must be read, or it stays in the process table.
        tokio::spawn(async move { child.wait().await });
        Ok(())
    }

    fn forget(&self, id: &TaskId) {
        forget(&self.of(id));
    }

    fn forget_all_but(&self, active: Option<&TaskId>) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.path().is_dir());
        for entry in directories.filter(|entry| active.is_none_or(|id| entry.file_name() != id.as_str())) {
            forget(&entry.path());
        }
    }
}

fn forget(directory: &Path) {
    if let Err(error) = fs::remove_dir_all(directory)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(directory = %directory.display(), %error, "could not remove what was kept of a task");
    }
}

fn lock(directory: &Path) -> RunningLock {
    RunningLock::named(directory, "run.lock")
}

fn outcome(directory: &Path) -> PathBuf {
    directory.join("outcome.json")
}

fn read(directory: &Path) -> Option<Written> {
    serde_json::from_slice(&fs::read(outcome(directory)).ok()?).ok()
}

impl Written {
    fn of(done: &Done) -> Self {
        let output = output(done);
        let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let last: String = last.trim().chars().take(LAST_LINE).collect();
        let why = if last.is_empty() { done.ending.clone() } else { format!("{}: {last}", done.ending) };
        Self { success: done.success, why, output }
    }

    fn into_end(self) -> TaskEnd {
        let outcome = if self.success { Outcome::Succeeded } else { Outcome::Failed { why: self.why } };
        TaskEnd { outcome, output: self.output }
    }
}

/// The end of what it printed, and of what it complained about: text that no terminal obeys, within [`MAX_OUTPUT`].
fn output(done: &Done) -> String {
    let parts = [&done.stdout, &done.stderr].map(|bytes| plain(bytes));
    let each = if parts.iter().any(String::is_empty) { MAX_OUTPUT } else { MAX_OUTPUT / 2 };
    parts.iter().map(|part| tail(part, each)).collect()
}

fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// The end of a text: at most `most` bytes.
pub(super) fn tail(text: &str, most: usize) -> &str {
    let mut from = text.len().saturating_sub(most);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

/// Is the runner: holds the lock that it was given as its standard input, waits for the hook, writes down how it ended.
///
/// # Errors
/// Where it could not begin, or not write; then the outcome of the hook is unknown.
pub fn become_runner(directory: &Path, limit: Duration, argv: &[String]) -> io::Result<()> {
    launch::detach()?;
    let own = i32::try_from(std::process::id()).ok();
    if lock(directory).leader() != own {
        return Err(io::Error::other("could not sign the lock"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let written = runtime.block_on(async {
        match command::run(argv, limit).await {
            Ok(done) => Written::of(&done),
            Err(error) => Written { success: false, why: Chain(&error).to_string(), output: String::new() },
        }
    });
    durable::replace(&outcome(directory), &serde_json::to_vec(&written)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(stdout: &[u8], stderr: &[u8]) -> Done {
        let ending = "exit status: 3".to_owned();
        Done { success: false, code: None, ending, stdout: stdout.to_vec(), stderr: stderr.to_vec() }
    }

    #[test]
    fn output_is_bounded_and_no_terminal_obeys_it() {
        let long = "ä".repeat(MAX_OUTPUT);
        for (stdout, stderr) in [(long.as_bytes(), &b""[..]), (long.as_bytes(), long.as_bytes())] {
            let written = Written::of(&done(stdout, stderr));
            assert!(written.output.len() <= MAX_OUTPUT && written.output.len() > MAX_OUTPUT - 4);
            assert!(written.why.len() <= LAST_LINE * 2 + 20, "{}", written.why.len());
        }
        let written = Written::of(&done(b"pulled\n", b"\x1b[2J\xffno space left\n\n"));
        assert_eq!(written.output, "pulled\n\u{fffd}[2J\u{fffd}no space left\n\n");
        assert_eq!(written.why, "exit status: 3: \u{fffd}[2J\u{fffd}no space left");
        assert_eq!(Written::of(&done(b"", b"")).why, "exit status: 3");
    }

    #[test]
    fn state_of_a_run_follows_from_its_files() {
        let room = tempfile::tempdir().unwrap();
        let (runs, id) = (Runs::within(room.path()), "t".parse::<TaskId>().unwrap());
        let boot = identity::boot().unwrap();
        let lost = |stand: RunState, end: &str| match stand {
            RunState::Lost(why) => assert!(why.contains(end), "{why}"),
            other => panic!("{other:?}"),
        };
        assert_eq!(runs.look(&id, &boot), RunState::NotBegun);
        lost(runs.look(&id, "another"), "rebooted");

        let directory = runs.of(&id);
        fs::create_dir_all(&directory).unwrap();
        let held = lock(&directory).take("t").unwrap().unwrap();
        assert_eq!(runs.look(&id, &boot), RunState::Runs, "it is about to sign");
        drop(held);
        assert_eq!(runs.look(&id, &boot), RunState::NotBegun, "it ended before it had signed");

        let sign = |boot: &str, pid: u32, ticks: u64| {
            fs::write(directory.join("run.lock"), format!("t {boot}\n{pid} {ticks}\n")).unwrap();
        };
        let own = std::process::id();
        let ticks = crate::replace::proc_stat::ticks(i32::try_from(own).unwrap()).unwrap();
        sign(&boot, own, ticks);
        assert_eq!(runs.look(&id, &boot), RunState::Runs);
        sign(&boot, own, ticks + 1);
        lost(runs.look(&id, &boot), "none of its processes runs");
        sign("another", own, ticks);
        lost(runs.look(&id, &boot), "rebooted");

        let end = Written { success: true, why: "exit status: 0".into(), output: "o".into() };
        fs::write(outcome(&directory), serde_json::to_vec(&end).unwrap()).unwrap();
        let ended = TaskEnd { outcome: Outcome::Succeeded, output: "o".into() };
        assert_eq!(runs.look(&id, &boot), RunState::Ended(ended));
        runs.forget_all_but(Some(&id));
        assert!(directory.is_dir());
        runs.forget_all_but(None);
        assert_eq!(runs.look(&id, &boot), RunState::NotBegun);
    }
}
