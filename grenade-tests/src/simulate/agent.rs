//! The agents: the product's own loop of each service, on a simulated node.

use super::dice::Dice;
use super::document::{GROUP, METADATA_FILE};
use super::gate::{Gate, Passage};
use super::host::Node;
use super::images::{DROP, PULL};
use super::line::{Line, Place};
use super::scenario::{Scenario, ServicePlan};
use super::testbed::{Testbed, disable_file};
use futures::FutureExt;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_agent::config;
use tidegate_agent::host::Host;
use tidegate_agent::instance::Instance;
use tidegate_agent::link::Link;
use tidegate_agent::metadata::Follower;
use tidegate_agent::task::Worker;
use tidegate_proto::record::report::Identity;
use tidegate_store::Store;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a supervisor waits before it starts an agent that ended again.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

/// The nonce of a second agent with a name of another.
pub(super) const IMPOSTOR: &str = "impostor";

/// The agent of one node, as a process.
pub(super) struct Agent {
    /// The gate between it and everything else.
    pub gate: Gate,
    /// Its line to the store.
    pub line: Line,
    cancel: CancellationToken,
    supervisor: JoinHandle<()>,
}

impl Agent {
    /// Starts the agent of a node, and starts it again where it ends by itself. `nonce` distinguishes two agents of one name.
    pub(super) fn start(
        scenario: &Scenario,
        testbed: &Testbed,
        place: &Place,
        node: usize,
        nonce: &str,
        dice: &mut Dice,
    ) -> Self {
        let gate = Gate::open();
        let line = Line::new(place.clone(), gate.clone(), Dice::of(dice.seed(), "line"));
        let cancel = CancellationToken::new();
        let host: Arc<dyn Host> =
            Arc::new(Node::new(testbed.clone(), node, gate.clone(), Dice::of(dice.seed(), "host")));
        let identity = Identity { nonce: nonce.to_owned(), boot: testbed.boot_id(node) };
        let text = configuration(scenario, testbed, node, nonce);
        let supervisor = tokio::spawn(gate.run(supervise(
            (testbed.clone(), node),
            text,
            identity,
            host,
            line.clone(),
            (gate.clone(), cancel.clone()),
        )));
        Self { gate, line, cancel, supervisor }
    }

    /// kill -9.
    pub(super) fn kill(self) {
        // Before the gate, which lets the tasks of a stopped process go on: they see first that they are to end.
        self.supervisor.abort();
        self.cancel.cancel();
        // What it had begun beside its loops ends at the gate.
        self.gate.set(Passage::Dead);
    }
}

async fn supervise(
    (testbed, node): (Testbed, usize),
    text: String,
    identity: Identity,
    host: Arc<dyn Host>,
    line: Line,
    (gate, cancel): (Gate, CancellationToken),
) {
    loop {
        let once = cancel.child_token();
        let ended = once_through(&text, &identity, &host, &line, &gate, &once).await;
        once.cancel();
        gate.passes().await;
        let name = testbed.names().nodes[node].clone();
        testbed.log(format!("the agent of {name} ends: {ended}"));
        tokio::time::sleep(AGAIN).await;
        gate.passes().await;
        if identity.nonce != IMPOSTOR {
            testbed.state().restarted.push(node);
        }
    }
}

/// Why it ended.
async fn once_through(
    text: &str,
    identity: &Identity,
    host: &Arc<dyn Host>,
    line: &Line,
    gate: &Gate,
    cancel: &CancellationToken,
) -> String {
    let node = match config::parse(text, Path::new("agent.toml")) {
        Ok(node) => node,
        Err(error) => return error.to_string(),
    };
    let client = match line.client().await {
        Ok(client) => client,
        Err(error) => return error.to_string(),
    };
    let link = Link::over(Store::over(client, node.prefix.clone()), &node, cancel);
    let mut loops = tokio::task::JoinSet::new();
    for service in node.services.values() {
        match Instance::open(host, &node, service, identity, &link) {
            Ok(instance) => drop(loops.spawn(gate.run(instance.run(cancel.clone())))),
            Err(error) => return error.to_string(),
        }
    }
    for group in node.metadata.values() {
        match Follower::open(host, &node.name, group, &node.state_dir) {
            Ok(follower) => drop(loops.spawn(gate.run(follower.run(link.clone(), cancel.clone())).map(Ok))),
            Err(error) => return error.to_string(),
        }
    }
    // Where no hook is defined nothing is ordered, and worlds without a stream stay as they were.
    if !node.hooks.is_empty() {
        match Worker::open(host, &node, identity) {
            Ok(worker) => drop(loops.spawn(gate.run(worker.run(link, cancel.clone())).map(Ok))),
            Err(error) => return error.to_string(),
        }
    }
    match loops.join_next().await {
        Some(Ok(Err(fatal))) => fatal.to_string(),
        Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        _ => "asked to".to_owned(),
    }
}

/// The configuration of a node, as its administrator would write it.
fn configuration(scenario: &Scenario, testbed: &Testbed, node: usize, nonce: &str) -> String {
    let name = &testbed.names().nodes[node];
    // One state directory is of one agent: a lock sees to that.
    let state = if nonce == IMPOSTOR { "/var/other" } else { "/var/agent" };
    let here: Vec<&ServicePlan> = scenario.services.iter().filter(|s| s.nodes.contains(&node)).collect();
    let lease = here.iter().map(|service| service.lease).min().unwrap_or(3);
    let mut text = format!(
        "node = \"{name}\"\nlabels = {{ zone = \"{}\" }}\nstate_dir = \"{state}\"\nruntime_dir = \"/run/agent\"\n\
         lease_ttl = \"{lease}s\"\n[store]\nendpoints = [\"http://127.0.0.1:1\"]\n",
        scenario.zones[node]
    );
    for (hook, verb) in [(PULL, "pull"), (DROP, "drop")].into_iter().filter(|_| scenario.stream.is_some()) {
        // Writing to a string does not fail.
        let _ = write!(text, "[hook.{hook}]\nargv = [\"{verb}\", \"{{tag}}\"]\ntimeout = \"10s\"\n");
    }
    // A second agent with this name is set up for the services alone.
    let follows = scenario.metadata.as_ref().filter(|plan| {
        nonce != IMPOSTOR && here.iter().any(|service| service.name == scenario.services[plan.on].name)
    });
    if let Some(plan) = follows {
        let _ = write!(text, "[metadata.{GROUP}]\nfile = \"{METADATA_FILE}\"\ntimeout = \"5s\"\n");
        text += if plan.hook { "hook = [\"reload\", \"{generation}\"]\n" } else { "" };
    }
    for service in here {
        // Writing to a string does not fail.
        let _ = write!(text, "{}", one(service, testbed, name));
    }
    text
}

fn one(service: &ServicePlan, testbed: &Testbed, node: &str) -> String {
    let name = &service.name;
    let file = disable_file(name);
    let ready = if service.one_url { "health" } else { "ready" };
    let mut text = format!(
        "[service.{name}]\nprobe = {{ http = \"http://{node}:80/{name}/version\" }}\n\
         ready_url = \"http://{node}:80/{name}/{ready}\"\nhealth_url = \"http://{node}:80/{name}/health\"\n\
         disable_file = {file:?}\ninterval = \"2s\"\nfast_interval = \"250ms\"\ntimeout = \"1s\"\n\
         check = {{ interval = \"1s\", fall = 2, rise = 2 }}\n"
    );
    let at = testbed.names().service(name).zip(testbed.names().node(node));
    let came_with = at.and_then(|at| testbed.state().slots.get(&at)?.came_with.clone());
    if let Some(tag) = came_with.filter(|_| !service.hooks) {
        text += &format!("initial_release = \"{tag}\"\n");
    }
    if service.starts_alone {
        text += "start_without_store = true\n";
    }
    if service.asks_balancer {
        text += &format!(
            "balancer = [{{ stats = \"unix:/run/{name}.sock\", backend = \"{name}\", server = \"{node}\" }}]\n"
        );
    }
    if service.counts {
        text += &format!("in_flight = {{ url = \"http://{node}:80/{name}/in-flight\" }}\n");
    }
    text += &match service.hooks {
        true => format!(
            "[service.{name}.driver.command]\nstage = [\"stage\", \"{{tag}}\"]\nstop = [\"stop\", \"{{tag}}\"]\n\
             start = [\"start\", \"{{tag}}\"]\nremove = [\"remove\", \"{{tag}}\"]\nstatus = [\"status\", \"{name}\"]\n\
             timeout = \"10s\"\n"
        ),
        false => format!("[service.{name}.driver.process]\nargv = [\"{name}\"]\nstop_timeout = \"5s\"\n"),
    };
    let state = testbed.state();
    let alone = at.and_then(|at| state.slots.get(&at)?.named_alone.as_ref());
    let alone = alone.and_then(|tag| Some((tag, state.releases.get(tag)?.version)));
    for (tag, release) in &state.releases {
        let other = alone.is_some_and(|(is, version)| tag != is && release.version == version);
        if tag.starts_with(&format!("{name}-")) && !other {
            text += &format!(
                "[service.{name}.artifact.\"{tag}\"]\nsource = \"/artifacts/{tag}\"\nversion = {}\n",
                release.version
            );
            if service.hooks {
                text += &format!("sha256 = \"{}\"\n", tidegate_proto::Digest::of(tag.as_bytes()));
            }
        }
    }
    text
}
