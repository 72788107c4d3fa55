//! The built-in balancer, as a process of a world.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::balancer::server::ServerAddress;
use crate::world::show_stat::ShowStat;
use crate::world::wait::wait_for;
use crate::world::{Process, Spawn, World, WorldError, port, program};

/// How long a balancer may take to answer.
const READY: Duration = Duration::from_secs(15);

/// How a balancer of a world checks: every 200 ms, two failures take out, two passes bring back.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Failed checks in a row that take a server out.
pub const FALL: u32 = 2;
/// Passed checks in a row that bring it back.
pub const RISE: u32 = 2;

/// A balancer's servers, and their health check.
#[derive(Debug, Clone)]
pub struct Behind {
    /// The servers.
    pub servers: Vec<ServerAddress>,
    /// The path that is asked for their health.
    pub health_path: String,
}

impl<T: AsRef<[(String, SocketAddr)]> + ?Sized> From<&T> for Behind {
    fn from(servers: &T) -> Self {
        let server = |(name, address): &(String, SocketAddr)| ServerAddress {
            name: name.clone(),
            address: *address,
            check: *address,
        };
        let servers = servers.as_ref().iter().map(server).collect();
        Self { servers, health_path: "/healthcheck".to_owned() }
    }
}

/// A balancer that runs: the built-in one or HAProxy; its users need not know which.
#[derive(Debug)]
pub struct RunningBalancer {
    /// Its process.
    pub process: Process,
    /// Where clients connect.
    pub address: SocketAddr,
    /// Where it reports its servers' state.
    pub stats_socket: PathBuf,
}

impl RunningBalancer {
    /// What it says of its servers.
    ///
    /// # Errors
    /// When it does not answer, in words.
    pub async fn show_stat(&self) -> Result<ShowStat, String> {
        ShowStat::ask(&self.stats_socket).await
    }

    /// Waits until a server is `UP` or `DOWN`, in full words.
    ///
    /// # Errors
    /// [`WorldError::Late`], with the last status.
    pub async fn wait_for_status(
        &self,
        server: &str,
        status: &str,
        limit: Duration,
    ) -> Result<(), WorldError> {
        wait_for(&format!("{server} {status} in the balancer"), limit, || async {
            let stat = self.show_stat().await?;
            match stat.of(server, "status") {
                Some(said) if said == status => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }

    /// Waits until a server is down and no session is left on it.
    ///
    /// # Errors
    /// [`WorldError::Late`], with the last status and sessions.
    pub async fn wait_until_drained(&self, server: &str, limit: Duration) -> Result<(), WorldError> {
        wait_for(&format!("the balancer to send {server} no more requests"), limit, || async {
            let stat = self.show_stat().await?;
            if stat.is_drained(server) {
                return Ok(());
            }
            Err(format!("{:?}, {:?} sessions", stat.of(server, "status"), stat.of(server, "scur")))
        })
        .await
    }
}

/// Starts the built-in balancer before `servers` (name and address), and waits until it answers.
///
/// # Errors
/// When it cannot be started or does not answer.
pub async fn start(world: &World, behind: impl Into<Behind>) -> Result<RunningBalancer, WorldError> {
    let Behind { servers, health_path } = behind.into();
    let (address, stats_socket) = (port::free()?, world.path("balancer.sock"));
    let spawn = Spawn::new("balancer", &program::own("tidegate-balancer")?)
        .args(["--listen", &address.to_string(), "--stats-socket"])
        .arg(&stats_socket)
        .args(["--check-interval-ms", &CHECK_INTERVAL.as_millis().to_string()])
        .args(["--fall", &FALL.to_string(), "--rise", &RISE.to_string(), "--health-path", &health_path]);
    let spawn = servers.iter().fold(spawn, |spawn, ServerAddress { name, address, check }| {
        spawn.args(["--server", &format!("{name}={address},check={check}")])
    });
    let process = world.spawn(spawn)?;
    answering(RunningBalancer { process, address, stats_socket }).await
}

/// Waits until a balancer answers on its socket.
pub(super) async fn answering(mut balancer: RunningBalancer) -> Result<RunningBalancer, WorldError> {
    let socket: &Path = &balancer.stats_socket;
    let answered =
        wait_for("the balancer's stats socket", READY, || async { ShowStat::ask(socket).await.map(|_| ()) })
            .await;
    balancer.process.must_run()?;
    answered.map(|()| balancer)
}
