//! Falsified runs. In a world in which nothing goes wrong, one thing is made false beside the product: a record of the
//! history that the judge reads, or a thing of the world. The judge must find the rule broken that it breaks; so the judge
//! itself is judged.

mod deed;
mod small;

use super::child::{self, Became, Play};
use super::judge::Breach;
use super::scenario::Scenario;
use super::world::World;
use crate::trace::lie::{About, Lie};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tidegate_proto::record::upgrade::PhaseName;

pub(super) use deed::Deed;

/// What is false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Falsehood {
    /// The history, when it is judged at the end.
    Told(Lie),
    /// The world, or what the judge saw of it.
    Done(Deed),
}

impl Falsehood {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let told = Lie::ALL.into_iter().map(Self::Told);
        told.chain(Deed::ALL.into_iter().map(Self::Done)).collect()
    }

    /// The rule that it breaks.
    pub fn rule(self) -> u8 {
        match self {
            Self::Told(lie) => lie.rule(),
            Self::Done(deed) => deed.rule(),
        }
    }

    fn name(self) -> String {
        let name = match self {
            Self::Told(lie) => serde_json::to_value(lie),
            Self::Done(deed) => serde_json::to_value(deed),
        };
        name.ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Whether a scenario has what it is about.
    fn suits(self, scenario: &Scenario) -> bool {
        match self {
            Self::Told(lie) => match lie.about() {
                About::Completed => scenario.services[0].schema.is_some(),
                About::RolledBack => small::is_rolled_back(scenario),
                About::Anything => true,
            },
            Self::Done(deed) => deed.suits(scenario),
        }
    }
}

/// The falsehood of a run, and how far it was carried out.
#[derive(Debug, Default)]
pub(super) struct Plan {
    falsehood: Option<Falsehood>,
    is_done: bool,
}

impl Plan {
    /// That of a scenario.
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self { falsehood: scenario.falsify, is_done: false }
    }

    /// The lie that the history holds.
    pub(super) fn lie(&self) -> Option<Lie> {
        match self.falsehood {
            Some(Falsehood::Told(lie)) => Some(lie),
            _ => None,
        }
    }

    /// Does what is to be done to the world, as soon as that is possible in its phase of its upgrade.
    pub(super) async fn step(&mut self, world: &mut World, id: &str, (phase, since): (PhaseName, u64)) {
        let Some(Falsehood::Done(deed)) = self.falsehood.filter(|_| !self.is_done) else { return };
        if deed.is_due(id, phase) && deed.tell(world, since).await.is_some() {
            world.ground.tell(format!("falsified: {deed:?}"));
            self.is_done = true;
        }
    }

    /// Whether the judge has found out what was done.
    pub(super) fn is_found(&self, world: &World) -> bool {
        let rule = self.falsehood.map(Falsehood::rule);
        let is_deed = matches!(self.falsehood, Some(Falsehood::Done(_)));
        is_deed && world.ground.state().facts.breaches.iter().any(|breach| Some(breach.rule) == rule)
    }
}

/// What became of one falsified run, or of one that is true.
struct Line {
    falsehood: Option<Falsehood>,
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
        match (&self.became, self.falsehood) {
            (Became::Broke(_), _) => false,
            (Became::Over(outcome), None) => outcome.breaches.is_empty(),
            (Became::Over(outcome), Some(false_)) => {
                outcome.breaches.iter().any(|breach| breach.rule == false_.rule())
            }
        }
    }

    fn tell(&self) {
        let (rule, name) = match self.falsehood {
            Some(falsehood) => (falsehood.rule().to_string(), falsehood.name()),
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
        println!("{right}  {rule:>2}  {name:<34}  {:<20}  {what}", self.scenario);
    }
}

/// Plays each small scenario as it is and with each falsehood that it has a place for, and says what the judge found: exit 0
/// where it found every falsehood by its rule, and nothing in what is true.
///
/// # Errors
/// None in practice.
pub(super) fn judge_the_judge(jobs: usize) -> anyhow::Result<ExitCode> {
    let mut plays = Vec::new();
    for (name, scenario) in small::scenarios() {
        plays.push((None, name, scenario.clone()));
        for falsehood in Falsehood::all().into_iter().filter(|falsehood| falsehood.suits(&scenario)) {
            let falsified = Scenario { falsify: Some(falsehood), ..scenario.clone() };
            plays.push((Some(falsehood), name, falsified));
        }
    }
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((falsehood, scenario, play)) = plays.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let became = child::run(Play::Scenario(play), false, None);
                    let line = Line { falsehood: *falsehood, scenario, became };
                    lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(line);
                }
            });
        }
    });
    let mut lines = lines.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    lines.sort_by_key(|line| line.falsehood.map(|falsehood| (falsehood.rule(), falsehood.name())));
    lines.iter().for_each(Line::tell);
    let told = |falsehood: &Falsehood| lines.iter().any(|line| line.falsehood == Some(*falsehood));
    let untold: Vec<String> =
        Falsehood::all().into_iter().filter(|f| !told(f)).map(Falsehood::name).collect();
    untold.iter().for_each(|name| println!("NO   -  {name:<34}  no scenario has a place for it"));
    let wrong = lines.iter().filter(|line| !line.is_right()).count() + untold.len();
    let falsified = lines.iter().filter(|line| line.falsehood.is_some()).count();
    println!("{falsified} falsified runs and {} true ones, judged wrongly: {wrong}", lines.len() - falsified);
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
