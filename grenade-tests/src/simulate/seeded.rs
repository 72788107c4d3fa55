//! A seeded bug: schedules are played without one guard of the product until one of them breaks a rule that it keeps with
//! every guard in place.

use super::child::{Became, Guards, Setting};
use super::databases::Databases;
use super::many::{Arguments, jobs, line_of};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Where the product's sources lie: a panic in one of them is a fault of the product.
const PRODUCT: [&str; 4] = ["proto/", "coordinator/", "migrations/", "node-agent/"];

/// The first schedule that caught it.
struct Caught {
    place: u64,
    what: String,
}

/// Searches for a schedule that catches the bug, and prints one line: caught or not, the seed, how many schedules that
/// took, what was broken; between tabs. `play` plays the schedule of a seed.
///
/// # Errors
/// Where this build has no guards that can be switched off.
pub(super) fn search(
    arguments: &Arguments,
    databases: &Databases,
    guard: &str,
    play: impl Fn(u64, Setting<'_>) -> Became + Sync,
) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        cfg!(feature = "mutants"),
        "guards can be switched off only in a build with --features mutants"
    );
    let jobs = jobs(arguments);
    let (began, next) = (Instant::now(), AtomicU64::new(0));
    let caught: Mutex<Option<Caught>> = Mutex::default();
    let held = || caught.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::SeqCst);
                    let late = arguments.within.is_some_and(|most| began.elapsed().as_secs() >= most);
                    // Seeds before the one that caught it are played to their end: the first of all counts.
                    let later = held().as_ref().is_some_and(|caught| caught.place < place);
                    if place >= arguments.schedules || late || later {
                        return;
                    }
                    let seed = arguments.seed + place;
                    let with = |guards| play(seed, Setting { guards, ..Setting::of(databases) });
                    let Some(what) = broken_without(with, guard) else { continue };
                    let mut caught = held();
                    if caught.as_ref().is_none_or(|caught| place < caught.place) {
                        *caught = Some(Caught { place, what });
                    }
                }
            });
        }
    });
    let tried = next.load(Ordering::SeqCst).min(arguments.schedules);
    Ok(match held().take() {
        Some(Caught { place, what }) => {
            println!("caught\t{}\t{}\t{what}", arguments.seed + place, place + 1);
            ExitCode::SUCCESS
        }
        None => {
            println!("not caught\t-\t{tried}\t{:.0} s", began.elapsed().as_secs_f64());
            ExitCode::FAILURE
        }
    })
}

/// What a schedule breaks without the guard, where it breaks nothing with all of them.
fn broken_without<'a>(with: impl Fn(Guards<'a>) -> Became, guard: &'a str) -> Option<String> {
    let broken = broken(with(Guards::Without(guard)))?;
    match with(Guards::All) {
        Became::Over(outcome) if outcome.breaches.is_empty() => Some(broken),
        _ => None,
    }
}

/// What the product broke. A schedule that hangs, or in which the simulation itself broke, shows nothing.
fn broken(became: Became) -> Option<String> {
    match became {
        Became::Over(outcome) => outcome.breaches.first().map(line_of),
        Became::Broke(why) => {
            let panicked = why.split("panicked at ").nth(1)?;
            let first = panicked.lines().next().unwrap_or_default();
            PRODUCT.iter().any(|room| first.starts_with(room)).then(|| format!("a panic at {first}"))
        }
    }
}
