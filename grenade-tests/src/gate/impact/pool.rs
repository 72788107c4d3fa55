//! A fleet that gets load, and that can be upgraded and rolled back.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use crate::gate::course::Course;
use crate::gate::databases::Databases;
use crate::gate::drive::{Drive, LOOK_EVERY};
use crate::gate::file::Gate;
use crate::gate::fleet::Fleet;
use crate::gate::host::{HostSeen, Machine};
use crate::gate::launcher::Places;
use crate::gate::report::progress::Progress;
use crate::gate::watch::{Change, Watch};
use crate::gate::written::TurningPoint;
use crate::load::entry::{self, Entry};
use crate::load::plan::Pace;
use crate::load::requests::{Requests, Target, Versions};
use crate::load::script::Script;
use crate::load::{Load, LoadHandle};
use crate::world::World;

/// A pool.
pub struct Pool<'a> {
    pub(super) world: World,
    pub(super) fleet: Fleet<'a>,
    places: Places,
    script: Arc<Script>,
    pub(super) versions: Versions,
}

/// What was done to the pool that is upgraded.
#[derive(Debug, Default)]
pub struct Treatment {
    /// How often it was upgraded and rolled back.
    pub passes: u32,
    /// Why it could not go on.
    pub stuck: Option<String>,
    /// Whether it can be upgraded once more.
    pub may_go_on: bool,
}

impl<'a> Pool<'a> {
    /// Brings it up, in a directory of this name.
    ///
    /// # Errors
    /// When anything of it cannot be had.
    pub async fn bring_up(
        world: &World,
        gate: &'a Gate,
        databases: &Databases,
        name: &str,
    ) -> anyhow::Result<Self> {
        let data = databases.fresh(world, gate, &name.replace('-', "_")).await?;
        // A directory and processes of its own.
        let own = World::beside(&world.path(name))?;
        let course = Course::BackFrom(TurningPoint::Remove);
        let fleet = Fleet::bring_up(&own, gate, data.clone(), course).await?;
        let places = Places::of(&own, gate, &data)?.behind(fleet.balancer());
        let script = gate.script.clone().context("zero-impact needs `load.steps`")?;
        Ok(Self { world: own, fleet, places, script, versions: Versions::default() })
    }

    /// The requests of a stretch: its objects are its own, else the next one would make the same again.
    pub fn requests(&self) -> Arc<Requests> {
        let target = Target::Balancer(self.fleet.balancer(), self.versions.clone());
        Arc::new(Requests::new(Arc::clone(&self.script), target))
    }
}

/// What one pool showed.
pub struct Shown {
    /// Its ledger.
    pub entries: Vec<Entry>,
    /// What was seen of its instances.
    pub changes: Vec<Change>,
    /// The machine.
    pub host: HostSeen,
}

impl Pool<'_> {
    /// Upgrades the pool once, and rolls it back; answers why that could not be done.
    ///
    /// # Errors
    /// When the fleet could not be asked.
    pub async fn pass(
        &mut self,
        gate: &Gate,
        id: u32,
        load: &LoadHandle,
        progress: &Progress,
    ) -> anyhow::Result<Option<String>> {
        let (ended, right) = match &mut self.fleet {
            Fleet::Tidegate(ground) => {
                ground.operator = ground.operator.called(&format!("{}-{id}", gate.upgrade_id));
                let mut drive = Drive {
                    world: &self.world,
                    gate,
                    ground,
                    places: &self.places,
                    spectator: progress,
                    load: load.watched(),
                    course: Course::BackFrom(TurningPoint::Remove),
                    survivors: None,
                };
                (drive.drive().await?, "rolled-back")
            }
            Fleet::By(command, fleet) => {
                (fleet.drive(&self.world, gate, command, progress).await?, "completed")
            }
        };
        let because = ended.because.map(|why| format!(": {why}")).unwrap_or_default();
        Ok((ended.word != right).then(|| format!("pass {id} ended {}{because}", ended.word)))
    }

    /// Waits. The coordinator is asked meanwhile as often as in a pass: what asking costs is no work of an upgrade, and must not
    /// be in one kind of stretches alone.
    pub async fn left_alone(&self, length: Duration, progress: &Progress) {
        let asking = async {
            let Fleet::Tidegate(ground) = &self.fleet else { return std::future::pending().await };
            loop {
                // Before its first upgrade there is no status.
                let _ = ground.operator.status().await;
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            () = wait(length, progress) => {}
            () = asking => {}
        }
    }

    /// Loads it alone while `work` is done to it.
    ///
    /// # Errors
    /// When the load could not be run, or a process has ended that must not.
    pub async fn loaded<T>(
        &mut self,
        gate: &Gate,
        pace: Pace,
        work: impl AsyncFnOnce(&mut Self, &LoadHandle) -> anyhow::Result<T>,
    ) -> anyhow::Result<(Shown, T)> {
        let (ledger, began, machine) = (pace.ledger.clone(), Instant::now(), Machine::watch());
        let load = Load::at(pace, self.requests(), began)?;
        let watch = Watch::start(gate, self.fleet.nodes(), began, &self.versions);
        let done = work(self, &load).await?;
        load.stop().await?;
        self.fleet.must_run()?;
        let entries = entry::read(&ledger)?;
        let host = machine.seen(&entries);
        Ok((Shown { entries, changes: watch.changes(), host }, done))
    }
}

/// Waits, and says from time to time how much is left.
pub async fn wait(length: Duration, progress: &Progress) {
    const TOLD_EVERY: Duration = Duration::from_secs(15);
    let end = Instant::now() + length;
    while let left = end.saturating_duration_since(Instant::now())
        && !left.is_zero()
    {
        tokio::time::sleep(left.min(TOLD_EVERY)).await;
        progress.left(end.saturating_duration_since(Instant::now()));
    }
}
