//! A world in a temporary directory, and short words for what tests do with it.

use std::net::SocketAddr;
use std::time::Duration;

use grenade_tests::fixture::load::SampleLoad;
use grenade_tests::fixture::pantry::{Pantry, PantryPlan, seed};
use grenade_tests::load::wire::{self, Answer};
use grenade_tests::world::balancer::RunningBalancer;
use grenade_tests::world::{World, port};
use http::Method;
use serde_json::Value;
use tempfile::TempDir;

/// How long a test waits for anything on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Rig {
    // The world first: it ends its processes before its directory goes.
    pub world: World,
    _dir: TempDir,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { world: World::beside(dir.path()).unwrap(), _dir: dir }
    }

    /// A seeded SQLite catalogue.
    pub(crate) async fn sqlite(&self, rows: u32) -> String {
        let database = format!("sqlite:{}", self.world.path("pantry.db").display());
        seed(&self.world, &database, rows).await.unwrap();
        database
    }

    pub(crate) fn plan(&self, version: u32, node: &str, database: &str) -> PantryPlan {
        PantryPlan {
            version,
            node: node.to_owned(),
            address: port::free().unwrap(),
            database: database.to_owned(),
            disable_file: self.world.path(&format!("{node}.disable")),
        }
    }

    pub(crate) async fn pantry(&self, version: u32, node: &str, database: &str) -> Pantry {
        Pantry::start(&self.world, self.plan(version, node, database)).await.unwrap()
    }

    pub(crate) fn load(&self, target: SocketAddr, rate: u32, rows: u32) -> SampleLoad {
        SampleLoad::new(target, rate, rows, self.world.path("requests.csv"))
    }
}

/// Names and addresses for a balancer.
pub(crate) fn servers(instances: &[&Pantry]) -> Vec<(String, SocketAddr)> {
    instances.iter().map(|p| (p.plan.node.clone(), p.plan.address)).collect()
}

pub(crate) async fn all_up(balancer: &RunningBalancer, instances: &[&Pantry]) {
    for instance in instances {
        balancer.wait_for_status(&instance.plan.node, "UP", LIMIT).await.unwrap();
    }
}

pub(crate) async fn ask(at: SocketAddr, method: Method, path: &str, body: &str) -> Answer {
    let body = if body.is_empty() { wire::nothing() } else { text(body) };
    tokio::time::timeout(LIMIT, wire::send(at, method, path, body)).await.expect("an answer in time").unwrap()
}

fn text(body: &str) -> wire::OutBody {
    use http_body_util::BodyExt;
    http_body_util::Full::new(bytes::Bytes::copy_from_slice(body.as_bytes())).boxed_unsync()
}

/// An answer that must have this status, as JSON.
pub(crate) async fn json(at: SocketAddr, method: Method, path: &str, body: &str, status: u16) -> Value {
    let answer = ask(at, method, path, body).await;
    let said = String::from_utf8_lossy(&answer.body);
    assert_eq!(answer.status, status, "{path} answered {said}");
    serde_json::from_slice(&answer.body).unwrap_or_else(|e| panic!("{path} answered {said}: {e}"))
}
