//! Zero-impact: no statistically significant latency outliers while the service is upgraded. Two pools get the same load at
//! the same time, each with its own database; one of them, the treated one, is upgraded and rolled back again and again.
//!
//! ```text
//!   pools ──► idle stretch ──► self-check ──► stretches with upgrades ──► judge
//!   twice     neither is       an idle pair   looked at up to three      pure
//!   the fleet upgraded         passes, what   times
//!                              was put in
//!                              is found
//! ```
//!
//! A machine on which the judge cannot decide is found before anything is upgraded, and the verdict is inconclusive.

pub mod alternate;
pub mod calibrate;
pub mod control;
pub mod inject;
pub mod judge;
pub mod pool;
pub mod pools;
pub mod rivals;
pub mod series;
#[cfg(test)]
pub(in crate::gate) mod simulated;
pub mod stretch;

use std::time::Duration;

use crate::gate::databases::Databases;
use crate::gate::file::Gate;
use crate::gate::host::HostSeen;
use crate::gate::impact::alternate::Alternating;
use crate::gate::impact::pool::Treatment;
use crate::gate::impact::pools::Pools;
use crate::gate::impact::series::Series;
use crate::gate::impact::stretch::Stretch;
use crate::gate::report::progress::Progress;
use crate::gate::verdict::{Check, Word, not_sent, words, worst};
use crate::world::World;

/// What two pools showed.
#[derive(Debug)]
pub struct Impact {
    /// The twin is the pool itself, in stretches in which it is not upgraded.
    pub alternates: bool,
    /// Whether the judge can decide on this machine.
    pub fitness: Vec<Check>,
    /// The pools before anything was upgraded.
    pub idle: Stretch,
    /// The pools while one was upgraded; absent: the judge cannot decide on this machine, so nothing was.
    pub upgraded: Option<Upgraded>,
}

/// The pools while one was upgraded.
#[derive(Debug)]
pub struct Upgraded {
    /// Both ledgers.
    pub stretch: Stretch,
    /// How often it was upgraded and rolled back.
    pub passes: u32,
    /// Why it could not go on.
    pub stuck: Option<String>,
    /// How often the judge looked, of how many times at the most.
    pub looks: (u32, u32),
    /// What it said at its last look.
    pub checks: Vec<Check>,
}

/// Brings up two pools and upgrades one of them, until the judge can decide or has looked as often as it may.
///
/// # Errors
/// When the pools could not be brought up or loaded; what the load shows is a result.
pub async fn measure(
    world: &World,
    gate: &Gate,
    databases: &Databases,
    progress: &Progress,
) -> anyhow::Result<Impact> {
    let mut design = Design::bring_up(world, gate, databases, progress).await?;
    let (most, alternates) = (gate.impact.looks, !gate.impact.twin);
    let (mut idle, mut fit) = (Stretch::default(), Vec::new());
    for look in 1..=most {
        idle.append(design.rest(look, gate.impact.length, progress).await?);
        fit = fitness(&idle, gate.pace.seed, most);
        let word = worst(fit.iter().map(|check| check.verdict));
        progress.say(&format!("look {look} of {most} at two idle pools: {}", word.word()));
        if word == Word::Pass {
            break;
        }
    }
    if worst(fit.iter().map(|check| check.verdict)) != Word::Pass {
        return Ok(Impact { alternates, fitness: fit, idle, upgraded: None });
    }
    let mut upgraded = Upgraded {
        stretch: Stretch::default(),
        passes: 0,
        stuck: None,
        looks: (0, most),
        checks: Vec::new(),
    };
    while upgraded.looks.0 < most {
        let (stretch, course) = design.treat(gate.impact.length, progress).await?;
        upgraded.stretch.append(stretch);
        upgraded.passes += course.passes;
        upgraded.stuck = course.stuck;
        upgraded.looks.0 += 1;
        let drains = upgraded.stretch.drains_ms();
        let [treated, twin] = upgraded.stretch.series();
        upgraded.checks = judge::judge(&treated, &twin, &drains, most);
        let word = worst(upgraded.checks.iter().map(|check| check.verdict));
        progress.say(&format!(
            "look {} of {most}, {} drains: {}",
            upgraded.looks.0,
            drains.len(),
            word.word()
        ));
        if word != Word::Inconclusive || upgraded.stuck.is_some() || !course.may_go_on {
            break;
        }
    }
    Ok(Impact { alternates, fitness: fit, idle, upgraded: Some(upgraded) })
}

/// How an upgrade is compared with no upgrade.
enum Design<'a> {
    /// With a twin at the same time.
    Twin(Box<Pools<'a>>),
    /// With the same pool at other times, in an order that dice decide.
    Alternating(Box<Alternating<'a>>),
}

impl<'a> Design<'a> {
    async fn bring_up(
        world: &'a World,
        gate: &'a Gate,
        databases: &Databases,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        Ok(match gate.impact.twin {
            true => Self::Twin(Box::new(Pools::bring_up(world, gate, databases, progress).await?)),
            false => {
                Self::Alternating(Box::new(Alternating::bring_up(world, gate, databases, progress).await?))
            }
        })
    }

    async fn rest(&mut self, look: u32, length: Duration, progress: &Progress) -> anyhow::Result<Stretch> {
        match self {
            Self::Twin(pools) => pools.rest(&format!("idle-{look}"), length, progress).await,
            Self::Alternating(pool) => pool.rest(length, progress).await,
        }
    }

    async fn treat(&mut self, length: Duration, progress: &Progress) -> anyhow::Result<(Stretch, Treatment)> {
        match self {
            Self::Twin(pools) => pools.treat(length, progress).await,
            Self::Alternating(pool) => pool.treat(length, progress).await,
        }
    }
}

/// Whether the judge can decide on this machine: of two idle pools it must say that they are alike, and of the same ledger
/// with a slow-down or with stalls put in, that they are not. It may look so many times.
pub fn fitness(idle: &Stretch, seed: u64, looks: u32) -> Vec<Check> {
    let ([own, twin], drains) = (idle.series(), inject::instants(idle.length_ms(), seed));
    let judged = |treated: &Series| {
        let checks = judge::judge(treated, &twin, &drains, looks);
        (worst(checks.iter().map(|check| check.verdict)), checks)
    };
    let found = |checks: &[Check], of: Word| -> String {
        let those = checks.iter().filter(|check| check.verdict == of);
        those.map(|check| format!("{}: {}", check.check, check.found)).collect::<Vec<_>>().join("; ")
    };
    let (word, checks) = judged(&own);
    let said = match word {
        Word::Pass => found(&checks[1..2], Word::Pass),
        other => format!("{}; {}", other.word(), found(&checks, other)),
    };
    let passes = |is: bool| if is { Word::Pass } else { Word::Inconclusive };
    let failed = idle.treated.iter().chain(&idle.twin).filter(|entry| entry.is_failed()).collect::<Vec<_>>();
    let not_sent = not_sent(idle.treated.iter().chain(&idle.twin));
    let first = failed.first().map(|first| format!("; first: {}", words(first))).unwrap_or_default();
    let all = idle.treated.len() + idle.twin.len();
    let mut fitness = vec![
        Check::new(
            "no request to an idle pool fails",
            passes(failed.is_empty() && not_sent.is_none()),
            format!("{} of {all}{first}{}", failed.len(), not_sent.unwrap_or_default()),
        ),
        Check::new("two idle pools are alike", passes(word == Word::Pass), said),
    ];
    let put_in = [
        ("everything 20 % slower is found", inject::slowed(&own, 1.2)),
        ("a stall of 100 ms after each drain is found", inject::stalled(&own, &drains, 100.0)),
    ];
    for (check, treated) in put_in {
        let (word, checks) = judged(&treated);
        fitness.push(Check::new(check, passes(word == Word::Fail), found(&checks, word)));
    }
    fitness
}

impl Impact {
    /// The machine while the pools ran; the worse of both stretches.
    pub fn host(&self) -> HostSeen {
        match &self.upgraded {
            Some(upgraded) => upgraded.stretch.host,
            None => self.idle.host,
        }
    }
}
