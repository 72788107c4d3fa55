//! A coordinator, as a process of a world.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::world::wait::wait_for_200;
use crate::world::{Host, Process, Spawn, World, WorldError, program};

/// How long a coordinator may take to answer.
const READY: Duration = Duration::from_secs(30);

/// How a coordinator is run.
#[derive(Debug, Clone)]
pub struct CoordinatorPlan {
    /// Its name in this world.
    pub name: String,
    /// `embedded:DIR` or `etcd:URL[,URL…]`.
    pub store: String,
    /// Where the embedded store listens for agents.
    pub store_listen: Option<SocketAddr>,
    /// Where it answers HTTP.
    pub http: SocketAddr,
    /// Where it answers operators.
    pub grpc: SocketAddr,
    /// Prefix of its keys.
    pub prefix: Option<String>,
    /// Its environment beside ours, such as the databases' URLs.
    pub env: Vec<(String, String)>,
    /// Arguments beyond these.
    pub args: Vec<String>,
    /// Where it runs.
    pub host: Host,
}

impl CoordinatorPlan {
    /// On free ports, with nothing beyond what it needs.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn new(name: &str, store: String) -> Result<Self, WorldError> {
        Self::on(Host::loopback(), name, store)
    }

    /// The same, on a host. On one that is reached over a network, it gets `--insecure`.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn on(host: Host, name: &str, store: String) -> Result<Self, WorldError> {
        let insecure = host.is_remote().then(|| "--insecure".to_owned());
        Ok(Self {
            name: name.to_owned(),
            store,
            store_listen: None,
            http: host.socket()?,
            grpc: host.socket()?,
            prefix: None,
            env: Vec::new(),
            args: insecure.into_iter().collect(),
            host,
        })
    }
}

/// A coordinator that runs.
#[derive(Debug)]
pub struct Coordinator {
    /// How it is run.
    pub plan: CoordinatorPlan,
    /// Its process.
    pub process: Process,
}

/// The file with the token that every coordinator of a world knows as its own: with it an operator may do everything.
/// Made when it is first asked for.
///
/// # Errors
/// When it cannot be written.
pub fn token_file(world: &World) -> Result<PathBuf, WorldError> {
    let path = world.path("operator.token");
    if !path.exists() {
        let text = format!("tgt_operator_{}\n", uuid::Uuid::new_v4().simple());
        std::fs::write(&path, text).map_err(|source| WorldError::Files {
            tried: "write",
            path: path.clone(),
            source,
        })?;
    }
    Ok(path)
}

impl Coordinator {
    /// Starts it and waits until `/healthz` answers 200.
    ///
    /// # Errors
    /// When it cannot be started or does not answer.
    pub async fn start(world: &World, plan: CoordinatorPlan) -> Result<Self, WorldError> {
        let mut coordinator = Self::spawn(world, plan)?;
        let what = format!("{} to answer", coordinator.plan.name);
        let healthy = wait_for_200(&what, READY, coordinator.plan.http, "/healthz").await;
        coordinator.process.must_run()?;
        healthy.map(|_| coordinator)
    }

    /// Starts it and does not wait for it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(world: &World, plan: CoordinatorPlan) -> Result<Self, WorldError> {
        let mut spawn = Spawn::new(&plan.name, &program::own("tidegate")?)
            .on(&plan.host)
            .args(["coordinator", "--store", &plan.store])
            .args(["--http", &plan.http.to_string(), "--grpc", &plan.grpc.to_string()])
            .args(["--token-file", &token_file(world)?.display().to_string()]);
        if let Some(listen) = plan.store_listen {
            spawn = spawn.args(["--store-listen", &listen.to_string()]);
        }
        if let Some(prefix) = &plan.prefix {
            spawn = spawn.args(["--prefix", prefix]);
        }
        spawn = spawn.args(&plan.args);
        spawn = plan.env.iter().fold(spawn, |spawn, (name, value)| spawn.env(name, value));
        Ok(Self { process: world.spawn(spawn)?, plan })
    }
}
