//! A private HAProxy, set as the built-in balancer is: no retries, no redispatch.

use std::fmt::Write;

use crate::balancer::proxy::SERVED_BY;
use crate::balancer::server::ServerAddress;
use crate::balancer::stat::PROXY;
use crate::world::balancer::{Behind, CHECK_INTERVAL, FALL, RISE, RunningBalancer, answering};
use crate::world::{Host, Process, Spawn, World, WorldError, program};

/// Its configuration, in the world's directory.
const CONFIG: &str = "haproxy.cfg";

/// Starts HAProxy before `servers` (name and address), and waits until it answers.
///
/// # Errors
/// When it is not installed, cannot be started or does not answer.
pub async fn start(world: &World, behind: impl Into<Behind>) -> Result<RunningBalancer, WorldError> {
    start_on(world, &Host::loopback(), behind).await
}

/// The same, on a host.
///
/// # Errors
/// As [`start`].
pub async fn start_on(
    world: &World,
    host: &Host,
    behind: impl Into<Behind>,
) -> Result<RunningBalancer, WorldError> {
    let Behind { servers, health_path } = behind.into();
    let (address, stats_socket) = (host.socket()?, world.path("haproxy.sock"));
    let config = world.path(CONFIG);
    let mut text = format!(
        "global\n    stats socket {socket} mode 600 level operator\n    stats timeout 30s\n\
         defaults\n    mode http\n    timeout connect 5s\n    timeout client 60s\n    timeout server 60s\n    \
         retries 0\n    no option redispatch\n\
         listen {PROXY}\n    bind {address}\n    balance roundrobin\n    option httpchk GET {health_path}\n    \
         http-response set-header {SERVED_BY} %s\n    \
         default-server inter {inter}ms fall {FALL} rise {RISE}\n",
        socket = stats_socket.display(),
        inter = CHECK_INTERVAL.as_millis(),
    );
    for ServerAddress { name, address, check } in &servers {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    server {name} {address} check addr {} port {}", check.ip(), check.port());
    }
    std::fs::write(&config, text).map_err(|source| WorldError::Files {
        tried: "write",
        path: config.clone(),
        source,
    })?;
    answering(RunningBalancer { process: spawn(world, host)?, address, stats_socket }).await
}

/// Starts it again with its own configuration, after it was stopped or killed, and does not wait for it.
///
/// # Errors
/// When it cannot be started.
pub fn spawn(world: &World, host: &Host) -> Result<Process, WorldError> {
    let spawn = Spawn::new("haproxy", &program::outside("haproxy")?).on(host).args(["-db", "-f"]);
    world.spawn(spawn.arg(world.path(CONFIG)))
}
