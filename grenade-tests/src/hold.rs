//! A small world to try things on by hand: pantry behind a balancer, under load if asked, until a signal comes.

use std::path::PathBuf;
use std::time::Duration;

use crate::fixture::load::SampleLoad;
use crate::fixture::pantry::{self, Pantry, PantryPlan};
use crate::world::interrupt::Interrupt;
use crate::world::{World, WorldError, balancer, haproxy, port, postgres};

/// How long the balancer may take to see an instance.
const SEEN: Duration = Duration::from_secs(15);

/// What the world is to hold.
#[derive(Debug, Clone)]
pub struct HoldOptions {
    /// Its directory.
    pub dir: PathBuf,
    /// Instances of pantry, all at version 1.
    pub instances: u32,
    /// Rows to seed.
    pub rows: u32,
    /// PostgreSQL instead of SQLite.
    pub postgres: bool,
    /// HAProxy instead of the built-in balancer.
    pub haproxy: bool,
    /// Requests per second, 0 for none.
    pub rate: u32,
}

/// Brings it up, prints `ready` and the balancer's address, and holds it until a signal comes, which is the good end.
///
/// # Errors
/// When something cannot be had; then everything that was started is ended.
pub async fn hold(options: HoldOptions) -> anyhow::Result<()> {
    let mut interrupt = Interrupt::listen()?;
    let world = World::alone(&options.dir)?;
    tokio::select! {
        done = bring_up(&world, &options) => done,
        ended = interrupt.interrupted() => {
            world.sweep();
            println!("{ended}: every process was ended");
            Ok(())
        }
    }
}

async fn bring_up(world: &World, options: &HoldOptions) -> anyhow::Result<()> {
    let server = if options.postgres { Some(postgres::start(world).await?) } else { None };
    let database = server
        .as_ref()
        .map_or_else(|| format!("sqlite:{}", world.path("pantry.db").display()), postgres::Postgres::url);
    pantry::seed(world, &database, options.rows).await?;
    let mut instances = Vec::new();
    for n in 1..=options.instances {
        let node = format!("node-{n}");
        let disable_file = world.path(&format!("{node}.disable"));
        let plan =
            PantryPlan { version: 1, node, address: port::free()?, database: database.clone(), disable_file };
        println!("pantry on {}: http://{}, {}", plan.node, plan.address, plan.disable_file.display());
        instances.push(Pantry::start(world, plan).await?);
    }
    let servers: Vec<_> = instances.iter().map(|p| (p.plan.node.clone(), p.plan.address)).collect();
    let balancer = if options.haproxy {
        haproxy::start(world, &servers).await?
    } else {
        balancer::start(world, &servers).await?
    };
    for (name, _) in &servers {
        balancer.wait_for_status(name, "UP", SEEN).await?;
    }
    let load = match options.rate {
        0 => None,
        rate => {
            let ledger = world.path("requests.csv");
            Some(SampleLoad::new(balancer.address, rate, options.rows, ledger).start()?)
        }
    };
    println!(
        "database {database}\nstats socket {}\nready http://{}",
        balancer.stats_socket.display(),
        balancer.address
    );
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Some(load) = &load {
            println!("{:?}", load.progress());
        }
        for instance in &mut instances {
            if let Err(WorldError::Ended { name, status, .. }) = instance.process.must_run() {
                println!("{name} ended: {status}");
            }
        }
    }
}
