//! What many schedules came to.

use super::child::Became;
use super::coverage::{Counted, gaps};
use super::draw;
use super::judge::Breach;
use super::output;
use super::scenario::Fault;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;
use tidegate_proto::printable::to_stderr;

/// A breach in one line.
pub(super) fn line_of(breach: &Breach) -> String {
    format!("{}.{:03} rule {}: {}", breach.at / 1000, breach.at % 1000, breach.rule, breach.what)
}

/// What many schedules came to.
#[derive(Default)]
pub(super) struct Tally {
    /// Schedules that were played.
    pub done: u64,
    /// What was broken, by seed.
    pub failed: BTreeMap<u64, Vec<String>>,
    /// Why no further schedule is played.
    pub stopped: Option<anyhow::Error>,
    /// The scenario's file, where all are one.
    file: Option<String>,
    digests: bool,
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
    /// Of schedules from this file, or each from a seed; prints digests or not.
    pub(super) fn new(file: Option<String>, digests: bool) -> Self {
        Self { file, digests, ..Self::default() }
    }

    fn name(&self, seed: u64) -> String {
        self.file.clone().unwrap_or_else(|| format!("seed {seed}"))
    }

    /// Counts a schedule, prints its log and digest where they are asked for, and what it broke.
    ///
    /// # Errors
    /// Where standard output cannot be written.
    pub(super) fn take_in(&mut self, seed: u64, became: Became) -> anyhow::Result<()> {
        self.done += 1;
        let name = self.name(seed);
        let outcome = match became {
            Became::Broke(why) => {
                to_stderr(format_args!("\r{name}: {why}"));
                self.failed.insert(seed, vec![why]);
                return Ok(());
            }
            Became::Over(outcome) => outcome,
        };
        let digest = self.digests.then(|| format!("{seed} {}", outcome.digest));
        let printed = outcome.log.iter().chain(&digest).try_for_each(output::print);
        let broken: Vec<String> = outcome.breaches.iter().map(line_of).collect();
        if let Some(first) = broken.first() {
            to_stderr(format_args!("\r{name}: {first}{}", if broken.len() > 1 { " …" } else { "" }));
            self.failed.insert(seed, broken);
        }
        if self.file.is_some() && !outcome.never_began.is_empty() {
            to_stderr(format_args!("{name}: {}", without_effect(&outcome.never_began)));
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
        printed
    }

    /// What too seldom happened.
    pub(super) fn gaps(&self) -> Vec<String> {
        gaps(Counted { done: self.done, fired: &self.fired, reached: &self.reached, far: self.far })
    }

    /// All of it, as people read it.
    pub(super) fn summary(&self, took: Duration, cores: usize, gaps: &[String]) -> String {
        let seconds = took.as_secs_f64().max(0.001);
        #[expect(clippy::cast_precision_loss, reason = "a rate that people read")]
        let rate = self.done as f64 / seconds / cores as f64;
        let done = self.done.max(1);
        let mut lines = vec![
            format!(
                "{} schedules in {seconds:.1} s: {rate:.1} per second and core; the mean one lasts {} s and writes {} revisions",
                self.done,
                self.simulated_ms / 1_000 / done,
                self.revisions / done
            ),
            format!(
                "the largest commit wrote {} bytes, in {}",
                self.largest_commit.0,
                self.name(self.largest_commit.1)
            ),
        ];
        lines.push("reached, by schedules:".to_owned());
        lines.extend(self.reached.iter().map(|(phase, n)| format!("  {phase:<14} {n}")));
        lines.push("upgrades ended:".to_owned());
        lines.extend(self.ended.iter().map(|(how, n)| format!("  {how:<14} {n}")));
        lines.push("faults, by phase:".to_owned());
        lines.extend(self.table());
        lines.extend(gaps.iter().map(|gap| format!("too little happened: {gap}")));
        match self.failed.is_empty() {
            true => lines.push("no rule was broken".to_owned()),
            false => {
                lines.push(format!("{} of {} schedules failed:", self.failed.len(), self.done));
                for (seed, broken) in self.failed.iter().take(40) {
                    let first: Vec<&str> = broken.iter().take(3).map(String::as_str).collect();
                    lines.push(format!("  {}: {}", self.name(*seed), first.join("\n    ")));
                }
            }
        }
        lines.join("\n")
    }

    /// How often each kind of fault began in each phase.
    fn table(&self) -> Vec<String> {
        let row = |kind: &str, cell: &dyn Fn(&str) -> String| {
            let mut row = format!("  {kind:<22}");
            for phase in draw::PHASES {
                // Writing to a text cannot fail.
                let _ = write!(row, " {:>9}", cell(phase));
            }
            row
        };
        let kinds: BTreeSet<&String> = self.fired.keys().map(|(kind, _)| kind).collect();
        let count = |kind: &str, phase: &str| {
            self.fired.get(&(kind.to_owned(), phase.to_owned())).copied().unwrap_or(0).to_string()
        };
        let head = row("", &|phase| phase[..phase.len().min(9)].to_owned());
        let rows = kinds.into_iter().map(|kind| row(kind, &|phase| count(kind, phase)));
        std::iter::once(head).chain(rows).collect()
    }
}

/// Which faults of a scenario had no effect.
fn without_effect(never_began: &[Fault]) -> String {
    let one = |fault: &Fault| format!("{:?} in {} of upgrade {}", fault.what, fault.phase, fault.upgrade);
    let all: Vec<String> = never_began.iter().map(one).collect();
    format!("faults that never began: {}: {}", all.len(), all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_in_a_replayed_file_is_named_by_the_file() {
        let broke = || Became::Broke("exit status: 1: why".to_owned());
        let summary = |file: Option<&str>| {
            let mut tally = Tally::new(file.map(str::to_owned), false);
            tally.take_in(7, broke()).unwrap();
            tally.summary(Duration::from_secs(1), 1, &[])
        };
        assert!(summary(None).ends_with("1 of 1 schedules failed:\n  seed 7: exit status: 1: why"));
        assert!(summary(Some("a.json")).ends_with("\n  a.json: exit status: 1: why"));
    }
}
