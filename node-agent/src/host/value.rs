//! What a node is asked for and what it answers, as plain values.

use crate::config::settings::Artifact;
use serde::{Deserialize, Serialize};
use tidegate_proto::record::task::Outcome;
use tidegate_proto::{Digest, Release, ReleaseTag, ServiceVersion, mutant};

/// How many characters of a program's output are quoted in a reason.
const QUOTED: usize = 300;

/// What is to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub tag: ReleaseTag,
    /// The version that it carries.
    pub version: ServiceVersion,
    /// The digest that its artifact must have; absent for a release that only this node's own configuration names.
    pub sha256: Option<Digest>,
}

impl From<&Release> for Target {
    fn from(release: &Release) -> Self {
        Self { tag: release.tag.clone(), version: release.version, sha256: Some(release.sha256) }
    }
}

impl Target {
    /// A release that the configuration knows.
    pub fn of_artifact(tag: &ReleaseTag, artifact: &Artifact) -> Self {
        Self { tag: tag.clone(), version: artifact.version, sha256: artifact.sha256 }
    }
}

/// Whether the service's process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alive {
    /// It does.
    Yes,
    /// It does not: nothing holds its lock.
    No,
    /// Nothing listens where it should answer, and there is no lock that shows whether it runs all the same.
    Silent,
    /// It is not known.
    Unknown,
}

/// The state of a hook, as an agent finds it that did not see its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookState {
    /// It was not begun since the last stop.
    NotBegun,
    Runs,
    /// It was not begun since the last stop, and another hook of the same set runs.
    OtherRuns,
    /// It was begun and runs no more; how it ended is not known.
    Ended,
    /// The machine was rebooted since any hook was begun.
    EarlierBoot,
}

/// A process that the agent started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Its id, and that of its group and session.
    pub pid: i32,
    /// When it started, in the kernel's ticks since boot: with the pid, a name that is not given twice.
    pub ticks: u64,
}

/// A program that ended.
#[derive(Debug)]
pub struct Done {
    /// Whether it said so by its exit code.
    pub success: bool,
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// Its exit code, or the signal that ended it, for people.
    pub ending: String,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained about.
    pub stderr: Vec<u8>,
}

impl Done {
    /// Its ending and the end of its output, for people.
    pub fn words(&self) -> String {
        let said = if self.stderr.is_empty() { &self.stdout } else { &self.stderr };
        let said = String::from_utf8_lossy(said);
        let most = if mutant::is("failure-texts-are-unbounded") { usize::MAX } else { QUOTED };
        let last: String =
            said.trim().chars().rev().take(most).collect::<Vec<_>>().into_iter().rev().collect();
        if last.is_empty() { self.ending.clone() } else { format!("{}: {last}", self.ending) }
    }
}

/// How a task ended, as it is reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskEnd {
    pub outcome: Outcome,
    /// The last that the hook printed.
    #[serde(default)]
    pub output: String,
}

impl TaskEnd {
    /// Without output.
    pub fn short(outcome: Outcome) -> Self {
        Self { outcome, output: String::new() }
    }
}

#[derive(Debug, PartialEq)]
pub enum RunState {
    /// The hook has not begun, and no runner is about to begin it.
    NotBegun,
    Runs,
    /// It has ended.
    Ended(TaskEnd),
    /// It may have run, and how it ended cannot be found out.
    Lost(String),
}
