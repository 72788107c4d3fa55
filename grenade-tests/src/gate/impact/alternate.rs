//! One pool, for a service that cannot have a twin: it is upgraded and rolled back in some stretches and left alone in others,
//! in an order that dice decide. Each stretch with an upgrade is compared with the one beside it, as a pool with its twin.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use crate::gate::databases::Databases;
use crate::gate::file::Gate;
use crate::gate::impact::judge::FEWEST_DRAINS;
use crate::gate::impact::pool::{Pool, Shown, Treatment};
use crate::gate::impact::pools::{PATIENCE, WARM_UP};
use crate::gate::impact::stretch::Stretch;
use crate::gate::report::progress::Progress;
use crate::load::plan::Pace;
use crate::world::World;

/// How long a stretch is, as long as no upgrade was seen.
const FIRST: Duration = Duration::from_secs(15);

/// A stretch that comes before its pass is longer than the last pass by this factor, and by this time.
const LONGER: f64 = 1.2;
const AT_LEAST: Duration = Duration::from_secs(2);

/// One fleet.
pub struct Alternating<'a> {
    gate: &'a Gate,
    world: &'a World,
    pool: Pool<'a>,
    dice: StdRng,
    /// How long the last pass took.
    pass: Duration,
    loads: u32,
    passes: u32,
}

impl<'a> Alternating<'a> {
    /// Brings it up, and warms it.
    ///
    /// # Errors
    /// When anything of it cannot be had.
    pub async fn bring_up(
        world: &'a World,
        gate: &'a Gate,
        databases: &Databases,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        progress.say(&format!(
            "one pool of {} instances, {} requests a second",
            gate.instances, gate.impact.rate
        ));
        let pool = Pool::bring_up(world, gate, databases, "pool").await?;
        let dice = StdRng::seed_from_u64(gate.pace.seed);
        let mut alternating = Self { gate, world, pool, dice, pass: FIRST, loads: 0, passes: 0 };
        alternating.left_alone(WARM_UP, progress).await?;
        Ok(alternating)
    }

    /// Pairs of stretches in which nothing is done, so long for each of both kinds.
    ///
    /// # Errors
    /// When a load could not be run.
    pub async fn rest(&mut self, length: Duration, progress: &Progress) -> anyhow::Result<Stretch> {
        let (mut whole, mut left) = (Stretch::default(), length);
        while !left.is_zero() {
            let each = left.min(FIRST);
            progress.say(&format!("twice {} s in which nothing is upgraded", each.as_secs()));
            let (one, other) =
                (self.left_alone(each, progress).await?, self.left_alone(each, progress).await?);
            whole.append(pair(one, other));
            left -= each;
        }
        Ok(whole)
    }

    /// Pairs of stretches, one of each pair with an upgrade: at least so long, and with as many drains as the judge needs.
    ///
    /// # Errors
    /// As [`Self::rest`]; an upgrade that gets stuck is a result.
    pub async fn treat(
        &mut self,
        length: Duration,
        progress: &Progress,
    ) -> anyhow::Result<(Stretch, Treatment)> {
        let (mut whole, mut treatment, began) = (Stretch::default(), Treatment::default(), Instant::now());
        treatment.may_go_on = true;
        let mut treated = Duration::ZERO;
        while treatment.stuck.is_none()
            && (treated < length
                || (whole.drains_ms().len() < FEWEST_DRAINS && began.elapsed() < length * 2 * PATIENCE))
        {
            let (on, off);
            if self.dice.random_bool(0.5) {
                on = self.upgraded(&mut treatment, progress).await?;
                off = self.left_alone(self.pass, progress).await?;
            } else {
                // How long the pass will take is not known yet; what is too much is cut off.
                off = self.left_alone(self.pass.mul_f64(LONGER) + AT_LEAST, progress).await?;
                on = self.upgraded(&mut treatment, progress).await?;
            }
            treated += self.pass;
            whole.append(pair(on, off));
        }
        Ok((whole, treatment))
    }

    async fn upgraded(&mut self, treatment: &mut Treatment, progress: &Progress) -> anyhow::Result<Shown> {
        self.passes += 1;
        let (gate, id, pace) = (self.gate, self.passes, self.pace());
        progress.say(&format!("the pool is upgraded, pass {id}"));
        let began = Instant::now();
        let (shown, stuck) = self
            .pool
            .loaded(gate, pace, async |pool, load| pool.pass(gate, id, load, progress).await)
            .await?;
        self.pass = began.elapsed();
        treatment.passes += 1;
        treatment.stuck = stuck;
        Ok(shown)
    }

    async fn left_alone(&mut self, length: Duration, progress: &Progress) -> anyhow::Result<Shown> {
        let (gate, pace) = (self.gate, self.pace());
        progress.say(&format!("the pool is left alone for {:.0} s", length.as_secs_f64()));
        let idle = async |pool: &mut Pool<'a>, _: &_| {
            pool.left_alone(length, progress).await;
            Ok(())
        };
        Ok(self.pool.loaded(gate, pace, idle).await?.0)
    }

    /// No load repeats the requests of another one.
    fn pace(&mut self) -> Pace {
        self.loads += 1;
        let seed = self.gate.pace.seed.wrapping_add(u64::from(self.loads));
        Pace {
            rate: self.gate.impact.rate,
            seed,
            jitter: Some(seed),
            ledger: self.world.path(&format!("requests-pool-{}.csv", self.loads)),
        }
    }
}

/// One stretch beside another one, as if both had been at the same time; what the longer one has more is cut off.
fn pair(mut treated: Shown, mut alone: Shown) -> Stretch {
    let last = |shown: &Shown| shown.entries.iter().map(|entry| entry.scheduled_ms).fold(0.0, f64::max);
    let length = last(&treated).min(last(&alone));
    for shown in [&mut treated, &mut alone] {
        shown.entries.retain(|entry| entry.scheduled_ms <= length);
    }
    treated.changes.retain(|change| change.at_ms <= length);
    let host = treated.host.worse(alone.host);
    Stretch { treated: treated.entries, twin: alone.entries, changes: treated.changes, host }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::host::HostSeen;
    use crate::gate::watch::Change;
    use crate::load::entry::good;

    #[test]
    fn both_stretches_of_a_pair_are_as_long_as_the_shorter() {
        let shown = |requests: u32| Shown {
            entries: (0..requests).map(|n| good(u64::from(n), "a", f64::from(n) * 25.0, 1.0)).collect(),
            changes: [10.0, 2_600.0]
                .map(|at_ms| Change { at_ms, node: "a".to_owned(), version: Some(1), in_rotation: true })
                .into(),
            host: HostSeen::default(),
        };
        for (on, off) in [(100, 120), (120, 100)] {
            let stretch = pair(shown(on), shown(off));
            assert_eq!((stretch.treated.len(), stretch.twin.len(), stretch.changes.len()), (100, 100, 1));
        }
    }
}
