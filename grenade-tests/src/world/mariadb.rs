//! A private MariaDB server. Runs as an unprivileged user when we are root.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use crate::world::server_home::{Server, ServerHome};
use crate::world::wait::wait_for;
use crate::world::{Process, Spawn, World, WorldError, database_name, port, program};

/// The programs that are run.
pub const PROGRAMS: [&str; 3] = ["mariadb-install-db", "mariadbd", "mariadb"];
/// How long mariadb-install-db may take on a busy machine.
const INIT: Duration = Duration::from_secs(60);
/// How long the server may take to answer.
const READY: Duration = Duration::from_secs(30);
/// How long a statement of ours may take.
const STATEMENT: Duration = Duration::from_secs(30);
/// The one user that has a password.
const USER: &str = "gate";
/// Its password; the server listens on the loopback address only.
const PASSWORD: &str = "tide-and-gate";
/// The version of the client protocol, with which a server greets.
const PROTOCOL: u8 = 10;

/// A MariaDB server, ended when dropped.
#[derive(Debug)]
pub struct MariaDb {
    // The process first: it ends before its files are removed.
    process: Process,
    address: SocketAddr,
    home: ServerHome,
}

impl MariaDb {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The directory with its data.
    pub fn home(&self) -> &Path {
        self.home.directory()
    }

    /// Any database by name.
    pub fn url_of(&self, database: &str) -> String {
        format!("mysql://{USER}:{PASSWORD}@{}/{database}", self.address)
    }

    /// Makes an empty database.
    ///
    /// # Errors
    /// When the name is not made of small letters, digits and `_`, or the server refuses.
    pub async fn create_database(&self, world: &World, name: &str) -> Result<String, WorldError> {
        database_name(name)?;
        let client = Spawn::new("mariadb-client", &program::outside("mariadb")?)
            .args(["--no-defaults", "--protocol=TCP", "--skip-ssl", "--user", USER])
            .args(["--host", &self.address.ip().to_string(), "--port", &self.address.port().to_string()])
            .args(["--execute", &format!("CREATE DATABASE {name}")])
            .env("MYSQL_PWD", PASSWORD);
        world.run(client, STATEMENT).await?;
        Ok(self.url_of(name))
    }

    async fn answering(&mut self) -> Result<(), WorldError> {
        let socket = self.home.path("socket");
        let process = Mutex::new(&mut self.process);
        let has_ended = || process.lock().unwrap_or_else(PoisonError::into_inner).ended().is_some();
        let answered = wait_for("MariaDB to answer", READY, || async {
            if has_ended() { Ok(()) } else { greeting(&socket).await }
        })
        .await;
        self.process.must_run()?;
        answered.map_err(|late| match late {
            WorldError::Late { what, limit, seen } => {
                let seen = format!("{seen}; the last lines of its log:\n{}", self.process.tail());
                WorldError::Late { what, limit, seen }
            }
            other => other,
        })
    }
}

/// The socket is the server's own: on a port that was taken meanwhile another server may answer.
async fn greeting(socket: &Path) -> Result<(), String> {
    let mut stream = UnixStream::connect(socket).await.map_err(|error| error.to_string())?;
    // Three bytes of length, one of sequence, and the version of the protocol.
    let mut packet = [0; 5];
    stream.read_exact(&mut packet).await.map_err(|error| error.to_string())?;
    match packet[4] {
        PROTOCOL => Ok(()),
        other => Err(format!("its greeting begins with {other}, {PROTOCOL} is known")),
    }
}

/// Makes a data directory and starts the server on a free loopback port.
///
/// # Errors
/// When MariaDB is not installed, cannot be started or does not answer.
pub async fn start(world: &World) -> Result<MariaDb, WorldError> {
    start_at(world, port::free()?).await
}

/// The same, at this address.
///
/// # Errors
/// As [`start`], and when the port is taken.
pub async fn start_at(world: &World, address: SocketAddr) -> Result<MariaDb, WorldError> {
    let [install, server, _] = PROGRAMS.map(program::outside);
    let home = ServerHome::make(Server { name: "MariaDB", user: "mysql" })?;
    let data = format!("--datadir={}", home.path("data").display());
    // A server that starts removes all temporary tables in its directory for them, also those of a server that runs:
    // with `/tmp` in common, each would break the others.
    let init = Spawn::new("mariadb-install-db", &install?)
        .args(["--no-defaults", &data, "--skip-test-db", "--auth-root-authentication-method=socket"])
        .env("TMPDIR", home.directory());
    world.run(home.owned(init), INIT).await?;
    let users = format!(
        "CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\nGRANT ALL PRIVILEGES ON *.* TO '{USER}'@'%';\n"
    );
    let users = home.write("users.sql", &users)?;
    let spawn = Spawn::new("mariadb", &server?)
        .args(["--no-defaults", &data])
        .arg(format!("--socket={}", home.path("socket").display()))
        .arg(format!("--pid-file={}", home.path("pid").display()))
        .arg(format!("--init-file={}", users.display()))
        .arg(format!("--bind-address={}", address.ip()))
        .arg(format!("--port={}", address.port()))
        .args(["--skip-name-resolve", "--character-set-server=utf8mb4", "--max-connections=200"])
        .env("TMPDIR", home.directory());
    let process = world.spawn(home.owned(spawn))?;
    let mut mariadb = MariaDb { process, address, home };
    mariadb.answering().await?;
    Ok(mariadb)
}
