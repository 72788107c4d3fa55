//! Many schedules, each in a process of its own: nothing of one is left for the next, and one that breaks or hangs is just
//! one that failed.

use super::draw;
use super::run::{Outcome, run};
use super::scenario::Scenario;
use super::world::{schema_name, variable};
use clap::Parser;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A schedule that takes longer than this, of real time, hangs.
const HANGS: Duration = Duration::from_secs(120);

/// Runs random worlds in simulated time: real coordinators, agents, store and migrations; random services, upgrades, faults
/// and commands; judged from outside. The same seed gives the same run.
///
/// Exit code 0: no rule was broken; 1: one was; 2: the arguments are wrong.
#[derive(Debug, Parser)]
#[command(name = "tidegate-simulate")]
pub struct Arguments {
    /// How many schedules to run; seeds are counted up from --seed
    #[arg(long, default_value_t = 100)]
    schedules: u64,
    /// First seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Processes at a time; default: as many as there are cores
    #[arg(long)]
    jobs: Option<usize>,
    /// No further schedule begins after so many seconds
    #[arg(long, value_name = "SECONDS")]
    within: Option<u64>,
    /// Tell what happens in the schedule of --seed, line by line
    #[arg(long)]
    story: bool,
    /// Play a scenario from a file (JSON) instead of drawing it from the seed
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Print the scenario of --seed as JSON, for --replay, and run nothing
    #[arg(long)]
    scenario: bool,
    /// Print one line with seed and digest for each schedule
    #[arg(long)]
    digests: bool,
    /// Run one schedule in this process and print its outcome as JSON
    #[arg(long, hide = true)]
    one: bool,
    /// Stay on this core: what one thread hands to another then wakes no other core
    #[arg(long, hide = true)]
    core: Option<usize>,
}

/// What a process does to have everything follow from a seed.
#[derive(Clone, Copy)]
pub struct Fix {
    /// Chance, before the runtime is made.
    pub chance: fn(u64),
    /// The wall clock, within the runtime.
    pub clock: fn(),
}

/// Runs what was asked for.
pub fn main(arguments: Arguments, fix: Fix) -> ExitCode {
    let done = match (&arguments.one, &arguments.scenario) {
        (true, _) => one(&arguments, fix),
        (_, true) => drawn(&arguments).and_then(|scenario| {
            println!("{}", serde_json::to_string_pretty(&scenario)?);
            Ok(ExitCode::SUCCESS)
        }),
        _ => all(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("tidegate-simulate: {error:#}");
        ExitCode::from(2)
    })
}

fn drawn(arguments: &Arguments) -> anyhow::Result<Scenario> {
    match &arguments.replay {
        None => Ok(draw::scenario(arguments.seed)),
        Some(path) => Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?),
    }
}

/// How long a statement takes: some 20 ms, so that each phase of a schema lasts for long enough to be disturbed.
fn statement() -> Duration {
    Duration::from_millis(rand::random_range(1..=40))
}

/// One schedule, here: the current directory is its own.
fn one(arguments: &Arguments, fix: Fix) -> anyhow::Result<ExitCode> {
    let (scenario, story) = (drawn(arguments)?, arguments.story);
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_writer(std::io::stderr)
            .without_time()
            .init();
    }
    if let Some(core) = arguments.core {
        let mut only = rustix::thread::CpuSet::new();
        only.set(core);
        // Where that is not allowed it is slower, and the same.
        let _ = rustix::thread::sched_setaffinity(None, &only);
    }
    tidegate_migrations::held::hold_the_runtime(statement);
    // A thread of its own: tables that were made before have other keys.
    let played = std::thread::spawn(move || -> anyhow::Result<Outcome> {
        (fix.chance)(scenario.seed);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        runtime.block_on(async {
            (fix.clock)();
            run(scenario, Path::new("."), story).await
        })
    });
    let outcome = played.join().map_err(|_| anyhow::anyhow!("it broke"))??;
    println!("{}", serde_json::to_string(&outcome)?);
    // What is left of the world ends with the process.
    std::io::stdout().flush()?;
    Ok(ExitCode::SUCCESS)
}

/// What became of one seed.
enum Became {
    Over(Box<Outcome>),
    Broke(String),
}

fn all(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let schedules = if arguments.story || arguments.replay.is_some() { 1 } else { arguments.schedules };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.unwrap_or(cores).max(1);
    let began = Instant::now();
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let tally = Mutex::new(Tally::default());
    let shows = std::io::stderr().is_terminal();
    std::thread::scope(|scope| {
        for job in 0..jobs {
            let (next, stop, tally) = (&next, &stop, &tally);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    let late = arguments.within.is_some_and(|most| began.elapsed().as_secs() >= most);
                    if n >= schedules || late {
                        break;
                    }
                    let seed = arguments.seed + n;
                    let became = child(arguments, seed, (jobs == cores).then_some(job))
                        .unwrap_or_else(|error| Became::Broke(format!("{error:#}")));
                    let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    tally.take_in(arguments, seed, became);
                    if shows {
                        eprint!("\r{} of {schedules} schedules, {} failed ", tally.done, tally.failed.len());
                    }
                }
            });
        }
    });
    if shows {
        eprintln!();
    }
    let tally = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !arguments.story {
        tally.print(began.elapsed(), jobs.min(cores));
    }
    Ok(ExitCode::from(u8::from(!tally.failed.is_empty())))
}

/// Runs one schedule in a process of its own.
fn child(arguments: &Arguments, seed: u64, core: Option<usize>) -> anyhow::Result<Became> {
    let directory = room()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--one", "--seed", &seed.to_string()]).current_dir(directory.path());
    if let Some(core) = core {
        command.args(["--core", &core.to_string()]);
    }
    if arguments.story {
        command.arg("--story");
    }
    if let Some(path) = &arguments.replay {
        command.arg("--replay").arg(std::path::absolute(path)?);
    }
    for schema in 0..4 {
        command.env(variable(schema), format!("sqlite://{}.sqlite", schema_name(schema)));
    }
    let errors = directory.path().join("errors");
    let logs = std::env::var_os("RUST_LOG").is_some();
    let stderr = if logs { Stdio::inherit() } else { Stdio::from(std::fs::File::create(&errors)?) };
    let out = directory.path().join("outcome");
    command.stdin(Stdio::null()).stdout(std::fs::File::create(&out)?).stderr(stderr);
    let mut process = command.spawn()?;
    let end = Instant::now() + HANGS;
    let status = loop {
        if let Some(status) = process.try_wait()? {
            break status;
        }
        if Instant::now() >= end {
            process.kill()?;
            process.wait()?;
            return Ok(Became::Broke(format!("it did not end within {} s", HANGS.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    if !status.success() {
        let said = std::fs::read_to_string(&errors).unwrap_or_default();
        return Ok(Became::Broke(format!("{status}: {}", said.trim())));
    }
    Ok(Became::Over(Box::new(serde_json::from_str(&std::fs::read_to_string(&out)?)?)))
}

/// A directory in memory where there is one.
fn room() -> std::io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()),
        false => tempfile::tempdir(),
    }
}

/// What many schedules came to.
#[derive(Default)]
struct Tally {
    done: u64,
    failed: BTreeMap<u64, Vec<String>>,
    reached: BTreeMap<String, u64>,
    ended: BTreeMap<String, u64>,
    fired: BTreeMap<(String, String), u64>,
    simulated_ms: u64,
    revisions: u64,
}

impl Tally {
    fn take_in(&mut self, arguments: &Arguments, seed: u64, became: Became) {
        self.done += 1;
        let outcome = match became {
            Became::Broke(why) => {
                eprintln!("\rseed {seed}: {why}");
                self.failed.insert(seed, vec![why]);
                return;
            }
            Became::Over(outcome) => outcome,
        };
        outcome.story.iter().for_each(|line| println!("{line}"));
        if arguments.digests {
            println!("{seed} {}", outcome.digest);
        }
        let broken: Vec<String> = (outcome.breaches.iter())
            .map(|breach| {
                let at = breach.at;
                format!("{}.{:03} rule {}: {}", at / 1000, at % 1000, breach.rule, breach.what)
            })
            .collect();
        if let Some(first) = broken.first() {
            eprintln!("\rseed {seed}: {first}{}", if broken.len() > 1 { " …" } else { "" });
            self.failed.insert(seed, broken);
        }
        outcome.reached.iter().for_each(|phase| *self.reached.entry(phase.clone()).or_default() += 1);
        for how in &outcome.ended {
            let how = how.split_once(": ").map_or(how.as_str(), |(_, how)| how);
            let how = how.split(':').next().unwrap_or(how);
            *self.ended.entry(how.to_owned()).or_default() += 1;
        }
        outcome.fired.into_iter().for_each(|fired| *self.fired.entry(fired).or_default() += 1);
        self.simulated_ms += outcome.simulated_ms;
        self.revisions += outcome.revisions as u64;
    }

    fn print(&self, took: Duration, cores: usize) {
        let seconds = took.as_secs_f64().max(0.001);
        #[expect(clippy::cast_precision_loss, reason = "a rate that people read")]
        let rate = self.done as f64 / seconds / cores as f64;
        println!(
            "{} schedules in {seconds:.1} s: {rate:.1} per second and core; {} h simulated, {} revisions",
            self.done,
            self.simulated_ms / 3_600_000,
            self.revisions
        );
        println!("reached, by schedules:");
        self.reached.iter().for_each(|(phase, n)| println!("  {phase:<14} {n}"));
        println!("upgrades ended:");
        self.ended.iter().for_each(|(how, n)| println!("  {how:<14} {n}"));
        println!("mishaps, by phase:");
        let kinds: std::collections::BTreeSet<&String> = self.fired.keys().map(|(kind, _)| kind).collect();
        print!("  {:<22}", "");
        draw::PHASES.iter().for_each(|phase| print!(" {:>9}", &phase[..phase.len().min(9)]));
        println!();
        for kind in kinds {
            print!("  {kind:<22}");
            for phase in draw::PHASES {
                print!(" {:>9}", self.fired.get(&(kind.clone(), phase.to_owned())).copied().unwrap_or(0));
            }
            println!();
        }
        match self.failed.is_empty() {
            true => println!("no rule was broken"),
            false => {
                println!("{} of {} schedules failed:", self.failed.len(), self.done);
                for (seed, broken) in self.failed.iter().take(40) {
                    let first: Vec<&str> = broken.iter().take(3).map(String::as_str).collect();
                    println!("  seed {seed}: {}", first.join("\n    "));
                }
            }
        }
    }
}
