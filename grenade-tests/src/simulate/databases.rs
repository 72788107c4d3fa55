//! Where the schemas of a run lie: in a SQLite file each, or in databases of one PostgreSQL server that is there for the
//! whole run.

use super::database::server::{PREFIX, SERVER};
use super::server::{Playing, Server};
use super::world::{schema_name, variable};
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
    /// Dropped after the directory is.
    server: Option<(&'a Server, Playing)>,
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

    /// Those of a schedule that runs in this directory.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn lend(&self, directory: TempDir) -> std::io::Result<Lent<'_>> {
        let server = match self {
            Self::Sqlite => {
                let url = |schema| (variable(schema), format!("sqlite://{}.sqlite", schema_name(schema)));
                return Ok(Lent { environment: (0..SCHEMAS).map(url).collect(), directory, server: None });
            }
            Self::Postgres(server) => server,
        };
        let playing = server.next_schedule();
        let prefix = playing.prefix();
        let mut environment =
            vec![(SERVER.to_owned(), server.url_of_itself()), (PREFIX.to_owned(), prefix.to_owned())];
        for schema in 0..SCHEMAS {
            let name = schema_name(schema);
            let url = server.link(&directory.path().join(&name), &format!("{prefix}{name}"))?;
            environment.push((variable(schema), url));
        }
        Ok(Lent { environment, directory, server: Some((server, playing)) })
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some((server, playing)) = &self.server {
            server.drop_databases(playing.prefix());
        }
    }
}
