//! A load that a command of the gate file sends: started beside a fleet, and ended by SIGTERM. It writes its own ledger.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use rustix::process::Signal;
use tokio::time::Instant;

use crate::gate::file::{Command, Gate};
use crate::gate::launcher::{self, Places};
use crate::load::entry::Entry;
use crate::load::foreign::{self, Known};
use crate::world::{Process, World, WorldError};

/// How long the command may take to end after SIGTERM: requests in flight have ten seconds.
const ENDS: Duration = Duration::from_secs(30);

/// The instant from which ledgers count, on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Zero {
    /// On this program's clock.
    pub instant: Instant,
    /// Unix time in milliseconds.
    unix_ms: u128,
}

impl Zero {
    /// Now.
    pub fn now() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { instant: Instant::now(), unix_ms: unix.as_millis() }
    }
}

/// A command that runs.
#[derive(Debug)]
pub struct ByCommand {
    process: Process,
    ledger: PathBuf,
    zero: Zero,
}

impl ByCommand {
    /// Starts it; requests go to `at`, and `name` is that of its ledger.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        world: &World,
        gate: &Gate,
        command: &Command,
        places: Places,
        at: SocketAddr,
        zero: Zero,
        name: &str,
    ) -> anyhow::Result<Self> {
        let ledger = world.path(&format!("requests-{name}.csv"));
        let places = places.behind(at).load(&ledger, zero.unix_ms);
        let process = launcher::begin(world, gate, &format!("load-{name}"), command, &places);
        Ok(Self { process: process.context("load.command")?, ledger, zero })
    }

    /// An error if it has ended: it must run until it is stopped.
    ///
    /// # Errors
    /// How it ended, with its last lines.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.process.ended() else { return Ok(()) };
        bail!(
            "load.command ended with {status} before it was stopped by SIGTERM; its last lines:\n{}",
            self.process.tail()
        )
    }

    /// Ends it, and reads its ledger.
    ///
    /// # Errors
    /// When it had ended before, does not end in time, or its ledger is wrong.
    pub async fn stop(mut self, gate: &Gate) -> anyhow::Result<Vec<Entry>> {
        self.must_run()?;
        self.process.signal(Signal::TERM)?;
        match self.process.wait(ENDS).await {
            // Its exit status says nothing: some programs end with 1 where a request failed. The ledger counts.
            Ok(_) => self.process.end_group(),
            Err(WorldError::Late { .. }) => bail!(
                "load.command did not end within {} s after SIGTERM, and is killed: its ledger may be incomplete. On SIGTERM \
                 it must send nothing more, write its ledger and end",
                ENDS.as_secs()
            ),
            Err(error) => return Err(error.into()),
        }
        let nodes = (1..=gate.instances).map(|n| gate.node(n)).collect();
        let versions = [gate.service.base.number.get(), gate.service.target.number.get()];
        let known = Known { nodes, versions, ended_ms: self.zero.instant.elapsed().as_micros() as f64 / 1e3 };
        foreign::read(&self.ledger, &known).with_context(|| {
            format!(
                "load.command wrote no good ledger (a shell script must `exec` the program that gets SIGTERM); its last \
                 lines:\n{}\nthe ledger",
                self.process.tail()
            )
        })
    }
}
