//! Where the schemas of a run lie: in a SQLite file each, or in databases of one PostgreSQL server that is there for the
//! whole run.

use super::database::server::{PREFIX, SERVER};
use super::server::Server;
use super::world::{schema_name, variable};
use anyhow::Context;
use std::path::Path;
use tempfile::TempDir;

/// No scenario has more schemas.
pub(super) const SCHEMAS: usize = 4;

/// What a run has.
pub(super) enum Databases {
    /// Files.
    Sqlite,
    /// A server.
    Postgres(Box<Server>),
}

/// The databases of one schedule, and its directory. They are gone once this is dropped.
pub(super) struct Lent<'a> {
    /// What the process of the schedule finds in its environment.
    pub environment: Vec<(String, String)>,
    /// Where it runs.
    pub directory: TempDir,
    /// The server, and what the names of its databases begin with.
    server: Option<(&'a Server, String)>,
}

impl Databases {
    /// Those of a run with so many processes at a time.
    ///
    /// # Errors
    /// Where the server cannot be started.
    pub(super) fn of(postgres: bool, jobs: usize) -> anyhow::Result<Self> {
        Ok(match postgres {
            true => Self::Postgres(Box::new(Server::start(jobs)?)),
            false => Self::Sqlite,
        })
    }

    /// Those of a schedule, and a directory that it runs in.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn lend(&self) -> anyhow::Result<Lent<'_>> {
        let directory = room().context("could not make a temporary directory in /dev/shm or TMPDIR")?;
        let server = match self {
            Self::Sqlite => {
                let url = |schema| (variable(schema), format!("sqlite://{}.sqlite", schema_name(schema)));
                return Ok(Lent { environment: (0..SCHEMAS).map(url).collect(), directory, server: None });
            }
            Self::Postgres(server) => server,
        };
        let prefix = server.next_schedule();
        let mut environment =
            vec![(SERVER.to_owned(), server.url_of_itself()), (PREFIX.to_owned(), prefix.clone())];
        for schema in 0..SCHEMAS {
            let name = schema_name(schema);
            let url = server.link(&directory.path().join(&name), &format!("{prefix}{name}"))?;
            environment.push((variable(schema), url));
        }
        Ok(Lent { environment, directory, server: Some((server, prefix)) })
    }
}

/// A directory in memory where there is one.
fn room() -> std::io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()),
        false => tempfile::tempdir(),
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some((server, prefix)) = &self.server {
            server.drop_databases(prefix);
        }
    }
}
