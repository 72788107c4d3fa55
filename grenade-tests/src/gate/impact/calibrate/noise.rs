//! Runs drawn from what was recorded of idle pairs, with effects put in, and what the judge says of them.

use std::num::NonZero;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio_util::sync::CancellationToken;

use crate::gate::impact::calibrate::{Looks, Pair};
use crate::gate::impact::inject;
use crate::gate::impact::judge::{ALPHA, Shift, judge, percent};
use crate::gate::impact::series::{BLOCK_MS, Point, Series};
use crate::gate::quantile::quantile;
use crate::gate::verdict::{Word, worst};

/// Blocks that follow each other are drawn together: what drifts, drifts through them.
const TOGETHER: usize = 4;
/// The length of the runs that give the smallest shift.
const SMALLEST_MS: f64 = 120_000.0;

/// What is put in.
pub(super) type Effect = fn(&Series, &[f64]) -> Series;

/// Blocks of both pools at the same time, to draw runs from.
pub(super) struct Noise<'a> {
    /// Then no further run is judged.
    cancelled: &'a CancellationToken,
    /// By stretch: the points of each block, counted from the block's start.
    stretches: Vec<Vec<[Vec<Point>; 2]>>,
}

/// A run that is being drawn.
struct Drawn {
    /// Either pool is the treated one.
    swapped: bool,
    treated: Vec<Point>,
    twin: Vec<Point>,
    /// Its length so far.
    length_ms: f64,
}

impl Drawn {
    fn begin(dice: &mut StdRng) -> Self {
        let swapped = dice.random_bool(0.5);
        Self { swapped, treated: Vec::new(), twin: Vec::new(), length_ms: 0.0 }
    }

    fn pair(&self) -> Pair {
        [&self.treated, &self.twin].map(|points| Series::from(points.clone()))
    }
}

impl<'a> Noise<'a> {
    pub(super) fn of(recorded: &[Pair], cancelled: &'a CancellationToken) -> Self {
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
        Self { cancelled, stretches: recorded.iter().map(both).collect() }
    }

    /// Draws on for so long: blocks of both pools at the same time, several that follow each other at once.
    fn draw(&self, run: &mut Drawn, more_ms: f64, dice: &mut StdRng) {
        let end_ms = run.length_ms + more_ms;
        while run.length_ms < end_ms {
            let stretch = &self.stretches[dice.random_range(0..self.stretches.len())];
            let from = dice.random_range(0..=stretch.len().saturating_sub(TOGETHER));
            for [a, b] in stretch.iter().skip(from).take(TOGETHER) {
                let at_ms = run.length_ms;
                let moved = |point: &Point| Point { at_ms: point.at_ms + at_ms, ..*point };
                let (a, b) = if run.swapped { (b, a) } else { (a, b) };
                run.treated.extend(a.iter().map(moved));
                run.twin.extend(b.iter().map(moved));
                run.length_ms += BLOCK_MS;
            }
        }
    }

    /// What is said of so many runs with an effect; each core takes a part.
    pub(super) fn judged(&self, runs: u32, seed: u64, looks: Looks, effect: Effect) -> Vec<Word> {
        self.each(runs, seed, &|dice, seed| self.looked_at(dice, seed, looks, effect))
    }

    /// What is said of a run at the last look: it goes on for another one where the judge is inconclusive.
    fn looked_at(&self, dice: &mut StdRng, seed: u64, looks: Looks, effect: Effect) -> Word {
        let (mut run, mut drains, mut word) = (Drawn::begin(dice), Vec::new(), Word::Inconclusive);
        for look in 0..looks.most {
            let from_ms = run.length_ms;
            self.draw(&mut run, looks.length_ms, dice);
            let own = inject::instants(run.length_ms - from_ms, seed.wrapping_add(u64::from(look)));
            drains.extend(own.into_iter().map(|at_ms| from_ms + at_ms));
            let [treated, twin] = run.pair();
            let checks = judge(&effect(&treated, &drains), &twin, &drains, looks.most);
            word = worst(checks.iter().map(|check| check.verdict));
            if word != Word::Inconclusive {
                break;
            }
        }
        word
    }

    /// The median of the smallest shifts of p99 that idle runs would have shown at one of so many looks, in percent.
    pub(super) fn smallest(&self, runs: u32, seed: u64, looks: u32) -> f64 {
        let of = |dice: &mut StdRng, _| {
            let mut run = Drawn::begin(dice);
            self.draw(&mut run, SMALLEST_MS, dice);
            let [treated, twin] = run.pair();
            Shift::of(&treated, &twin, 0.99, ALPHA / f64::from(looks)).map(|shift| shift.smallest)
        };
        let mut all: Vec<f64> = self.each(runs, seed, &of).into_iter().flatten().collect();
        all.sort_by(f64::total_cmp);
        percent(quantile(&all, 0.5))
    }

    /// What `of` says of each run that is drawn, until it is cancelled.
    fn each<T: Send>(&self, runs: u32, seed: u64, of: &(dyn Fn(&mut StdRng, u64) -> T + Sync)) -> Vec<T> {
        let workers = std::thread::available_parallelism().map_or(1, NonZero::get) as u32;
        let one = |n: u32| {
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(u64::from(n));
            of(&mut StdRng::seed_from_u64(seed), seed)
        };
        let goes_on = |_: &u32| !self.cancelled.is_cancelled();
        std::thread::scope(|scope| {
            let part = |worker| {
                let own = (worker..runs).step_by(workers as usize);
                move || own.take_while(goes_on).map(one).collect::<Vec<T>>()
            };
            let started: Vec<_> = (0..workers).map(|worker| scope.spawn(part(worker))).collect();
            let done = |worker: std::thread::ScopedJoinHandle<'_, Vec<T>>| match worker.join() {
                Ok(said) => said,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            started.into_iter().flat_map(done).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::impact::simulated::Machine;

    /// Blocks of one pool are faster or slower by turns: one look is inconclusive, its interval being wider than the margin.
    #[test]
    fn run_that_is_undecided_is_looked_at_again() {
        let uneven = |at_ms: f64, latency: f64| {
            latency * if ((at_ms / BLOCK_MS) as u64).is_multiple_of(2) { 1.08 } else { 0.93 }
        };
        let pair = |seed| {
            let (treated, twin) = Machine::new(seed).pools(61.0, &uneven);
            [treated, twin]
        };
        let cancelled = CancellationToken::new();
        let noise = Noise::of(&(0..6).map(pair).collect::<Vec<Pair>>(), &cancelled);
        let undecided = |most| {
            let looks = Looks { most, length_ms: 60_000.0 };
            let said = noise.judged(12, 1, looks, |series, _| series.clone());
            said.iter().filter(|word| **word == Word::Inconclusive).count()
        };
        let (once, thrice) = (undecided(1), undecided(3));
        assert!(once >= 5 && thrice * 2 <= once, "inconclusive: {once} after one look, {thrice} after three");
    }
}
