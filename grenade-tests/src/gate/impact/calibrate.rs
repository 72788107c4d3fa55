//! How far the judge of zero-impact can be trusted on this machine: two pools, both without an upgrade, are compared
//! again and again: what it says of them, and what it says of thousands of runs drawn from what was recorded, with
//! effects put in. Beside it, what other judges say.

mod noise;
mod text;

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF};
use tokio_util::sync::CancellationToken;

use crate::gate::databases::Databases;
use crate::gate::file::Gate;
use crate::gate::impact::inject;
use crate::gate::impact::judge::judge;
use crate::gate::impact::pools::Pools;
use crate::gate::impact::rivals::RIVALS;
use crate::gate::impact::series::Series;
use crate::gate::impact::stretch::Stretch;
use crate::gate::machine::RunContext;
use crate::gate::report::progress::Progress;
use crate::gate::verdict::{Word, worst};
use crate::world::World;
use noise::{Effect, Noise};

/// The form of the document; raised when a field changes its meaning, or the judge its margins or how often it looks.
pub const FORM: u32 = 3;
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
    /// The time between two looks at an idle pair or a simulated run, in seconds.
    pub seconds: f64,
    /// How often the judge may look at them: as often as in a run, which goes on where it is inconclusive.
    pub looks: u32,
    /// Where and when it was measured.
    pub context: RunContext,
    /// What was said of idle pairs at the last look.
    pub idle_pairs: Rates,
    /// What was said, at the last look, of runs drawn from what was recorded.
    pub simulated: Vec<Simulated>,
    /// Half of the idle runs of 120 s drawn from it would have shown a smaller shift of p99 with a power of 90 %.
    pub smallest_p99_shift_percent: f64,
    /// Other judges on the same data.
    pub rivals: Vec<RivalRates>,
}

/// Why a text is no calibration that this program can use.
#[derive(Debug, thiserror::Error)]
pub enum NotACalibration {
    /// It is of another form.
    #[error(
        "has form {0}, and its figures are of a judge with other margins or other looks; form {FORM} is read: run `grenade \
         calibrate` again"
    )]
    Form(u32),
    /// It is none.
    #[error("is no document of `grenade calibrate`")]
    Malformed(#[source] serde_json::Error),
}

impl Calibration {
    /// Reads the document that `grenade calibrate` writes.
    ///
    /// # Errors
    /// When it is of another form, or none.
    pub fn parse(text: &str) -> Result<Self, NotACalibration> {
        #[derive(Deserialize)]
        struct Form {
            form: u32,
        }
        // The form first: another one may lack fields.
        let Form { form } = serde_json::from_str(text).map_err(NotACalibration::Malformed)?;
        match form {
            FORM => serde_json::from_str(text).map_err(NotACalibration::Malformed),
            other => Err(NotACalibration::Form(other)),
        }
    }
}

/// How an idle pair and a simulated run are looked at: as a run is.
#[derive(Debug, Clone, Copy)]
struct Looks {
    /// How often at the most.
    most: u32,
    /// The time from one to the next, in milliseconds.
    length_ms: f64,
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
    let length = gate.impact.length;
    let (seed, looks) = (gate.pace.seed, gate.impact.looks);
    let mut recorded: Vec<Pair> = Vec::new();
    for n in 1..=pairs {
        let mut stretch = Stretch::default();
        for look in 1..=looks {
            let name = format!("pair-{n}-{look}");
            stretch.append(pools.rest(&name, length, progress).await?);
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
    let looks = Looks { most: looks, length_ms: length.as_secs_f64() * 1e3 };
    let counted = counted(recorded, runs, seed, looks).await?;
    let context = RunContext::over_after(progress.elapsed());
    Ok(Calibration { gate: gate.name.clone(), rate: gate.impact.rate, context, ..counted })
}

/// Counts on a thread of its own. It ends soon after this is dropped: the program waits for its threads before it exits.
async fn counted(recorded: Vec<Pair>, runs: u32, seed: u64, looks: Looks) -> anyhow::Result<Calibration> {
    let cancelled = CancellationToken::new();
    let _cancels = cancelled.clone().drop_guard();
    Ok(tokio::task::spawn_blocking(move || count(&recorded, runs, seed, looks, &cancelled)).await?)
}

/// The verdict on a pair of pools that were both left alone.
fn said([treated, twin]: &Pair, seed: u64, looks: u32) -> Word {
    let drains = inject::instants(treated.length_ms(), seed);
    worst(judge(treated, twin, &drains, looks).iter().map(|check| check.verdict))
}

/// All figures of these pairs; they are incomplete where it was cancelled.
fn count(
    recorded: &[Pair],
    runs: u32,
    seed: u64,
    looks: Looks,
    cancelled: &CancellationToken,
) -> Calibration {
    let pairs = recorded.iter().take_while(|_| !cancelled.is_cancelled());
    let idle: Vec<Word> = pairs.map(|pair| said(pair, seed, looks.most)).collect();
    let noise = Noise::of(recorded, cancelled);
    let effects: [(&str, Effect); 3] = [
        ("nothing", |series, _| series.clone()),
        ("p99 20 % slower", |series, _| inject::tail_slowed(series, 1.2)),
        ("100 ms stalls", |series, drains| inject::stalled(series, drains, 100.0)),
    ];
    let simulated = effects
        .iter()
        .map(|(name, effect)| Simulated {
            effect: (*name).to_owned(),
            rates: Rates::of(&noise.judged(runs, seed, looks, *effect)),
        })
        .collect();
    let rivals = RIVALS.iter().take_while(|_| !cancelled.is_cancelled()).map(|(name, rival)| {
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
        seconds: looks.length_ms / 1e3,
        looks: looks.most,
        context: RunContext::default(),
        idle_pairs: Rates::of(&idle),
        simulated,
        smallest_p99_shift_percent: noise.smallest(runs, seed, looks.most),
        rivals: rivals.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::gate::impact::simulated::Machine;

    /// As a run looks by default.
    const LOOKS: Looks = Looks { most: 3, length_ms: 60_000.0 };

    fn count(recorded: &[Pair], runs: u32, seed: u64, looks: Looks) -> Calibration {
        super::count(recorded, runs, seed, looks, &CancellationToken::new())
    }

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
        let calibration = count(&recorded, 40, 1, LOOKS);
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
        let again = || serde_json::to_string(&count(&recorded[..2], 4, 1, LOOKS)).unwrap();
        assert_eq!(again(), again());
    }

    /// As many runs as can be asked for: a count to its end takes much longer.
    #[test]
    fn count_that_is_interrupted_ends_soon() {
        let (treated, twin) = Machine::new(3).pools(61.0, &|_, latency| latency);
        let recorded = vec![[treated.clone(), twin.clone()], [treated, twin]];
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let began = Instant::now();
        runtime.block_on(async {
            let count = counted(recorded, 100_000, 1, LOOKS);
            tokio::time::timeout(Duration::from_millis(100), count).await.unwrap_err();
        });
        // It waits for its threads, as the program does before it exits.
        drop(runtime);
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }

    #[test]
    fn calibration_of_an_older_form_is_refused_with_its_form() {
        let (treated, twin) = Machine::new(3).pools(61.0, &|_, latency| latency);
        let calibration = count(&[[treated.clone(), twin.clone()], [treated, twin]], 2, 1, LOOKS);
        let mut document = serde_json::to_value(&calibration).unwrap();
        let read = Calibration::parse(&document.to_string()).unwrap();
        assert_eq!((read.form, read.looks, read.seconds), (FORM, 3, 60.0));
        // That of the margins without a least shift in milliseconds; it had neither a machine nor a date.
        document["form"] = serde_json::json!(2);
        document.as_object_mut().unwrap().remove("context");
        let refused = Calibration::parse(&document.to_string()).unwrap_err().to_string();
        assert!(refused.contains("has form 2") && refused.contains("`grenade calibrate` again"), "{refused}");
        let refused = Calibration::parse("{}").unwrap_err().to_string();
        assert!(refused.contains("is no document of `grenade calibrate`"), "{refused}");
    }

    #[test]
    fn text_is_as_wide_as_a_terminal() {
        let (treated, twin) = Machine::new(3).pools(61.0, &|_, latency| latency);
        let mut calibration = count(&[[treated.clone(), twin.clone()], [treated, twin]], 4, 1, LOOKS);
        calibration.context = RunContext::over_after(std::time::Duration::ZERO);
        calibration.context.machine.name = "build-machine-7.example".to_owned();
        let text = calibration.text();
        let wide: Vec<&str> = text.lines().filter(|line| line.len() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}
