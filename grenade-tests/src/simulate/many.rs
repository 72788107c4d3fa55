//! Many schedules, one after the other on each core, and what they came to.

use super::child::{self, Became, Play, Setting};
use super::coordinator;
use super::database::{self, server};
use super::databases::Databases;
use super::draw;
use super::falsify::report::judge_the_judge;
use super::interrupt;
use super::judge::Breach;
use super::output;
use super::product_log;
use super::run::run;
use super::scenario::Scenario;
use super::seeded;
use super::shrink::{Kind, shrink};
use super::source::Source;
use super::tally::{Tally, line_of};
use anyhow::Context;
use clap::{Parser, value_parser};
use std::convert::Infallible;
use std::fs::OpenOptions;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tidegate_migrations::held::{Simulated, hold_the_runtime};
use tidegate_proto::printable::to_stderr;

/// The stack of a schedule in bytes: without optimisation, a future that holds many others needs more than the 2 MiB of a thread.
const STACK: usize = 32 << 20;

/// Runs random worlds in simulated time: real coordinators, agents, store and migrations; random services, upgrades, faults
/// and commands; judged from outside. The same seed gives the same run.
///
/// Exit code 0: no rule was broken; 1: one was; 2: the arguments are wrong, or a schedule could not be played; 130: a signal
/// ended the run. With --without, 0: a schedule caught the bug; 1: none did. A reader that closes the output ends the run: 0.
#[derive(Debug, Parser)]
#[command(name = "tidegate-simulate")]
pub struct Arguments {
    /// How many schedules to run; seeds are counted up from --seed
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u64).range(1..))]
    pub(super) schedules: u64,
    /// First seed
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Processes at a time; default: as many as there are cores
    #[arg(long, value_parser = value_parser!(u16).range(1..=1_000))]
    pub(super) jobs: Option<u16>,
    /// No further schedule begins after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u64).range(1..))]
    pub(super) within: Option<u64>,
    /// Keep the schemas in databases of a private PostgreSQL server instead of SQLite files: one server for the whole run,
    /// started before the first schedule and ended with the run; needs PostgreSQL 14 or newer (initdb, postgres, pg_dump,
    /// psql) and setpriv of util-linux. A seed means the same schedule as without this option
    #[arg(long)]
    pub(super) postgres: bool,
    /// Print the event log of the schedule of --seed
    #[arg(long, conflicts_with_all = ["schedules", "within"])]
    log: bool,
    /// Play a scenario from a file (JSON) instead of drawing it from the seed, and say which of its faults never began
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only_faults", "schedules", "within"])]
    pub(super) replay: Option<PathBuf>,
    /// Play plans for this gate file: those that `grenade explore` draws, each from its seed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["replay", "without", "only_faults"])]
    pub(super) gate: Option<PathBuf>,
    /// Play this plan, with what each seed decides beside it: latencies, the order of messages
    #[arg(long, value_name = "FILE", requires = "gate")]
    pub(super) plan: Option<PathBuf>,
    /// Leave out of the failing schedule of --seed, or of --replay, what its failure does not need; write what is left as a
    /// scenario to this file, and print its event log. A schedule in which a process panics or hangs is not shrunk
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schedules", "within", "log", "digests"])]
    shrink: Option<PathBuf>,
    /// Switch this guard of the product off (a build with --features mutants), and stop at the first schedule that breaks
    /// a rule and breaks none with every guard in place: exit code 0; 1 where there is none, 2 where no schedule could be
    /// played to its end. A wrong name is refused with all names
    #[arg(long, value_name = "GUARD", conflicts_with_all = ["log", "replay", "shrink", "scenario", "digests"])]
    pub(super) without: Option<String>,
    /// Draw no other kinds of faults than these, separated by commas: AgentKilled,'OneHiccup(Hangs)', with quotes for the
    /// shell. A wrong name is refused with all kinds. A kind is drawn also for services that it cannot happen to
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = draw::kind_named)]
    pub(super) only_faults: Vec<String>,
    /// Draw schedules near kept scenarios: each takes a scenario of this directory (JSON files, sorted by name) by its seed,
    /// and one to three more faults. A seed means another schedule once the directory has another file; --scenario prints
    /// what it means
    #[arg(long, value_name = "DIR", conflicts_with_all = ["replay", "gate", "only_faults"])]
    pub(super) near: Option<PathBuf>,
    /// Falsify small worlds in every way that is known, and look whether the judge finds each out; exit 1 where it does not
    #[arg(long, conflicts_with_all = ["schedules", "seed", "within", "log", "replay", "gate", "plan", "shrink"])]
    #[arg(conflicts_with_all = ["without", "only_faults", "near", "scenario", "digests"])]
    judge_the_judge: bool,
    /// Print the scenario of --seed as JSON, for --replay, and run nothing
    #[arg(long, conflicts_with_all = ["schedules", "within", "log", "shrink", "digests"])]
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
    match done {
        _ if interrupt::came() => ExitCode::from(interrupt::INTERRUPTED),
        Ok(code) => code,
        Err(error) if output::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            to_stderr(format_args!("tidegate-simulate: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn asked_for(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.scenario {
        output::print(serde_json::to_string_pretty(&drawn(arguments)?)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    seeded::must_be_known_if_given()?;
    // What is wrong with files is found before a server is started.
    let source = Source::of(arguments)?;
    interrupt::listen()?;
    let jobs = jobs(arguments);
    let databases = Databases::of(arguments.postgres, jobs)?;
    match (&arguments.shrink, &arguments.without) {
        _ if arguments.judge_the_judge => judge_the_judge(&databases, jobs),
        (Some(file), _) => smallest(source.scenario(arguments.seed)?, &databases, jobs, file),
        (None, Some(guard)) => {
            seeded::search(arguments, &databases, guard, |seed, setting| source.play(seed, setting))
        }
        (None, None) => all(arguments, &source, &databases),
    }
}

fn drawn(arguments: &Arguments) -> anyhow::Result<Scenario> {
    Source::of(arguments)?.scenario(arguments.seed)
}

/// One schedule, here: the current directory is its own.
fn one(arguments: &Arguments, fix: Fix) -> anyhow::Result<ExitCode> {
    child::end_with_the_run()?;
    let (scenario, log) = (drawn(arguments)?, arguments.log);
    product_log::write();
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
            product_log::begin();
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
    arguments.jobs.map_or_else(cores, usize::from)
}

/// How many threads play so many schedules.
pub(super) fn threads(jobs: usize, schedules: u64) -> usize {
    usize::try_from(schedules).map_or(jobs, |schedules| jobs.min(schedules))
}

/// How many schedules are asked for, where each has a seed of its own.
///
/// # Errors
/// Where there are not so many seeds.
pub(super) fn schedules(arguments: &Arguments) -> anyhow::Result<u64> {
    let Arguments { seed, schedules, .. } = *arguments;
    let last = u64::MAX - (schedules - 1);
    anyhow::ensure!(seed <= last, "--seed {seed}: with --schedules {schedules}, 0 to {last} is allowed");
    Ok(schedules)
}

fn all(arguments: &Arguments, source: &Source<'_>, databases: &Databases) -> anyhow::Result<ExitCode> {
    let schedules = if arguments.log || source.is_one() { 1 } else { schedules(arguments)? };
    let (jobs, cores) = (jobs(arguments), cores());
    let began = Instant::now();
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let tally = Mutex::new(Tally::new(source.file(), arguments.digests));
    let shows = std::io::stderr().is_terminal();
    std::thread::scope(|scope| {
        for job in 0..threads(jobs, schedules) {
            let (next, stop, tally) = (&next, &stop, &tally);
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
                    if let Err(error) = became.and_then(|became| tally.take_in(seed, became)) {
                        stop.store(true, Ordering::SeqCst);
                        tally.stopped = tally.stopped.take().or(Some(error));
                    }
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
    let mut tally = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let gaps = if source.draws_everything() { tally.gaps() } else { Vec::new() };
    if !arguments.log && tally.done > 0 {
        output::print(tally.summary(began.elapsed(), jobs.min(cores), &gaps))?;
    }
    if let Some(error) = tally.stopped.take() {
        return Err(error);
    }
    anyhow::ensure!(tally.done > 0, "no schedule was played");
    let is_good = tally.failed.is_empty() && gaps.is_empty();
    Ok(ExitCode::from(u8::from(!is_good)))
}

/// Makes what fails as small as it still fails in the same way.
fn smallest(scenario: Scenario, databases: &Databases, jobs: usize, file: &Path) -> anyhow::Result<ExitCode> {
    let kind_of = |scenario: &Scenario| -> anyhow::Result<Option<Kind>> {
        Ok(first_breach(scenario, databases)?.map(|breach| Kind::of(&breach, &scenario.services)))
    };
    let Some(kind) = kind_of(&scenario)? else {
        anyhow::bail!("nothing to make smaller: this schedule breaks no rule");
    };
    let not_written = || format!("could not write what is left to {}", file.display());
    // The search lasts: what is wrong with the path is found before it.
    OpenOptions::new().create(true).write(true).truncate(false).open(file).with_context(not_written)?;
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
    let text = serde_json::to_string_pretty(&small)?;
    if let Err(error) = std::fs::write(file, format!("{text}\n")) {
        output::print(text)?;
        return Err(error).with_context(not_written);
    }
    if let Became::Over(outcome) =
        child::run(Play::Scenario(&small), Setting { log: true, ..Setting::of(databases) })?
    {
        for line in outcome.log.iter().cloned().chain(outcome.breaches.iter().map(line_of)) {
            output::print(line)?;
        }
    }
    Ok(ExitCode::from(1))
}

fn first_breach(scenario: &Scenario, databases: &Databases) -> anyhow::Result<Option<Breach>> {
    match child::run(Play::Scenario(scenario), Setting::of(databases))? {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(more: &[&str]) -> Result<Arguments, String> {
        let all = std::iter::once("tidegate-simulate").chain(more.iter().copied());
        Arguments::try_parse_from(all).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_with_which_nothing_is_played_are_refused() {
        let refused = [["--schedules", "0"], ["--within", "0"], ["--jobs", "0"], ["--jobs", "4000000000"]];
        for more in refused {
            let why = parsed(&more).unwrap_err();
            assert!(why.contains(more[0]) && why.contains("1.."), "{more:?}: {why}");
        }
        assert!(parsed(&["--schedules", "1", "--within", "1", "--jobs", "1000"]).is_ok());
    }

    #[test]
    fn seeds_that_would_wrap_around_are_refused() {
        let of = |seed: &str| schedules(&parsed(&["--schedules", "2", "--seed", seed]).unwrap());
        assert_eq!(of("18446744073709551614").unwrap(), 2);
        let why = of("18446744073709551615").unwrap_err().to_string();
        assert!(why.ends_with("with --schedules 2, 0 to 18446744073709551614 is allowed"), "{why}");
    }

    #[test]
    fn no_thread_is_started_without_a_schedule() {
        assert_eq!((threads(1_000, 3), threads(2, 3), threads(2, u64::MAX)), (3, 2, 2));
    }

    #[test]
    fn options_without_an_effect_are_refused() {
        let refused: [&[&str]; 9] = [
            &["--replay", "a", "--only-faults", "Pause"],
            &["--replay", "a", "--schedules", "50"],
            &["--judge-the-judge", "--near", "a"],
            &["--judge-the-judge", "--replay", "a"],
            &["--judge-the-judge", "--scenario"],
            &["--judge-the-judge", "--without", "a"],
            &["--scenario", "--shrink", "a"],
            &["--shrink", "a", "--log"],
            &["--log", "--schedules", "2"],
        ];
        for more in refused {
            let why = parsed(more).unwrap_err();
            assert!(why.contains("cannot be used with"), "{more:?}: {why}");
        }
    }
}
