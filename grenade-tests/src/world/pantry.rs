//! Instances of the sample service, as processes of a world.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::world::wait::wait_for_200;
use crate::world::{Process, Spawn, World, WorldError, program};

/// How long an instance may take to become ready.
const READY: Duration = Duration::from_secs(15);
/// How long its last requests may take.
const STOP: Duration = Duration::from_secs(15);
/// How long seeding may take.
const SEED: Duration = Duration::from_secs(120);

/// How an instance is run.
#[derive(Debug, Clone)]
pub struct PantryPlan {
    /// Service version: 1 or 2.
    pub version: u32,
    /// The instance's node.
    pub node: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// The catalogue's database.
    pub database: String,
    /// The file whose presence takes it out of rotation.
    pub disable_file: PathBuf,
}

impl PantryPlan {
    fn spawn(&self) -> Result<Spawn, WorldError> {
        let program = program::own(&format!("pantry-v{}", self.version))?;
        Ok(Spawn::new(&format!("pantry-{}", self.node), &program)
            .args(["--listen", &self.address.to_string(), "--database", &self.database])
            .args(["--node", &self.node, "--disable-file"])
            .arg(&self.disable_file))
    }
}

/// An instance that runs.
#[derive(Debug)]
pub struct Pantry {
    /// How it is run.
    pub plan: PantryPlan,
    /// Its process.
    pub process: Process,
}

/// What stopping and starting one instance takes when nothing else goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// From SIGTERM to its end.
    pub stop: Duration,
    /// From its start to ready.
    pub start_to_ready: Duration,
}

impl Pantry {
    /// Starts an instance and does not wait for it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(world: &World, plan: PantryPlan) -> Result<Self, WorldError> {
        let process = world.spawn(plan.spawn()?)?;
        Ok(Self { plan, process })
    }

    /// Starts an instance and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be started or does not become ready.
    pub async fn start(world: &World, plan: PantryPlan) -> Result<Self, WorldError> {
        let mut pantry = Self::spawn(world, plan)?;
        pantry.ready().await?;
        Ok(pantry)
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// When it ends or does not become ready.
    pub async fn ready(&mut self) -> Result<(), WorldError> {
        let what = format!("pantry on {} to be ready", self.plan.node);
        let ready = wait_for_200(&what, READY, self.plan.address, "/ready").await;
        self.process.must_run()?;
        ready.map(|_| ())
    }

    /// Ends it in good order: what is in flight is answered first.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop(self) -> Result<std::process::ExitStatus, WorldError> {
        self.process.stop(Signal::TERM, STOP).await
    }
}

/// Measures one stop and one start, alone: two terms of the ideal.
///
/// # Errors
/// When the instance cannot be started or ended.
pub async fn measure_restart(world: &World, plan: PantryPlan) -> Result<Restart, WorldError> {
    let began = Instant::now();
    let pantry = Pantry::start(world, plan).await?;
    let start_to_ready = began.elapsed();
    let began = Instant::now();
    pantry.stop().await?;
    Ok(Restart { stop: began.elapsed(), start_to_ready })
}

/// Makes the catalogue of version 1 in `database` with `rows` images.
///
/// # Errors
/// When it cannot be made, with the program's last words.
pub async fn seed(world: &World, database: &str, rows: u32) -> Result<(), WorldError> {
    let spawn = Spawn::new("pantry-init", &program::own("pantry-v1")?).args([
        "init",
        "--database",
        database,
        "--rows",
        &rows.to_string(),
    ]);
    let mut process = world.spawn(spawn)?;
    let status = process.wait(SEED).await?;
    if status.success() {
        return Ok(());
    }
    let (name, tail) = (process.name().to_owned(), process.tail());
    Err(WorldError::Ended { name, status: status.to_string(), tail })
}
