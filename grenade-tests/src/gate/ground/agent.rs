//! The configuration of the agent of a node.

use std::path::Path;

use serde_json::{Value, json};

use crate::balancer::stat::PROXY;
use crate::gate::file::Gate;
use crate::gate::file::service::Service;
use crate::gate::ground::Release;
use crate::gate::launcher::{self, Node};
use crate::world::balancer::{CHECK_INTERVAL, FALL, RISE};

/// The configuration of a node's agent.
pub(super) fn config(
    gate: &Gate,
    node: &Node,
    store: &[String],
    stats: &Path,
    releases: &[&Release; 2],
) -> Value {
    let service = &gate.service;
    let at = |path: &str| format!("http://{}{path}", node.address);
    let health = match &service.health {
        Some(path) => at(path),
        None => format!("http://{}/healthcheck", node.health),
    };
    let argv: Vec<String> =
        std::iter::once(format!("{{release_dir}}/{}", launcher::SCRIPT)).chain(node.arguments()).collect();
    let mut settings = json!({
        "probe": probe(gate, node),
        "ready_url": at(&service.ready),
        "health_url": health,
        "disable_file": node.disable_file(),
        "check": {"interval": format!("{}ms", CHECK_INTERVAL.as_millis()), "fall": FALL, "rise": RISE},
        "initial_release": releases[0].tag,
        "balancer": [{"stats": format!("unix:{}", stats.display()), "backend": PROXY, "server": node.name}],
        "driver": {"process": {"argv": argv, "stop_timeout": format!("{}ms", service.stop_timeout.as_millis())}},
    });
    let fields = settings.as_object_mut().expect("an object was made");
    if let Some(counter) = &service.in_flight {
        fields.insert("in_flight".to_owned(), asked(&at(&counter.path), counter.pointer.as_deref(), "url"));
    }
    if service.health.is_none() {
        fields.insert("healthcheck".to_owned(), json!({"listen": node.health}));
    }
    // A script is called as its release is; what it starts is the service.
    let artifact = |release: &&Release| {
        (release.tag.clone(), json!({"source": release.script, "version": release.version}))
    };
    let artifacts: serde_json::Map<String, Value> = releases.iter().map(artifact).collect();
    fields.insert("artifact".to_owned(), Value::Object(artifacts));
    json!({
        "node": node.name,
        "state_dir": node.home.join("state"),
        "runtime_dir": node.home.join("run"),
        "store": {"endpoints": store},
        "service": {service.name.as_str(): settings},
    })
}

fn asked(url: &str, pointer: Option<&str>, field: &str) -> Value {
    match pointer {
        Some(pointer) => json!({field: url, "pointer": pointer}),
        None => json!({field: url}),
    }
}

/// How the agent learns the version: by itself, or through `grenade version-of` where answers are not Tidegate's numbers.
fn probe(gate: &Gate, node: &Node) -> Value {
    let probe = &gate.service.version;
    let url = format!("http://{}{}", node.address, probe.path);
    let meanings = meanings(&gate.service);
    if meanings.is_empty() {
        return asked(&url, probe.pointer.as_deref(), "http");
    }
    let own = crate::world::program::own("grenade")
        .map_or_else(|_| "grenade".to_owned(), |p| p.display().to_string());
    let mut command = vec![own, "version-of".to_owned(), "--url".to_owned(), url];
    if let Some(pointer) = &probe.pointer {
        command.extend(["--pointer".to_owned(), pointer.clone()]);
    }
    for (said, number) in meanings {
        command.extend(["--means".to_owned(), format!("{said}={number}")]);
    }
    json!({"command": command})
}

/// The answers of the service with their numbers in Tidegate; none: an answer is that number.
fn meanings(service: &Service) -> Vec<(String, u32)> {
    let means = &service.version.means;
    if means.is_empty() && service.skipped().is_some() {
        let versions = [service.base.number, service.target.number];
        return versions.map(|number| (number.to_string(), service.in_tidegate(number))).into();
    }
    means.iter().map(|(said, number)| (said.clone(), service.in_tidegate(*number))).collect()
}
