//! A private PostgreSQL with one empty database. Runs as an unprivileged user when we are root.

use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use tempfile::TempDir;

use crate::world::wait::wait_for;
use crate::world::{Process, Spawn, World, WorldError, port, program};

/// How long initdb may take on a busy machine.
const INIT: Duration = Duration::from_secs(60);
/// How long the server may take to answer.
const READY: Duration = Duration::from_secs(30);
/// How long a fast shutdown may take.
const STOP: Duration = Duration::from_secs(20);
/// The password of the one role; the server listens on the loopback address only.
const PASSWORD: &str = "tide-and-gate";

/// A PostgreSQL server.
#[derive(Debug)]
pub struct Postgres {
    process: Option<Process>,
    address: SocketAddr,
    spawn: Spawn,
    // Outside of the world's directory: it must be reachable for another user.
    _home: TempDir,
}

impl Postgres {
    /// The database for the catalogue.
    pub fn url(&self) -> String {
        self.url_of("pantry")
    }

    /// Any database by name.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://pantry:{PASSWORD}@{}/{database}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process; `None` while it is stopped.
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// Makes another empty database.
    ///
    /// # Errors
    /// When the name is not made of small letters, digits and `_`, or the server refuses.
    pub async fn create_database(&self, name: &str) -> Result<String, WorldError> {
        let failed = |source| WorldError::Database { tried: "create", source };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        {
            return Err(failed(sqlx::Error::Protocol(format!("`{name}` is no database name"))));
        }
        let mut connection = PgConnection::connect(&self.url_of("postgres")).await.map_err(failed)?;
        let statement = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        connection.execute(sqlx::raw_sql(statement)).await.map_err(failed)?;
        connection.close().await.map_err(failed)?;
        Ok(self.url_of(name))
    }

    /// Stops it in good order (fast shutdown), as an operator would.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop(&mut self) -> Result<(), WorldError> {
        match self.process.take() {
            Some(process) => process.stop(Signal::INT, STOP).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Starts it again on its own data and address.
    ///
    /// # Errors
    /// When it cannot be started or does not answer.
    pub async fn restart(&mut self, world: &World) -> Result<(), WorldError> {
        self.stop().await?;
        self.process = Some(world.spawn(self.spawn.clone())?);
        self.answering().await
    }

    async fn answering(&mut self) -> Result<(), WorldError> {
        let url = self.url_of("postgres");
        let answered = wait_for("PostgreSQL to answer", READY, || async {
            let connection = PgConnection::connect(&url).await.map_err(|e| e.to_string())?;
            connection.close().await.map_err(|e| e.to_string())
        })
        .await;
        if let Some(process) = &mut self.process {
            process.must_run()?;
        }
        answered
    }
}

/// Makes a cluster, starts the server and makes the database `pantry`.
///
/// # Errors
/// When PostgreSQL is not installed, cannot be started or does not answer.
pub async fn start(world: &World) -> Result<Postgres, WorldError> {
    let user = unprivileged()?;
    let home = tempfile::Builder::new()
        .prefix("tidegate-postgres-")
        .tempdir()
        .map_err(|source| WorldError::Files { tried: "make", path: std::env::temp_dir(), source })?;
    let (data, secret) = (home.path().join("data"), home.path().join("password"));
    write_owned(&secret, PASSWORD, home.path(), user)?;
    let as_user = |spawn: Spawn| match user {
        Some((user, group)) => spawn.user(user, group).dir(home.path()),
        None => spawn,
    };
    let init = Spawn::new("initdb", &program::postgresql("initdb")?)
        .arg("-D")
        .arg(&data)
        .args(["-U", "pantry", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"])
        .arg(format!("--pwfile={}", secret.display()));
    let mut init = world.spawn(as_user(init))?;
    let status = init.wait(INIT).await?;
    if !status.success() {
        let (name, tail) = (init.name().to_owned(), init.tail());
        return Err(WorldError::Ended { name, status: status.to_string(), tail });
    }
    let address = port::free()?;
    let spawn = Spawn::new("postgres", &program::postgresql("postgres")?)
        .arg("-D")
        .arg(&data)
        .args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()])
        .args(["-c", "unix_socket_directories=", "-c", "max_connections=200"])
        .args(["-c", "max_prepared_transactions=10"]);
    let spawn = as_user(spawn);
    let process = Some(world.spawn(spawn.clone())?);
    let mut postgres = Postgres { process, address, spawn, _home: home };
    postgres.answering().await?;
    postgres.create_database("pantry").await?;
    Ok(postgres)
}

/// Whom to run as: nobody else if we are not root; else `postgres`, else `nobody`.
fn unprivileged() -> Result<Option<(u32, u32)>, WorldError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let path = Path::new("/etc/passwd");
    let accounts = std::fs::read_to_string(path).map_err(|source| WorldError::Files {
        tried: "read",
        path: path.to_owned(),
        source,
    })?;
    let find = |wanted: &str| {
        accounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            match fields.as_slice() {
                [name, _, user, group, ..] if *name == wanted => {
                    Some((user.parse::<u32>().ok()?, group.parse::<u32>().ok()?))
                }
                _ => None,
            }
        })
    };
    find("postgres").or_else(|| find("nobody")).map(Some).ok_or(WorldError::NoUser)
}

fn write_owned(path: &Path, text: &str, home: &Path, user: Option<(u32, u32)>) -> Result<(), WorldError> {
    let failed = |source| WorldError::Files { tried: "write", path: path.to_owned(), source };
    std::fs::write(path, text).map_err(failed)?;
    if let Some((user, group)) = user {
        for owned in [path, home] {
            chown(owned, Some(user), Some(group)).map_err(failed)?;
        }
    }
    Ok(())
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            // A fast shutdown gives shared memory back; the process' own drop kills what is left a moment later.
            let _ = process.signal(Signal::INT);
            if let Some(process) = &mut self.process {
                let end = std::time::Instant::now() + Duration::from_secs(3);
                while process.ended().is_none() && std::time::Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }
}
