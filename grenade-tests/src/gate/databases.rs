//! Databases of a run: one private server, or files, and a fresh database for each part of the run.

use std::sync::Arc;

use anyhow::Context;

use crate::gate::file::{Command, Gate};
use crate::gate::launcher::{self, Data, Places};
use crate::gate::written::Engine;
use crate::world::mariadb::{self, MariaDb};
use crate::world::postgres::{self, Postgres};
use crate::world::{World, program};

/// Where databases are made.
#[derive(Debug, Clone)]
enum Source {
    /// The gate has none.
    None,
    Sqlite,
    Postgres(Arc<Postgres>),
    MariaDb(Arc<MariaDb>),
}

/// Databases of a run: a fresh one for each part of it.
#[derive(Debug, Clone)]
pub struct Databases {
    source: Source,
    /// What the names of databases of a server begin with.
    prefix: String,
}

/// The programs of the gate's engine that are not installed, each with its package.
pub fn missing(gate: &Gate) -> Vec<String> {
    let needed: &[&str] = match gate.database {
        None | Some((Engine::Sqlite, _)) => &[],
        Some((Engine::Postgres, _)) if program::postgresql("initdb").is_ok() => &[],
        Some((Engine::Postgres, _)) => &["initdb"],
        Some((Engine::MariaDb, _)) => &mariadb::PROGRAMS,
    };
    let found = |name: &&str| launcher::found(name, &gate.here).err();
    needed.iter().filter_map(found).map(|error| error.to_string()).collect()
}

impl Databases {
    /// Starts the server, where one is needed.
    ///
    /// # Errors
    /// When it is not installed or cannot be started.
    pub async fn start(world: &World, gate: &Gate) -> anyhow::Result<Self> {
        let source = match gate.database {
            None => Source::None,
            Some((Engine::Sqlite, _)) => Source::Sqlite,
            Some((Engine::Postgres, _)) => Source::Postgres(Arc::new(postgres::start(world).await?)),
            Some((Engine::MariaDb, _)) => Source::MariaDb(Arc::new(mariadb::start(world).await?)),
        };
        Ok(Self { source, prefix: String::new() })
    }

    /// The same server, with databases of other names.
    #[must_use]
    pub fn named(&self, prefix: &str) -> Self {
        Self { prefix: format!("{prefix}_"), ..self.clone() }
    }

    /// A fresh database, filled by the gate's `init`.
    ///
    /// # Errors
    /// When it cannot be made or filled.
    pub async fn fresh(&self, world: &World, gate: &Gate, name: &str) -> anyhow::Result<Data> {
        let in_server = format!("{}{name}", self.prefix);
        let data = match &self.source {
            Source::None => Data::default(),
            Source::Sqlite => {
                let file = world.path(&format!("{name}.db"));
                Data { url: format!("sqlite:{}", file.display()), file, ..Data::default() }
            }
            Source::Postgres(server) => {
                Data { url: server.create_database(&in_server).await?, ..Data::default() }
            }
            Source::MariaDb(server) => {
                Data { url: server.create_database(world, &in_server).await?, ..Data::default() }
            }
        };
        if let Some((_, init)) = &gate.database {
            run_all(world, gate, &format!("{name}-init"), init, &data).await?;
        }
        Ok(data)
    }
}

/// Runs commands one after the other.
///
/// # Errors
/// The first that cannot be started, or does not exit with 0.
pub(super) async fn run_all(
    world: &World,
    gate: &Gate,
    name: &str,
    commands: &[Command],
    data: &Data,
) -> anyhow::Result<()> {
    let places = Places::of(world, gate, data)?;
    for (n, command) in commands.iter().enumerate() {
        let done = launcher::run(world, gate, &format!("{name}-{n}"), command, &places).await;
        done.with_context(|| gate.origin.at(command.field()))?;
    }
    Ok(())
}
