//! Two fleets with the same load at the same time: one is upgraded and rolled back again and again.

use std::time::Duration;

use tokio::time::Instant;

use crate::gate::databases::Databases;
use crate::gate::file::Gate;
use crate::gate::host::Machine;
use crate::gate::impact::judge::FEWEST_DRAINS;
use crate::gate::impact::pool::{Pool, Treatment, wait};
use crate::gate::impact::stretch::Stretch;
use crate::gate::report::progress::Progress;
use crate::gate::watch::Watch;
use crate::load::entry;
use crate::load::plan::Pace;
use crate::load::{Load, LoadHandle};
use crate::world::World;

/// Both loads begin so long after both are ready to.
const SOON: Duration = Duration::from_millis(100);
/// What comes first is not measured: connections are made, pages are read for the first time.
pub const WARM_UP: Duration = Duration::from_secs(5);
/// A stretch with too few drains ends after so many times its length.
pub const PATIENCE: u32 = 4;

/// The pool that is not upgraded.
const TWIN: &str = "twin";

/// Two fleets.
pub struct Pools<'a> {
    gate: &'a Gate,
    world: &'a World,
    treated: Pool<'a>,
    twin: Pool<'a>,
    /// Stretches and passes so far: each has a name of its own.
    stretches: u32,
    passes: u32,
}

impl<'a> Pools<'a> {
    /// Brings both up, and warms them.
    ///
    /// # Errors
    /// When anything of them cannot be had.
    pub async fn bring_up(
        world: &'a World,
        gate: &'a Gate,
        databases: &Databases,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let (each, rate) = (gate.instances, gate.impact.rate);
        progress.say(&format!("two pools of {each} instances, {rate} requests a second to each"));
        let treated = Pool::bring_up(world, gate, databases, "pool").await?;
        let twin = Pool::bring_up(world, gate, databases, TWIN).await?;
        let mut pools = Self { gate, world, treated, twin, stretches: 0, passes: 0 };
        pools.rest("warm", WARM_UP, progress).await?;
        Ok(pools)
    }

    /// A stretch in which nothing is done.
    ///
    /// # Errors
    /// When a load could not be run.
    pub async fn rest(
        &mut self,
        name: &str,
        length: Duration,
        progress: &Progress,
    ) -> anyhow::Result<Stretch> {
        progress.say(&format!("neither pool is upgraded for {} s", length.as_secs()));
        let (stretch, ()) = self
            .stretch(name, async |_, _| {
                wait(length, progress).await;
                Ok(())
            })
            .await?;
        Ok(stretch)
    }

    /// A stretch in which one pool is upgraded: at least so long, and with as many drains as the judge needs.
    ///
    /// # Errors
    /// When a load could not be run, or the fleet could not be asked; an upgrade that gets stuck is a result.
    pub async fn treat(
        &mut self,
        length: Duration,
        progress: &Progress,
    ) -> anyhow::Result<(Stretch, Treatment)> {
        let (gate, before) = (self.gate, self.passes);
        let name = format!("upgraded-{}", self.stretches);
        let (stretch, (passes, treatment)) = self
            .stretch(&name, async |pool, load| {
                let mut treatment = Treatment { may_go_on: gate.procedure.is_none(), ..Treatment::default() };
                let began = Instant::now();
                let drains = |passes: u32| (passes * 2 * gate.instances) as usize;
                while treatment.stuck.is_none()
                    && (began.elapsed() < length
                        || (drains(treatment.passes) < FEWEST_DRAINS && began.elapsed() < length * PATIENCE))
                {
                    let id = before + treatment.passes + 1;
                    progress.say(&format!("the pool is upgraded, pass {id}"));
                    treatment.stuck = pool.pass(gate, id, load, progress).await?;
                    treatment.passes += 1;
                    if !treatment.may_go_on {
                        // One upgrade is all that a procedure can do.
                        let rest = length.saturating_sub(began.elapsed());
                        tokio::time::sleep(rest).await;
                        break;
                    }
                }
                Ok((before + treatment.passes, treatment))
            })
            .await?;
        self.passes = passes;
        Ok((stretch, treatment))
    }

    /// Loads both pools at the same instants while `work` is done to one of them.
    async fn stretch<T>(
        &mut self,
        name: &str,
        work: impl AsyncFnOnce(&mut Pool<'a>, &LoadHandle) -> anyhow::Result<T>,
    ) -> anyhow::Result<(Stretch, T)> {
        self.stretches += 1;
        let (gate, world) = (self.gate, self.world);
        // No stretch repeats the requests of another one; both pools are sent the same ones, each at instants of its own.
        let seed = gate.pace.seed.wrapping_add(u64::from(self.stretches));
        let pace = |pool: &str| Pace {
            rate: gate.impact.rate,
            seed,
            jitter: Some(seed.wrapping_mul(2).wrapping_add(u64::from(pool == TWIN))),
            ledger: world.path(&format!("requests-{name}-{pool}.csv")),
        };
        let (of_treated, of_twin) = (pace("pool"), pace(TWIN));
        let (ledger, ledger_of_twin) = (of_treated.ledger.clone(), of_twin.ledger.clone());
        let began = Instant::now() + SOON;
        let machine = Machine::watch();
        let treated = Load::at(of_treated, self.treated.requests(), began)?;
        let twin = Load::at(of_twin, self.twin.requests(), began)?;
        let watch = Watch::start(gate, self.treated.fleet.nodes(), began, &self.treated.versions);
        // Its changes are not used: both pools get as many health checks.
        let _watch = Watch::start(gate, self.twin.fleet.nodes(), began, &self.twin.versions);
        let done = work(&mut self.treated, &treated).await?;
        let (stopped, stopped_twin) = tokio::join!(treated.stop(), twin.stop());
        stopped?;
        stopped_twin?;
        for pool in [&mut self.treated, &mut self.twin] {
            pool.fleet.must_run()?;
        }
        let (treated, twin) = (entry::read(&ledger)?, entry::read(&ledger_of_twin)?);
        let host = machine.seen(&treated).worse(machine.seen(&twin));
        Ok((Stretch { treated, twin, changes: watch.changes(), host }, done))
    }
}
