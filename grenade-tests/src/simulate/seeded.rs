//! A seeded bug: schedules are played without one guard of the product until one of them breaks a rule that it keeps with
//! every guard in place.

use super::child::{Became, GUARD, Guards, Setting};
use super::databases::Databases;
use super::many::{Arguments, jobs, schedules, threads};
use super::output;
use super::tally::line_of;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Where the product's sources lie: a panic in one of them is a fault of the product.
const PRODUCT: [&str; 4] = ["proto/", "coordinator/", "migrations/", "node-agent/"];

/// The tests of rules and the searches for seeded bugs, each with its guard.
const RULES: &str = include_str!("../../../tools/rules");

/// The guards by name: both tables have them in their second column.
fn guards() -> BTreeSet<&'static str> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase();
    let is_name = |text: &&str| {
        text.contains('-') && text.split('-').all(|word| !word.is_empty() && word.bytes().all(is_letter))
    };
    let guard = |line: &'static str| {
        let columns: Vec<&str> = line.split('|').collect();
        matches!(columns.len(), 3 | 4).then(|| columns[1]).filter(is_name)
    };
    RULES.lines().filter_map(guard).collect()
}

/// Looks at the name of a guard that is to be switched off.
///
/// # Errors
/// Where this build has no guards that can be switched off, or none of this name.
fn must_be_known(guard: &str) -> anyhow::Result<()> {
    let known = guards();
    if !known.contains(guard) {
        let all = Vec::from_iter(known).join(", ");
        anyhow::bail!("no guard is named {guard:?} in tools/rules; there are {all}");
    }
    anyhow::ensure!(
        cfg!(feature = "mutants"),
        "{guard}: guards can be switched off only in a build with --features mutants"
    );
    Ok(())
}

/// Looks at the guard that the environment switches off.
///
/// # Errors
/// Where it has no effect.
pub(super) fn must_be_known_if_given() -> anyhow::Result<()> {
    let given = std::env::var_os(GUARD).filter(|guard| !guard.is_empty());
    given.map_or(Ok(()), |guard| must_be_known(&guard.to_string_lossy()))
}

/// What was found so far.
#[derive(Default)]
struct Found {
    caught: Option<Caught>,
    /// How many schedules were played.
    played: u64,
    /// How many of them were played to their end.
    over: u64,
    /// Why the last one that was not was not.
    broke: String,
    /// Why no further one can be played.
    stopped: Option<anyhow::Error>,
}

/// The first schedule that caught it.
struct Caught {
    place: u64,
    what: String,
}

/// Searches for a schedule that catches the bug, and prints one line: caught or not, the seed, how many schedules that
/// took, what was broken; between tabs. `play` plays the schedule of a seed.
///
/// # Errors
/// Where this build has no guards that can be switched off, or none of this name; where no schedule could be played.
pub(super) fn search(
    arguments: &Arguments,
    databases: &Databases,
    guard: &str,
    play: impl Fn(u64, Setting<'_>) -> anyhow::Result<Became> + Sync,
) -> anyhow::Result<ExitCode> {
    must_be_known(guard)?;
    let schedules = schedules(arguments)?;
    let (began, next) = (Instant::now(), AtomicU64::new(0));
    let found: Mutex<Found> = Mutex::default();
    let held = || found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..threads(jobs(arguments), schedules) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::SeqCst);
                    let late = arguments.within.is_some_and(|most| began.elapsed().as_secs() >= most);
                    // Seeds before the one that caught it are played to their end: the first of all counts.
                    let ended = held().is_over_before(place);
                    if place >= schedules || late || ended {
                        return;
                    }
                    let seed = arguments.seed + place;
                    let with = |guards| play(seed, Setting { guards, ..Setting::of(databases) });
                    let shown = shown_without(with, guard);
                    held().take_in(place, shown);
                }
            });
        }
    });
    let Found { caught, played, over, broke, stopped } = std::mem::take(&mut *held());
    if let Some(error) = stopped {
        return Err(error);
    }
    Ok(match caught {
        Some(Caught { place, what }) => {
            output::print(format_args!("caught\t{}\t{}\t{what}", arguments.seed + place, place + 1))?;
            ExitCode::SUCCESS
        }
        None => {
            anyhow::ensure!(over > 0, "none of {played} schedules was played to its end; the last: {broke}");
            output::print(format_args!("not caught\t-\t{played}\t{:.0} s", began.elapsed().as_secs_f64()))?;
            ExitCode::FAILURE
        }
    })
}

impl Found {
    /// Whether the schedule of this place need not be played.
    fn is_over_before(&self, place: u64) -> bool {
        self.stopped.is_some() || self.caught.as_ref().is_some_and(|caught| caught.place < place)
    }

    fn take_in(&mut self, place: u64, shown: anyhow::Result<Shown>) {
        match shown {
            Err(error) => self.stopped = self.stopped.take().or(Some(error)),
            Ok(shown) => {
                self.played += 1;
                self.over += u64::from(!matches!(shown, Shown::Broke(_)));
                match shown {
                    Shown::Nothing => {}
                    Shown::Broke(why) => self.broke = why,
                    Shown::Bug(what) if !self.is_over_before(place) => {
                        self.caught = Some(Caught { place, what });
                    }
                    Shown::Bug(_) => {}
                }
            }
        }
    }
}

/// What a schedule shows about a guard.
enum Shown {
    /// It breaks no rule without the guard, or one with all of them.
    Nothing,
    /// What it breaks without the guard.
    Bug(String),
    /// Why it did not come to its end.
    Broke(String),
}

/// What a schedule breaks without the guard, where it breaks nothing with all of them.
fn shown_without<'a>(
    with: impl Fn(Guards<'a>) -> anyhow::Result<Became>,
    guard: &'a str,
) -> anyhow::Result<Shown> {
    let bug = match broken(with(Guards::Without(guard))?) {
        Shown::Bug(what) => what,
        other => return Ok(other),
    };
    Ok(match with(Guards::All)? {
        Became::Over(outcome) if outcome.breaches.is_empty() => Shown::Bug(bug),
        _ => Shown::Nothing,
    })
}

/// What the product broke. A schedule that hangs, or in which the simulation itself broke, shows nothing.
fn broken(became: Became) -> Shown {
    match became {
        Became::Over(outcome) => {
            outcome.breaches.first().map_or(Shown::Nothing, |breach| Shown::Bug(line_of(breach)))
        }
        Became::Broke(why) => {
            let panicked = why.split("panicked at ").nth(1).unwrap_or_default();
            let first = panicked.lines().next().unwrap_or_default();
            match PRODUCT.iter().any(|room| first.starts_with(room)) {
                true => Shown::Bug(format!("a panic at {first}")),
                false => Shown::Broke(why),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The guards that the sources below a directory ask.
    fn asked_below(directory: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() && !path.ends_with("target") => asked_below(&path, found),
                Some(extension) if extension == "rs" => {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let asked = text.split("mutant::is(").skip(1);
                    let name =
                        |rest: &str| Some(rest.trim_start().strip_prefix('"')?.split_once('"')?.0.to_owned());
                    found.extend(asked.filter_map(name));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn each_guard_that_the_product_asks_is_known() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut asked = BTreeSet::new();
        PRODUCT.iter().for_each(|room| asked_below(&root.join(room), &mut asked));
        let known: BTreeSet<String> = guards().into_iter().map(str::to_owned).collect();
        assert!(asked.len() > 100, "{} guards", asked.len());
        let unknown: Vec<_> = asked.symmetric_difference(&known).collect();
        assert!(unknown.is_empty(), "not both in tools/rules and in the sources: {unknown:?}");
    }

    #[test]
    fn unknown_guard_is_refused_with_the_known_ones() {
        let why = must_be_known("ceiling-is-not-lowerd").unwrap_err().to_string();
        assert!(why.contains("\"ceiling-is-not-lowerd\"") && why.contains("ceiling-is-not-lowered"), "{why}");
    }

    #[test]
    fn first_bug_counts_and_what_broke_shows_nothing() {
        let mut found = Found::default();
        found.take_in(5, Ok(Shown::Bug("five".to_owned())));
        found.take_in(3, Ok(Shown::Bug("three".to_owned())));
        found.take_in(4, Ok(Shown::Bug("four".to_owned())));
        found.take_in(1, Ok(Shown::Broke("it hung".to_owned())));
        assert_eq!(found.caught.as_ref().map(|caught| caught.place), Some(3));
        assert_eq!((found.played, found.over, found.broke.as_str()), (4, 3, "it hung"));
        assert!(found.is_over_before(4) && !found.is_over_before(2));
        found.take_in(2, Err(anyhow::anyhow!("no process could be started")));
        assert!(found.is_over_before(0) && found.played == 4);
    }
}
