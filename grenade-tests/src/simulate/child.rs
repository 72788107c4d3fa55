//! One schedule in a process of its own: nothing of it is left for the next, and one that breaks or hangs is just one that
//! failed.

use super::databases::Databases;
use super::interrupt;
use super::product_log;
use super::run::Outcome;
use super::scenario::Scenario;
use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A schedule that takes longer than this, of real time, hangs. Of the cores it may get only what others leave idle.
const HANGS: Duration = Duration::from_secs(300);

/// Has the system end this process with the thread that started it, also where the run is killed with SIGKILL.
///
/// # Errors
/// When the system refuses.
pub(super) fn end_with_the_run() -> std::io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Ends this process with exit code 1 where it hangs. The process that started it waits for the end of its output, and
/// needs no clock.
pub(super) fn end_where_it_hangs() {
    std::thread::spawn(|| {
        std::thread::sleep(HANGS);
        eprintln!("it did not end within {} s", HANGS.as_secs());
        std::process::exit(1);
    });
}

/// Names the guard that is switched off to `tidegate_proto::mutant`.
pub(super) const GUARD: &str = "TIDEGATE_MUTANT";

/// This program, also where a build has put another file at its path meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// What is played.
#[derive(Debug, Clone, Copy)]
pub(super) enum Play<'a> {
    /// What is drawn from a seed, with no other kinds of faults than these; none = all.
    Seed(u64, &'a [String]),
    /// This.
    Scenario(&'a Scenario),
}

/// What became of it.
#[derive(Debug)]
pub(super) enum Became {
    /// It was played to its end.
    Over(Box<Outcome>),
    /// The process failed, or did not end.
    Broke(String),
}

/// Which guards of the product are in place (feature `mutants`).
#[derive(Debug, Clone, Copy)]
pub(super) enum Guards<'a> {
    /// Those that the environment leaves.
    AsGiven,
    /// All.
    All,
    /// All but this one.
    Without(&'a str),
}

/// What a schedule needs beside what is played.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    /// Where its schemas lie.
    pub databases: &'a Databases,
    /// Which guards are in place.
    pub guards: Guards<'a>,
    /// Whether its event log is kept.
    pub log: bool,
    /// The core on which alone it runs; none = any.
    pub core: Option<usize>,
}

impl<'a> Setting<'a> {
    /// With the guards that the environment leaves, without a log, on any core.
    pub(super) fn of(databases: &'a Databases) -> Self {
        Self { databases, guards: Guards::AsGiven, log: false, core: None }
    }
}

/// Plays it.
///
/// # Errors
/// Where no process could be started for it, or the run was interrupted: it shows nothing, and another would not either.
pub(super) fn run(play: Play<'_>, setting: Setting<'_>) -> anyhow::Result<Became> {
    anyhow::ensure!(!interrupt::came(), "the run was interrupted");
    let became = try_run(play, setting).context("could not play a schedule");
    let is_over = matches!(became, Ok(Became::Over(_)));
    anyhow::ensure!(is_over || !interrupt::came_just_now(), "the run was interrupted");
    became
}

fn try_run(play: Play<'_>, setting: Setting<'_>) -> anyhow::Result<Became> {
    let lent = setting.databases.lend()?;
    let directory = lent.directory.path();
    let mut command = Command::new(THIS_PROGRAM);
    command.arg0("tidegate-simulate").arg("--one").current_dir(directory);
    match play {
        Play::Seed(seed, faults) => {
            if !faults.is_empty() {
                command.args(["--only-faults", &faults.join(",")]);
            }
            command.args(["--seed", &seed.to_string()])
        }
        Play::Scenario(scenario) => {
            let file = directory.join("scenario.json");
            std::fs::write(&file, serde_json::to_vec(scenario)?)?;
            command.arg("--replay").arg(file)
        }
    };
    match setting.guards {
        Guards::AsGiven => {}
        Guards::All => drop(command.env_remove(GUARD)),
        Guards::Without(guard) => drop(command.env(GUARD, guard)),
    }
    if let Some(core) = setting.core {
        command.args(["--core", &core.to_string()]);
    }
    if setting.log {
        command.arg("--log");
    }
    command.envs(lent.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = command.spawn().with_context(|| format!("could not start {THIS_PROGRAM}"))?;
    let ended = started.wait_with_output()?;
    if product_log::is_asked_for() {
        // Where standard error is closed, the log is lost.
        let _ = std::io::stderr().write_all(&ended.stderr);
    }
    if !ended.status.success() {
        let said = product_log::without(&String::from_utf8_lossy(&ended.stderr));
        return Ok(Became::Broke(format!("{}: {said}", ended.status)));
    }
    Ok(Became::Over(Box::new(serde_json::from_slice(&ended.stdout)?)))
}
