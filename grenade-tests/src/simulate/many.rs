//! Many schedules, one after the other on each core, and what they came to.

use super::child::{self, Became, Play, Setting};
use super::coordinator;
use super::coverage::{Counted, gaps};
use super::database::{self, server};
use super::databases::Databases;
use super::draw;
use super::falsify::report::judge_the_judge;
use super::judge::Breach;
use super::run::run;
use super::scenario::Scenario;
use super::seeded;
use super::shrink::{Kind, shrink};
use super::source::Source;
use clap::Parser;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tidegate_migrations::held::{Simulated, hold_the_runtime};

/// The stack of a schedule in bytes: without optimisation, a future that holds many others needs more than the 2 MiB of a thread.
const STACK: usize = 32 << 20;

/// Runs random worlds in simulated time: real coordinators, agents, store and migrations; random services, upgrades, faults
/// and commands; judged from outside. The same seed gives the same run.
///
/// Exit code 0: no rule was broken; 1: one was; 2: the arguments are wrong.
#[derive(Debug, Parser)]
#[command(name = "tidegate-simulate")]
pub struct Arguments {
    /// How many schedules to run; seeds are counted up from --seed
    #[arg(long, default_value_t = 100)]
    pub(super) schedules: u64,
    /// First seed
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Processes at a time; default: as many as there are cores
    #[arg(long)]
    pub(super) jobs: Option<usize>,
    /// No further schedule begins after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(super) within: Option<u64>,
    /// Keep the schemas in databases of a private PostgreSQL server instead of SQLite files: one server for the whole run,
    /// started before the first schedule and ended with the run; needs PostgreSQL 14 or newer (initdb, postgres, pg_dump,
    /// psql) and setpriv of util-linux. A seed means the same schedule as without this option
    #[arg(long)]
    pub(super) postgres: bool,
    /// Print the event log of the schedule of --seed
    #[arg(long)]
    log: bool,
    /// Play a scenario from a file (JSON) instead of drawing it from the seed
    #[arg(long, value_name = "FILE")]
    pub(super) replay: Option<PathBuf>,
    /// Play plans for this gate file: those that `grenade explore` draws, each from its seed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["replay", "without", "only_faults"])]
    pub(super) gate: Option<PathBuf>,
    /// Play this plan, with what each seed decides beside it: latencies, the order of messages
    #[arg(long, value_name = "FILE", requires = "gate")]
    pub(super) plan: Option<PathBuf>,
    /// Leave out of the failing schedule of --seed, or of --replay, what its failure does not need; write what is left as a
    /// scenario to this file, and print its event log
    #[arg(long, value_name = "FILE")]
    shrink: Option<PathBuf>,
    /// Switch this guard of the product off (a build with --features mutants), and stop at the first schedule that breaks
    /// a rule and breaks none with every guard in place; exit 1 where there is none
    #[arg(long, value_name = "GUARD", conflicts_with_all = ["log", "replay", "shrink", "scenario"])]
    pub(super) without: Option<String>,
    /// Draw no other kinds of faults than these
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = draw::kind_named)]
    pub(super) only_faults: Vec<String>,
    /// Draw schedules near kept scenarios: each takes a scenario of this directory (JSON files, sorted by name) by its seed,
    /// and one to three more faults. A seed means another schedule once the directory has another file; --scenario prints
    /// what it means
    #[arg(long, value_name = "DIR", conflicts_with_all = ["replay", "gate", "only_faults"])]
    pub(super) near: Option<PathBuf>,
    /// Falsify small worlds in every way that is known, and look whether the judge finds each out; exit 1 where it does not
    #[arg(long)]
    judge_the_judge: bool,
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
    let done = if arguments.one { one(&arguments, fix) } else { asked_for(&arguments) };
    done.unwrap_or_else(|error| {
        eprintln!("tidegate-simulate: {error:#}");
        ExitCode::from(2)
    })
}

fn asked_for(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.scenario {
        println!("{}", serde_json::to_string_pretty(&drawn(arguments)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let jobs = jobs(arguments);
    let databases = Databases::of(arguments.postgres, jobs)?;
    match (&arguments.shrink, &arguments.without) {
        _ if arguments.judge_the_judge => judge_the_judge(&databases, jobs),
        (Some(file), _) => smallest(arguments, &databases, file),
        (None, Some(guard)) => {
            let source = Source::of(arguments)?;
            seeded::search(arguments, &databases, guard, |seed, setting| source.play(seed, setting))
        }
        (None, None) => all(arguments, &databases),
    }
}

fn drawn(arguments: &Arguments) -> anyhow::Result<Scenario> {
    Source::of(arguments)?.scenario(arguments.seed)
}

/// One schedule, here: the current directory is its own.
fn one(arguments: &Arguments, fix: Fix) -> anyhow::Result<ExitCode> {
    child::end_with_the_run()?;
    let (scenario, log) = (drawn(arguments)?, arguments.log);
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
    child::end_where_it_hangs();
    let server = server::of_environment()?;
    hold_the_runtime(Simulated { takes: database::statement, goes_on: coordinator::goes_on, server });
    // A thread of its own: tables that were made before have other keys.
    let play = move || -> anyhow::Result<Infallible> {
        (fix.chance)(scenario.seed);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        let outcome = runtime.block_on(async {
            (fix.clock)();
            run(scenario, Path::new("."), log).await
        })?;
        println!("{}", serde_json::to_string(&outcome)?);
        std::io::stdout().flush()?;
        // What is left of the world ends with the process: to take it apart first is work for nothing.
        std::process::exit(0)
    };
    let played = std::thread::Builder::new().stack_size(STACK).spawn(play)?;
    match played.join() {
        Ok(Err(error)) => Err(error),
        Err(_) => anyhow::bail!("it broke"),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How many processes run at a time.
pub(super) fn jobs(arguments: &Arguments) -> usize {
    arguments.jobs.unwrap_or_else(cores).max(1)
}

fn all(arguments: &Arguments, databases: &Databases) -> anyhow::Result<ExitCode> {
    let source = Source::of(arguments)?;
    let schedules = if arguments.log || source.is_one() { 1 } else { arguments.schedules };
    let (jobs, cores) = (jobs(arguments), cores());
    let began = Instant::now();
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let tally = Mutex::new(Tally::default());
    let shows = std::io::stderr().is_terminal();
    std::thread::scope(|scope| {
        for job in 0..jobs {
            let (source, next, stop, tally) = (&source, &next, &stop, &tally);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    let late = arguments.within.is_some_and(|most| began.elapsed().as_secs() >= most);
                    if n >= schedules || late {
                        break;
                    }
                    let seed = arguments.seed + n;
                    let core = (jobs == cores).then_some(job);
                    let setting = Setting { log: arguments.log, core, ..Setting::of(databases) };
                    let became = source.play(seed, setting);
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
    let gaps = if source.draws_everything() { tally.gaps() } else { Vec::new() };
    if !arguments.log {
        tally.print(began.elapsed(), jobs.min(cores), &gaps);
    }
    let is_good = tally.failed.is_empty() && gaps.is_empty();
    Ok(ExitCode::from(u8::from(!is_good)))
}

/// Makes what fails as small as it still fails in the same way.
fn smallest(arguments: &Arguments, databases: &Databases, file: &Path) -> anyhow::Result<ExitCode> {
    let jobs = jobs(arguments);
    let scenario = drawn(arguments)?;
    let kind_of = |scenario: &Scenario| -> anyhow::Result<Option<Kind>> {
        Ok(first_breach(scenario, databases)?.map(|breach| Kind::of(&breach, &scenario.services)))
    };
    let Some(kind) = kind_of(&scenario)? else {
        anyhow::bail!("nothing to make smaller: this schedule breaks no rule");
    };
    let tries = AtomicU64::new(0);
    let has_kind = |scenario: &Scenario| {
        tries.fetch_add(1, Ordering::SeqCst);
        // What cannot be played is not smaller.
        kind_of(scenario).is_ok_and(|other| other.as_ref() == Some(&kind))
    };
    let small = shrink(scenario, |all| {
        all.chunks(jobs).enumerate().find_map(|(nth, some)| {
            let found = std::thread::scope(|scope| {
                let tried: Vec<_> = some.iter().map(|s| scope.spawn(|| has_kind(s))).collect();
                tried.into_iter().position(|tried| tried.join().unwrap_or(false))
            })?;
            let at = nth * jobs + found;
            eprint!("\r{}: {:<60}", tries.load(Ordering::SeqCst), size(&all[at]));
            Some(at)
        })
    });
    eprintln!("\n{} schedules tried", tries.load(Ordering::SeqCst));
    std::fs::write(file, serde_json::to_string_pretty(&small)? + "\n")?;
    if let Became::Over(outcome) =
        child::run(Play::Scenario(&small), Setting { log: true, ..Setting::of(databases) })
    {
        outcome.log.iter().for_each(|line| println!("{line}"));
        outcome.breaches.iter().for_each(|breach| println!("{}", line_of(breach)));
    }
    Ok(ExitCode::from(1))
}

fn first_breach(scenario: &Scenario, databases: &Databases) -> anyhow::Result<Option<Breach>> {
    match child::run(Play::Scenario(scenario), Setting::of(databases)) {
        Became::Over(outcome) => Ok(outcome.breaches.into_iter().next()),
        Became::Broke(why) => anyhow::bail!("this schedule did not end: {why}"),
    }
}

fn size(scenario: &Scenario) -> String {
    format!(
        "{} nodes, {} services, {} upgrades, {} faults",
        scenario.zones.len(),
        scenario.services.len(),
        scenario.upgrades.len(),
        scenario.faults.len()
    )
}

pub(super) fn line_of(breach: &Breach) -> String {
    format!("{}.{:03} rule {}: {}", breach.at / 1000, breach.at % 1000, breach.rule, breach.what)
}

/// What many schedules came to.
#[derive(Default)]
struct Tally {
    done: u64,
    failed: BTreeMap<u64, Vec<String>>,
    reached: BTreeMap<String, u64>,
    ended: BTreeMap<String, u64>,
    fired: BTreeMap<(String, String), u64>,
    /// Schedules that reached contract or rolled-back.
    far: u64,
    simulated_ms: u64,
    revisions: u64,
    /// The most that one commit wrote, in bytes, and the seed.
    largest_commit: (usize, u64),
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
        outcome.log.iter().for_each(|line| println!("{line}"));
        if arguments.digests {
            println!("{seed} {}", outcome.digest);
        }
        let broken: Vec<String> = outcome.breaches.iter().map(line_of).collect();
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
        let is_far = |phase: &String| phase == "contract" || phase == "rolled-back";
        self.far += u64::from(outcome.reached.iter().any(is_far));
        outcome.fired.into_iter().for_each(|fired| *self.fired.entry(fired).or_default() += 1);
        self.simulated_ms += outcome.simulated_ms;
        self.revisions += outcome.revisions as u64;
        self.largest_commit = self.largest_commit.max((outcome.largest_commit, seed));
    }

    fn gaps(&self) -> Vec<String> {
        gaps(Counted { done: self.done, fired: &self.fired, reached: &self.reached, far: self.far })
    }

    fn print(&self, took: Duration, cores: usize, gaps: &[String]) {
        let seconds = took.as_secs_f64().max(0.001);
        #[expect(clippy::cast_precision_loss, reason = "a rate that people read")]
        let rate = self.done as f64 / seconds / cores as f64;
        let done = self.done.max(1);
        println!(
            "{} schedules in {seconds:.1} s: {rate:.1} per second and core; the mean one lasts {} s and writes {} revisions",
            self.done,
            self.simulated_ms / 1_000 / done,
            self.revisions / done
        );
        println!(
            "the largest commit wrote {} bytes, in seed {}",
            self.largest_commit.0, self.largest_commit.1
        );
        println!("reached, by schedules:");
        self.reached.iter().for_each(|(phase, n)| println!("  {phase:<14} {n}"));
        println!("upgrades ended:");
        self.ended.iter().for_each(|(how, n)| println!("  {how:<14} {n}"));
        println!("faults, by phase:");
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
        gaps.iter().for_each(|gap| println!("too little happened: {gap}"));
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
