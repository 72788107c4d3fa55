//! Judges the judge: plays each small scenario with each falsification that suits it, and prints what the judge found.

use super::kind::Falsification;
use super::scenarios::scenarios;
use crate::simulate::child::{self, Became, Play, Setting};
use crate::simulate::databases::Databases;
use crate::simulate::judge::Breach;
use crate::simulate::output;
use crate::simulate::scenario::Scenario;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What became of one falsified run, or of one that is true.
struct Line {
    falsification: Option<Falsification>,
    scenario: &'static str,
    became: Became,
}

impl Line {
    fn breaches(&self) -> &[Breach] {
        match &self.became {
            Became::Over(outcome) => &outcome.breaches,
            Became::Broke(_) => &[],
        }
    }

    /// Whether the judge judged right.
    fn is_right(&self) -> bool {
        match (&self.became, self.falsification) {
            (Became::Broke(_), _) => false,
            (Became::Over(outcome), None) => outcome.breaches.is_empty(),
            (Became::Over(outcome), Some(false_)) => {
                outcome.breaches.iter().any(|breach| breach.rule == false_.rule())
            }
        }
    }

    fn print(&self) -> anyhow::Result<()> {
        let (rule, name) = match self.falsification {
            Some(falsification) => (falsification.rule().to_string(), falsification.name()),
            None => ("-".to_owned(), "nothing".to_owned()),
        };
        let of_it = self.breaches().iter().find(|breach| breach.rule.to_string() == rule);
        let what = match (&self.became, of_it.or(self.breaches().first())) {
            (Became::Broke(why), _) => why.clone(),
            (_, Some(breach)) => format!("rule {}: {}", breach.rule, breach.what),
            (_, None) => "no breach".to_owned(),
        };
        let right = if self.is_right() { "ok" } else { "NO" };
        let what: String = what.chars().take(140).collect();
        output::print(format_args!("{right}  {rule:>2}  {name:<34}  {:<20}  {what}", self.scenario))
    }
}

/// Plays each small scenario as it is and with each falsification that it has a place for, and says what the judge found: exit 0
/// where it found every falsification by its rule, and nothing in what is true.
///
/// # Errors
/// Where one could not be played, or standard output cannot be written.
pub(in crate::simulate) fn judge_the_judge(databases: &Databases, jobs: usize) -> anyhow::Result<ExitCode> {
    let mut plays = Vec::new();
    for (name, scenario) in scenarios() {
        plays.push((None, name, scenario.clone()));
        for falsification in
            Falsification::all().into_iter().filter(|falsification| falsification.suits(&scenario))
        {
            let falsified = Scenario { falsify: Some(falsification), ..scenario.clone() };
            plays.push((Some(falsification), name, falsified));
        }
    }
    let (next, lines, stopped) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(plays.len()) {
            scope.spawn(|| {
                while let Some((falsification, scenario, play)) =
                    plays.get(next.fetch_add(1, Ordering::SeqCst))
                {
                    match child::run(Play::Scenario(play), Setting::of(databases)) {
                        Ok(became) => {
                            let line = Line { falsification: *falsification, scenario, became };
                            lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                        }
                        Err(error) => {
                            next.fetch_max(plays.len(), Ordering::SeqCst);
                            *stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        }
                    }
                }
            });
        }
    });
    let mut lines = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
    lines.sort_by_key(|line| {
        line.falsification.map(|falsification| (falsification.rule(), falsification.name()))
    });
    lines.iter().try_for_each(Line::print)?;
    if let Some(error) = stopped.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let was_played =
        |falsification: &Falsification| lines.iter().any(|line| line.falsification == Some(*falsification));
    let unplayed: Vec<String> =
        Falsification::all().into_iter().filter(|f| !was_played(f)).map(Falsification::name).collect();
    for name in &unplayed {
        output::print(format_args!("NO   -  {name:<34}  no scenario has a place for it"))?;
    }
    let wrong = lines.iter().filter(|line| !line.is_right()).count() + unplayed.len();
    let falsified = lines.iter().filter(|line| line.falsification.is_some()).count();
    let true_ones = lines.len() - falsified;
    output::print(format_args!(
        "{falsified} falsified runs and {true_ones} true ones, judged wrongly: {wrong}"
    ))?;
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
