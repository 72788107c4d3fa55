//! The fleet that is upgraded, and by whom.

use std::net::SocketAddr;
use std::time::Duration;

use crate::gate::course::Course;
use crate::gate::drive::hold;
use crate::gate::file::{Command, Gate};
use crate::gate::ground::Ground;
use crate::gate::launcher::{Data, Node};
use crate::gate::procedure;
use crate::gate::spectator::Spectator;
use crate::load::Watched;
use crate::world::World;
use crate::world::executed::Executions;

/// A fleet at the base version.
pub enum Fleet<'a> {
    /// By Tidegate.
    Tidegate(Box<Ground>),
    /// By a command.
    By(&'a Command, Box<procedure::Fleet>),
}

impl<'a> Fleet<'a> {
    /// Brings it up: every instance is at the base version and in rotation.
    ///
    /// # Errors
    /// When anything of it cannot be had.
    pub async fn bring_up(
        world: &World,
        gate: &'a Gate,
        data: Data,
        course: Course<'_>,
    ) -> anyhow::Result<Self> {
        Ok(match &gate.procedure {
            None => Self::Tidegate(Box::new(Ground::bring_up(world, gate, data, course).await?)),
            Some(command) => {
                Self::By(command, Box::new(procedure::Fleet::bring_up(world, gate, data).await?))
            }
        })
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[Node] {
        match self {
            Self::Tidegate(ground) => &ground.nodes,
            Self::By(_, fleet) => &fleet.nodes,
        }
    }

    /// What was executed for its upgrade.
    pub fn executed(&self) -> &Executions {
        match self {
            Self::Tidegate(ground) => ground.operator.executed(),
            Self::By(_, fleet) => &fleet.executed,
        }
    }

    /// What clients speak to.
    pub fn balancer(&self) -> SocketAddr {
        match self {
            Self::Tidegate(ground) => ground.balancer.address,
            Self::By(_, fleet) => fleet.balancer.address,
        }
    }

    /// Only looks, for a while.
    ///
    /// # Errors
    /// When a process has ended that must not.
    pub async fn hold(
        &mut self,
        load: &Watched,
        spectator: &dyn Spectator,
        doing: &str,
        span: Duration,
    ) -> anyhow::Result<()> {
        spectator.say(doing);
        match self {
            Self::Tidegate(ground) => hold(ground, load, spectator, doing, span).await,
            Self::By(..) => {
                tokio::time::sleep(span).await;
                self.must_run()
            }
        }
    }

    /// An error if a process has ended that must not.
    ///
    /// # Errors
    /// The first such process with its last words.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Tidegate(ground) => ground.must_run(),
            Self::By(_, fleet) => Ok(fleet.balancer.process.must_run()?),
        }
    }
}
