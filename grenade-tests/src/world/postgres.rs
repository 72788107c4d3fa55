//! A private PostgreSQL with one empty database. Runs as an unprivileged user when we are root.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

use crate::world::server_home::{Server, ServerHome};
use crate::world::wait::wait_for;
use crate::world::{Host, Process, Spawn, World, WorldError, database_name, descendants, program};

/// How long initdb may take on a busy machine.
const INIT: Duration = Duration::from_secs(60);
/// How long the server may take to answer.
const READY: Duration = Duration::from_secs(30);
/// How long a fast shutdown may take.
const STOP: Duration = Duration::from_secs(20);
/// The one role; it may do everything.
pub const USER: &str = "gate";
/// The database that a server is started with.
pub const DATABASE: &str = "service";
/// The password of the one role; the server listens on the loopback address only.
const PASSWORD: &str = "tide-and-gate";

/// Which addresses may connect beside the loopback ones, where a server runs on a host of its own.
const NETWORK: &str = "10.0.0.0/8";

/// How a server is run.
#[derive(Debug, Clone)]
pub struct ServerPlan {
    /// Its name in this world.
    pub name: String,
    /// Where it runs.
    pub host: Host,
    /// Its port; none = a free one.
    pub port: Option<u16>,
    /// Whether it also listens on a socket in its own directory, which only its user and root reach: there without a password.
    pub socket: bool,
    /// Whether it ends with the thread that starts it ([`Spawn::ends_with_starter`]).
    pub ends_with_starter: bool,
    /// Settings beside those that every server of a world has, as `name=value`.
    pub settings: Vec<String>,
    /// Its environment beside ours.
    pub env: Vec<(String, String)>,
}

impl Default for ServerPlan {
    fn default() -> Self {
        let name = "postgres".to_owned();
        let (settings, env) = (Vec::new(), Vec::new());
        let (socket, ends_with_starter) = (false, false);
        Self { name, host: Host::loopback(), port: None, socket, ends_with_starter, settings, env }
    }
}

/// The URL of a database of a server of a world that is reached at this address.
pub fn url_at(address: SocketAddr, database: &str) -> String {
    format!("postgres://{USER}:{PASSWORD}@{address}/{database}")
}

/// A PostgreSQL server.
#[derive(Debug)]
pub struct Postgres {
    process: Option<Process>,
    address: SocketAddr,
    spawn: Spawn,
    home: ServerHome,
}

impl Postgres {
    /// The database that the server is started with.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// Any database by name.
    pub fn url_of(&self, database: &str) -> String {
        url_at(self.address, database)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its directory: that of its data and of its socket.
    pub fn directory(&self) -> &Path {
        self.home.directory()
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
        database_name(name)?;
        let mut connection = PgConnection::connect(&self.url_of("postgres")).await.map_err(failed)?;
        let statement = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        connection.execute(sqlx::raw_sql(statement)).await.map_err(failed)?;
        connection.close().await.map_err(failed)?;
        Ok(self.url_of(name))
    }

    /// The server and its backends, by pid.
    pub fn pids(&self) -> Vec<i32> {
        let Some(server) = self.process.as_ref().and_then(|process| i32::try_from(process.pid()).ok()) else {
            return Vec::new();
        };
        [vec![server], descendants::below(server)].concat()
    }

    /// Sends a signal to the server and to each of its backends.
    pub fn signal_all(&self, signal: Signal) {
        for pid in self.pids().into_iter().filter_map(Pid::from_raw) {
            // A backend may have ended by itself meanwhile.
            let _ = kill_process(pid, signal);
        }
    }

    /// kill -9 of the server and all of its backends, as a power cut would end them.
    pub fn crash(&mut self) {
        self.signal_all(Signal::KILL);
        if let Some(mut process) = self.process.take() {
            // It is dead for certain; a backend that was forked meanwhile ends by itself without it.
            let _ = process.crash();
        }
    }

    /// Makes a standby the server that takes writes, and waits until it does.
    ///
    /// # Errors
    /// When the server does not answer or is no standby.
    pub async fn promote(&self) -> Result<(), WorldError> {
        let failed = |source| WorldError::Database { tried: "promote", source };
        let mut connection = PgConnection::connect(&self.url_of("postgres")).await.map_err(failed)?;
        connection.execute("SELECT pg_promote(true, 30)").await.map_err(failed)?;
        connection.close().await.map_err(failed)
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

/// Makes a cluster, starts the server and makes the database [`DATABASE`].
///
/// # Errors
/// When PostgreSQL is not installed, cannot be started or does not answer.
pub async fn start(world: &World) -> Result<Postgres, WorldError> {
    start_on(world, &ServerPlan::default()).await
}

/// The same, by a plan.
///
/// # Errors
/// As [`start`].
pub async fn start_on(world: &World, plan: &ServerPlan) -> Result<Postgres, WorldError> {
    let home = home()?;
    let data = home.path("data");
    let secret = home.path("password");
    let init = Spawn::new("initdb", &program::postgresql("initdb")?)
        .arg("-D")
        .arg(&data)
        .args([
            "-U",
            USER,
            "--auth-host=scram-sha-256",
            "--auth-local=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ])
        .arg(format!("--pwfile={}", secret.display()));
    world.run(home.owned(init), INIT).await?;
    if plan.host.is_remote() {
        let rules = data.join("pg_hba.conf");
        let more =
            format!("\nhost all all {NETWORK} scram-sha-256\nhost replication all {NETWORK} scram-sha-256\n");
        let old = std::fs::read_to_string(&rules);
        old.and_then(|old| std::fs::write(&rules, old + &more)).map_err(|source| WorldError::Files {
            tried: "write",
            path: rules,
            source,
        })?;
    }
    let mut postgres = serve(world, plan, home)?;
    postgres.answering().await?;
    postgres.create_database(DATABASE).await?;
    Ok(postgres)
}

/// Copies `of` and starts a server that follows it.
///
/// # Errors
/// When the copy cannot be made, or the server cannot be started or does not answer.
pub async fn start_standby(world: &World, plan: &ServerPlan, of: SocketAddr) -> Result<Postgres, WorldError> {
    let home = home()?;
    let copy = Spawn::new(&format!("{}-copy", plan.name), &program::postgresql("pg_basebackup")?)
        .on(&plan.host)
        .args(["-h", &of.ip().to_string(), "-p", &of.port().to_string(), "-U", USER])
        .args(["--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync", "-D"])
        .arg(home.path("data"))
        .env("PGPASSWORD", PASSWORD);
    world.run(home.owned(copy), INIT).await?;
    let mut postgres = serve(world, plan, home)?;
    postgres.answering().await?;
    Ok(postgres)
}

/// A directory of the server's own, with the password in a file.
fn home() -> Result<ServerHome, WorldError> {
    let home = ServerHome::make(Server { name: "PostgreSQL", user: "postgres" })?;
    home.write("password", PASSWORD)?;
    Ok(home)
}

/// Starts the server on the data in `home`.
fn serve(world: &World, plan: &ServerPlan, home: ServerHome) -> Result<Postgres, WorldError> {
    let address = match plan.port {
        Some(port) => SocketAddr::new(plan.host.ip, port),
        None => plan.host.socket()?,
    };
    let data = home.path("data");
    // On a host of its own it is reached under more than one address.
    let listen = if plan.host.is_remote() { "*".to_owned() } else { address.ip().to_string() };
    let sockets = if plan.socket { home.directory().display().to_string() } else { String::new() };
    let spawn = Spawn::new(&plan.name, &program::postgresql("postgres")?)
        .on(&plan.host)
        .arg("-D")
        .arg(&data)
        .args(["-h", &listen, "-p", &address.port().to_string()])
        .args(["-c", &format!("unix_socket_directories={sockets}"), "-c", "max_connections=200"])
        .args(["-c", "max_prepared_transactions=10"]);
    let spawn = plan.settings.iter().fold(spawn, |spawn, setting| spawn.args(["-c", setting]));
    let spawn = plan.env.iter().fold(spawn, |spawn, (name, value)| spawn.env(name, value));
    let spawn = if plan.ends_with_starter { spawn.ends_with_starter() } else { spawn };
    let spawn = home.owned(spawn);
    let process = Some(world.spawn(spawn.clone())?);
    Ok(Postgres { process, address, spawn, home })
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
