//! How far the judge of zero-impact can be trusted on this machine: two pools, both without an upgrade, are compared
//! again and again: what it says of them, and what it says of thousands of runs drawn from what was recorded, with
//! effects put in. Beside it, what other judges say.

use std::num::NonZero;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF};

use crate::gate::databases::Databases;
use crate::gate::file::Gate;
use crate::gate::impact::inject;
use crate::gate::impact::judge::{ALPHA, Shift, judge, percent};
use crate::gate::impact::pools::Pools;
use crate::gate::impact::rivals::RIVALS;
use crate::gate::impact::series::{BLOCK_MS, Point, Series};
use crate::gate::impact::stretch::Stretch;
use crate::gate::report::progress::Progress;
use crate::gate::verdict::{Word, worst};
use crate::world::World;

/// The form of the document; raised when a field changes its meaning.
pub const FORM: u32 = 2;
/// Blocks that follow each other are drawn together: what drifts, drifts through them.
const TOGETHER: usize = 4;
/// The length of a simulated run.
const SIMULATED_MS: f64 = 120_000.0;
/// How likely an exact interval holds.
const CONFIDENCE: f64 = 0.95;

/// How far it can be trusted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Calibration {
    /// The form of this document.
    pub form: u32,
    /// The gate that was loaded.
    pub gate: String,
    /// Requests per second to each pool.
    pub rate: u32,
    /// The time between two looks at an idle pair, in seconds.
    pub seconds: f64,
    /// How often the judge may look at an idle pair: as often as in a run, which goes on where it cannot tell.
    #[serde(default)]
    pub looks: u32,
    /// What was said of them at the last look.
    pub idle_pairs: Rates,
    /// What was said of runs of 120 s drawn from what was recorded.
    pub simulated: Vec<Simulated>,
    /// Half of the simulated idle runs would have shown a smaller shift of p99 with a power of 90 %.
    pub smallest_p99_shift_percent: f64,
    /// Other judges on the same data.
    pub rivals: Vec<RivalRates>,
}

/// What was said of simulated runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Simulated {
    /// What was put into one of the pools.
    pub effect: String,
    /// How often each word was said.
    pub rates: Rates,
}

/// How often each word was said.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Rates {
    /// Of so many.
    pub runs: u32,
    /// Both pools are alike.
    pub pass: u32,
    /// The result is not known.
    pub inconclusive: u32,
    /// One is slower.
    pub fail: u32,
    /// Between which parts of all runs would fail, with 95 % confidence (Clopper and Pearson); for simulated runs of the one
    /// recording that they are drawn from.
    pub fail_part: (f64, f64),
}

/// How often another judge said that there was an effect.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RivalRates {
    /// Its name.
    pub judge: String,
    /// Of an idle pool, compared with its own time before.
    pub before_and_after: Seen,
    /// Of an idle pool, compared with its twin at the same time.
    pub twin: Seen,
    /// Of a pool with a stall of 100 ms after each drain, compared with its twin.
    pub stalls: Seen,
}

/// How often an effect was seen.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Seen {
    /// Of so many comparisons.
    pub comparisons: usize,
    /// In so many.
    pub seen: usize,
}

impl Rates {
    fn of(words: &[Word]) -> Self {
        let count = |of: Word| words.iter().filter(|word| **word == of).count() as u32;
        let (runs, fail) = (words.len() as u32, count(Word::Fail));
        let (pass, inconclusive) = (count(Word::Pass), count(Word::Inconclusive));
        Self { runs, pass, inconclusive, fail, fail_part: exact(fail, runs) }
    }
}

/// The exact interval of a part, by Clopper and Pearson.
pub fn exact(of: u32, runs: u32) -> (f64, f64) {
    let (k, n, tail) = (f64::from(of), f64::from(runs), (1.0 - CONFIDENCE) / 2.0);
    let beta = |a: f64, b: f64, at: f64| Beta::new(a, b).map_or(f64::NAN, |beta| beta.inverse_cdf(at));
    let low = if of == 0 { 0.0 } else { beta(k, n - k + 1.0, tail) };
    let high = if of == runs { 1.0 } else { beta(k + 1.0, n - k, 1.0 - tail) };
    (low, high)
}

/// A stretch of both pools in which nothing was done.
type Pair = [Series; 2];

/// Records so many idle pairs, and counts.
///
/// # Errors
/// When the pools could not be brought up or loaded.
pub async fn calibrate(
    world: &World,
    gate: &Gate,
    databases: &Databases,
    progress: &Progress,
    (pairs, runs): (u32, u32),
) -> anyhow::Result<Calibration> {
    let mut pools = Pools::bring_up(world, gate, databases, progress).await?;
    let (seed, looks) = (gate.pace.seed, gate.impact.looks);
    let mut recorded: Vec<Pair> = Vec::new();
    for n in 1..=pairs {
        let mut stretch = Stretch::default();
        for look in 1..=looks {
            let name = format!("pair-{n}-{look}");
            stretch.append(pools.rest(&name, gate.impact.length, progress).await?);
            let word = said(&stretch.series(), seed, looks);
            progress
                .say(&format!("idle pair {n} of {pairs}, look {look} of at most {looks}: {}", word.word()));
            if word != Word::Inconclusive {
                break;
            }
        }
        recorded.push(stretch.series());
    }
    drop(pools);
    progress.say(&format!("{runs} simulated runs with each effect"));
    let counted = tokio::task::spawn_blocking(move || count(&recorded, runs, seed, looks)).await?;
    Ok(Calibration {
        form: FORM,
        gate: gate.name.clone(),
        rate: gate.impact.rate,
        seconds: gate.impact.length.as_secs_f64(),
        ..counted
    })
}

/// The verdict on a pair of pools that were both left alone.
fn said([treated, twin]: &Pair, seed: u64, looks: u32) -> Word {
    let drains = inject::instants(treated.length_ms(), seed);
    worst(judge(treated, twin, &drains, looks).iter().map(|check| check.verdict))
}

/// All figures of these pairs.
fn count(recorded: &[Pair], runs: u32, seed: u64, looks: u32) -> Calibration {
    let idle: Vec<Word> = recorded.iter().map(|pair| said(pair, seed, looks)).collect();
    let noise = Noise::of(recorded);
    let effects: [(&str, Effect); 3] = [
        ("nothing", |series, _| series.clone()),
        ("p99 20 % slower", |series, _| inject::tail_slowed(series, 1.2)),
        ("100 ms stalls", |series, drains| inject::stalled(series, drains, 100.0)),
    ];
    let simulated = effects
        .iter()
        .map(|(name, effect)| Simulated {
            effect: (*name).to_owned(),
            rates: Rates::of(&noise.judged(runs, seed, *effect)),
        })
        .collect();
    let rivals = RIVALS.iter().map(|(name, rival)| {
        let many = |flags: Vec<bool>| Seen {
            comparisons: flags.len(),
            seen: flags.iter().filter(|flag| **flag).count(),
        };
        let own = |pair: &[Pair]| rival(&pair[0][0], &pair[1][0]);
        let stalled = |[treated, twin]: &Pair| {
            rival(twin, &inject::stalled(treated, &inject::instants(treated.length_ms(), seed), 100.0))
        };
        RivalRates {
            judge: (*name).to_owned(),
            before_and_after: many(recorded.windows(2).map(own).collect()),
            twin: many(recorded.iter().map(|[treated, twin]| rival(twin, treated)).collect()),
            stalls: many(recorded.iter().map(stalled).collect()),
        }
    });
    Calibration {
        form: FORM,
        gate: String::new(),
        rate: 0,
        seconds: 0.0,
        looks,
        idle_pairs: Rates::of(&idle),
        simulated,
        smallest_p99_shift_percent: noise.smallest(runs, seed),
        rivals: rivals.collect(),
    }
}

/// What is put in.
type Effect = fn(&Series, &[f64]) -> Series;

/// Blocks of both pools at the same time, to draw runs from.
struct Noise {
    /// By stretch: the points of each block, counted from the block's start.
    stretches: Vec<Vec<[Vec<Point>; 2]>>,
}

impl Noise {
    fn of(recorded: &[Pair]) -> Self {
        let split = |series: &Series| {
            let whole = (series.length_ms() / BLOCK_MS) as usize;
            let mut blocks: Vec<Vec<Point>> = vec![Vec::new(); whole];
            for point in series.points() {
                if let Some(block) = blocks.get_mut((point.at_ms / BLOCK_MS) as usize) {
                    block.push(Point { at_ms: point.at_ms % BLOCK_MS, ..*point });
                }
            }
            blocks
        };
        let both = |[treated, twin]: &Pair| {
            split(treated).into_iter().zip(split(twin)).map(|(a, b)| [a, b]).collect()
        };
        Self { stretches: recorded.iter().map(both).collect() }
    }

    /// A run: blocks of both pools at the same time, several that follow each other at once, and either pool as the treated
    /// one.
    fn draw(&self, dice: &mut StdRng) -> Pair {
        let (mut treated, mut twin) = (Vec::new(), Vec::new());
        let (mut at, swapped) = (0.0, dice.random_bool(0.5));
        while at < SIMULATED_MS {
            let stretch = &self.stretches[dice.random_range(0..self.stretches.len())];
            let from = dice.random_range(0..=stretch.len().saturating_sub(TOGETHER));
            for [a, b] in stretch.iter().skip(from).take(TOGETHER) {
                let moved = |point: &Point| Point { at_ms: point.at_ms + at, ..*point };
                let (a, b) = if swapped { (b, a) } else { (a, b) };
                treated.extend(a.iter().map(moved));
                twin.extend(b.iter().map(moved));
                at += BLOCK_MS;
            }
        }
        [Series::from(treated), Series::from(twin)]
    }

    /// What is said of so many runs with an effect; each core takes a part.
    fn judged(&self, runs: u32, seed: u64, effect: Effect) -> Vec<Word> {
        self.each(runs, seed, &|[treated, twin], n| {
            let drains = inject::instants(SIMULATED_MS, n);
            let checks = judge(&effect(&treated, &drains), &twin, &drains, 1);
            worst(checks.iter().map(|check| check.verdict))
        })
    }

    /// The median of the smallest shifts of p99 that idle runs would have shown, in percent.
    fn smallest(&self, runs: u32, seed: u64) -> f64 {
        let of =
            |[treated, twin]: Pair, _| Shift::of(&treated, &twin, 0.99, ALPHA).map(|shift| shift.smallest);
        let mut all: Vec<f64> = self.each(runs, seed, &of).into_iter().flatten().collect();
        all.sort_by(f64::total_cmp);
        percent(crate::gate::report::quantile(&all, 0.5))
    }

    fn each<T: Send>(&self, runs: u32, seed: u64, of: &(dyn Fn(Pair, u64) -> T + Sync)) -> Vec<T> {
        let workers = std::thread::available_parallelism().map_or(1, NonZero::get) as u32;
        let one = |n: u32| {
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(u64::from(n));
            of(self.draw(&mut StdRng::seed_from_u64(seed)), seed)
        };
        std::thread::scope(|scope| {
            let part = |worker| move || (worker..runs).step_by(workers as usize).map(one).collect::<Vec<T>>();
            let started: Vec<_> = (0..workers).map(|worker| scope.spawn(part(worker))).collect();
            let done = |worker: std::thread::ScopedJoinHandle<'_, Vec<T>>| match worker.join() {
                Ok(said) => said,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            started.into_iter().flat_map(done).collect()
        })
    }
}

impl Calibration {
    /// For a person.
    pub fn text(&self) -> String {
        let percent = |k: u32, n: u32| f64::from(k) / f64::from(n.max(1)) * 100.0;
        let rates = |name: &str, rates: &Rates| {
            let Rates { runs, pass, inconclusive, fail, fail_part: (low, high) } = *rates;
            format!(
                "  {name:<26} {runs:>5} {:>5.1} % {:>10.1} % {:>5.1} % [{:.1}, {:.1}]\n",
                percent(pass, runs),
                percent(inconclusive, runs),
                percent(fail, runs),
                low * 100.0,
                high * 100.0
            )
        };
        let mut text = format!(
            "{}: {} requests a second to each pool\nat most {} looks at each idle pair, {:.0} s for each\n\n  {:<26} {:>5} {:>7} \
             {:>12} {:>7} 95 %\n",
            self.gate, self.rate, self.looks, self.seconds, "", "runs", "pass", "inconclusive", "fail"
        );
        text.push_str(&rates("idle pairs, measured", &self.idle_pairs));
        for Simulated { effect, rates: simulated } in &self.simulated {
            text.push_str(&rates(&format!("simulated: {effect}"), simulated));
        }
        text.push_str(&format!(
            "\nsmallest shift of p99 shown in 120 s with a power of 90 %: {:.1} % (median)\n\nother judges, how often \
             they see an effect\n  {:<44} {:>10} {:>10} {:>10}\n",
            self.smallest_p99_shift_percent, "", "before", "beside", "beside,"
        ));
        text.push_str(&format!("  {:<44} {:>10} {:>10} {:>10}\n", "", "and after", "a twin", "stalls"));
        for rival in &self.rivals {
            let of = |seen: Seen| format!("{} of {}", seen.seen, seen.comparisons);
            text.push_str(&format!(
                "  {:<44} {:>10} {:>10} {:>10}\n",
                rival.judge,
                of(rival.before_and_after),
                of(rival.twin),
                of(rival.stalls)
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::impact::simulated::Machine;

    #[test]
    fn interval_is_that_of_the_book() {
        let (low, high) = exact(1, 20);
        assert!((low - 0.001_266).abs() < 1e-5 && (high - 0.248_733).abs() < 1e-5, "{low} {high}");
        assert_eq!(exact(0, 20).0, 0.0);
        assert!((exact(0, 20).1 - 0.168_433).abs() < 1e-5);
        assert_eq!(exact(20, 20).1, 1.0);
    }

    #[test]
    fn simulated_runs_of_a_quiet_machine_are_judged_as_they_should() {
        let pair = |seed| {
            let (treated, twin) = Machine::new(seed).pools(61.0, &|_, latency| latency);
            [treated, twin]
        };
        let recorded: Vec<Pair> = (0..6).map(pair).collect();
        let calibration = count(&recorded, 40, 1, 1);
        let [nothing, slower, stalls] = [0, 1, 2].map(|n| calibration.simulated[n].rates);
        assert_eq!(calibration.idle_pairs.runs, 6);
        assert!(nothing.fail <= 2 && nothing.pass >= 36, "{nothing:?}");
        assert!(slower.pass == 0 && slower.fail >= 36, "{slower:?}");
        assert!(stalls.pass == 0 && stalls.fail >= 36, "{stalls:?}");
        assert!(
            (1.0..10.0).contains(&calibration.smallest_p99_shift_percent),
            "{}",
            calibration.smallest_p99_shift_percent
        );
        assert_eq!(calibration.rivals.len(), 4);
        assert_eq!(calibration.rivals[0].before_and_after.comparisons, 5);
        // The same seed gives the same figures.
        let again = count(&recorded, 40, 1, 1);
        assert_eq!(serde_json::to_string(&again).unwrap(), serde_json::to_string(&calibration).unwrap());
    }

    #[test]
    fn text_is_as_wide_as_a_terminal() {
        let (treated, twin) = Machine::new(3).pools(61.0, &|_, latency| latency);
        let text = count(&[[treated.clone(), twin.clone()], [treated, twin]], 4, 1, 3).text();
        let wide: Vec<&str> = text.lines().filter(|line| line.len() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}
