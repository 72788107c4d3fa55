//! The steps of an upgrade, as they were executed: what the operator typed, approvals, and the commands of the service.

use serde::Serialize;
use tokio::time::Instant;

use crate::gate::file::{Command, Gate};
use crate::gate::launcher::{self, Places};
use crate::world::World;
use crate::world::executed::{Executed, Executions};

/// One command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// When it began, in milliseconds since the load's start.
    pub at_ms: f64,
    /// The command.
    pub command: String,
    /// Why it failed; absent: it exited with 0.
    pub failed: Option<String>,
    /// Whether a plan asked for it, and not the upgrade.
    pub of_plan: bool,
}

impl Step {
    /// What was executed under a load that began then, in order of time.
    pub fn all(executions: &Executions, began: Instant) -> Vec<Self> {
        let of = |Executed { at, command, failed, of_plan }: Executed| Self {
            at_ms: at.saturating_duration_since(began).as_micros() as f64 / 1e3,
            command,
            failed,
            of_plan,
        };
        let mut steps: Vec<Self> = executions.all().into_iter().map(of).collect();
        steps.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
        steps
    }
}

/// Executes commands of the service one after the other; each is recorded.
///
/// # Errors
/// The first that cannot be started, or does not exit with 0.
pub async fn execute(
    executions: &Executions,
    (world, gate): (&World, &Gate),
    name: &str,
    commands: &[Command],
    places: &Places,
) -> anyhow::Result<()> {
    for (n, command) in commands.iter().enumerate() {
        let (words, log) = (places.words(command)?, format!("{name}-{n}"));
        executions.run(&words, launcher::run(world, gate, &log, command, places)).await?;
    }
    Ok(())
}
