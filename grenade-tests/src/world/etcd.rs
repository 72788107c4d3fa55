//! A private etcd of one or three members.

use std::net::SocketAddr;
use std::time::Duration;

use crate::world::wait::wait_for_200;
use crate::world::{Host, Process, Spawn, World, WorldError, program};

/// How long members may take to elect a leader on a busy machine.
const READY: Duration = Duration::from_secs(30);

/// The members of an etcd.
#[derive(Debug)]
pub struct Etcd {
    /// Each member with the address for its clients.
    pub members: Vec<(Process, SocketAddr)>,
    /// By which name, and at which URL, the members know each.
    pub peers: Vec<(String, String)>,
    spawns: Vec<Spawn>,
}

impl Etcd {
    /// The URLs for clients.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|(_, address)| format!("http://{address}")).collect()
    }

    /// What `--store` of the coordinator takes.
    pub fn store_argument(&self) -> String {
        format!("etcd:{}", self.endpoints().join(","))
    }

    /// Starts member `n` again and does not wait for it: without the others it is not healthy.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn_again(&mut self, world: &World, n: usize) -> Result<(), WorldError> {
        self.members[n].0 = world.spawn(self.spawns[n].clone())?;
        Ok(())
    }

    /// Starts member `n` again on its own data and address, after it was stopped or killed.
    ///
    /// # Errors
    /// When it cannot be started or does not become healthy.
    pub async fn restart(&mut self, world: &World, n: usize) -> Result<(), WorldError> {
        self.spawn_again(world, n)?;
        let address = self.members[n].1;
        wait_for_200("etcd to be healthy again", READY, address, "/health").await.map(|_| ())
    }
}

/// Starts `members` of them (1 or 3) with fsync, and waits until each is healthy.
///
/// # Errors
/// When etcd is not installed, cannot be started or does not become healthy.
pub async fn start(world: &World, members: usize) -> Result<Etcd, WorldError> {
    start_with(world, members, &[]).await
}

/// The same, with arguments beyond these.
///
/// # Errors
/// As [`start`].
pub async fn start_with(world: &World, members: usize, more: &[&str]) -> Result<Etcd, WorldError> {
    start_on(world, &vec![Host::loopback(); members], more).await
}

/// The same, with one member on each host.
///
/// # Errors
/// As [`start`].
pub async fn start_on(world: &World, hosts: &[Host], more: &[&str]) -> Result<Etcd, WorldError> {
    let program = program::outside("etcd")?;
    let mut plans = Vec::new();
    for (n, host) in hosts.iter().enumerate() {
        plans.push((format!("etcd-{n}"), host.socket()?, host.socket()?, host));
    }
    let cluster: Vec<String> =
        plans.iter().map(|(name, _, peer, _)| format!("{name}=http://{peer}")).collect();
    let (mut started, mut peers, mut spawns) = (Vec::new(), Vec::new(), Vec::new());
    for (name, client, peer, host) in &plans {
        let (client_url, peer_url) = (format!("http://{client}"), format!("http://{peer}"));
        let spawn = Spawn::new(name, &program)
            .on(host)
            .args(["--name", name, "--data-dir"])
            .arg(world.path(name))
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"])
            .args(["--logger", "zap", "--log-level", "warn"])
            .args(more);
        started.push((world.spawn(spawn.clone())?, *client));
        spawns.push(spawn);
        peers.push((name.clone(), peer_url));
    }
    let mut etcd = Etcd { members: started, peers, spawns };
    for (process, client) in &mut etcd.members {
        let healthy = wait_for_200("etcd to be healthy", READY, *client, "/health").await;
        process.must_run()?;
        healthy?;
    }
    Ok(etcd)
}
