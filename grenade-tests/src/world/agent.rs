//! An agent, as a process of a world. What it runs outlives it, and is ended by the world.

use std::path::PathBuf;

use crate::world::{Host, Process, Spawn, World, WorldError, program};

/// An agent that runs.
#[derive(Debug)]
pub struct Agent {
    /// Its node.
    pub node: String,
    /// Its configuration file.
    pub config: PathBuf,
    /// Its environment beside ours.
    pub env: Vec<(String, String)>,
    /// Where it runs.
    pub host: Host,
    /// Its process.
    pub process: Process,
}

impl Agent {
    /// Writes `config` (TOML) for `node` and starts `tidegate-agent run` with it.
    ///
    /// # Errors
    /// When the file cannot be written or the agent cannot be started.
    pub fn start(world: &World, node: &str, config: &str) -> Result<Self, WorldError> {
        Self::start_with(world, node, config, Vec::new())
    }

    /// The same, with variables of its own.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub fn start_with(
        world: &World,
        node: &str,
        config: &str,
        env: Vec<(String, String)>,
    ) -> Result<Self, WorldError> {
        Self::start_on(world, Host::loopback(), node, config, env)
    }

    /// The same, on a host; what it starts runs there too.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub fn start_on(
        world: &World,
        host: Host,
        node: &str,
        config: &str,
        env: Vec<(String, String)>,
    ) -> Result<Self, WorldError> {
        let path = world.path(&format!("agent-{node}.toml"));
        std::fs::write(&path, config).map_err(|source| WorldError::Files {
            tried: "write",
            path: path.clone(),
            source,
        })?;
        let process = Self::spawn(world, &host, node, &path, &env)?;
        Ok(Self { node: node.to_owned(), config: path, env, host, process })
    }

    /// Starts it again on its own configuration, after it was stopped or killed.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn restart(&mut self, world: &World) -> Result<(), WorldError> {
        self.process = Self::spawn(world, &self.host, &self.node, &self.config, &self.env)?;
        Ok(())
    }

    fn spawn(
        world: &World,
        host: &Host,
        node: &str,
        config: &PathBuf,
        env: &[(String, String)],
    ) -> Result<Process, WorldError> {
        let program = program::own("tidegate-agent")?;
        let spawn =
            Spawn::new(&format!("agent-{node}"), &program).on(host).args(["run", "--config"]).arg(config);
        world.spawn(env.iter().fold(spawn, |spawn, (name, value)| spawn.env(name, value)))
    }
}
