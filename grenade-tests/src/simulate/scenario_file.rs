//! A scenario's file: what is read is checked, so that a number that is wrong is named before anything is played.

use super::databases::SCHEMAS;
use super::draw::MAX_REQUEST;
use super::metadata_plan::MetadataPlan;
use super::run::LONGEST;
use super::scenario::{Fault, Scenario, ServicePlan, UpgradePlan};
use super::stream_plan::{StreamCommand, StreamPlan};
use anyhow::Context;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;
use tidegate_proto::ServiceName;
use tidegate_proto::record::upgrade::PhaseName;
use tidegate_proto::spec::{ApprovalPoint, Strategy, Then};

/// The most rows of a schema. Filling a row takes some 8 ms of simulated time.
const ROWS: u64 = 10_000;

/// The leases of agents, in seconds.
const LEASES: RangeInclusive<u64> = 2..=60;

const COORDINATORS: u64 = 9;

/// The longest time that a message takes, in milliseconds: each message of a stream waits for the one before it.
const LATENCY: u64 = 100;

/// Reads and checks it.
///
/// # Errors
/// When it cannot be read or is no scenario: with its path, the field, what was found there and what is allowed.
pub(super) fn read(path: &Path) -> anyhow::Result<Scenario> {
    parse(path).with_context(|| is_of(path))
}

/// What an error is about.
pub(super) fn is_of(path: &Path) -> String {
    format!("could not take a scenario from {}", path.display())
}

fn parse(path: &Path) -> anyhow::Result<Scenario> {
    let scenario = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    check(&scenario)?;
    Ok(scenario)
}

/// Whether it can be played.
///
/// # Errors
/// What is wrong with it.
fn check(scenario: &Scenario) -> anyhow::Result<()> {
    let Scenario { zones, services, schemas, upgrades, faults, .. } = scenario;
    anyhow::ensure!(!zones.is_empty(), "zones: it has no node: at least one is needed");
    anyhow::ensure!(!services.is_empty(), "services: it has no service: at least one is needed");
    anyhow::ensure!(!upgrades.is_empty(), "it has no upgrade: at least one is needed");
    within("coordinators", scenario.coordinators as u64, 1..=COORDINATORS)?;
    anyhow::ensure!(
        schemas.len() <= SCHEMAS,
        "schemas: there are {}; at most {SCHEMAS} is allowed",
        schemas.len()
    );
    for (n, schema) in schemas.iter().enumerate() {
        let at = format!("schemas[{n}]");
        within(format_args!("{at}.rows"), schema.rows, 0..=ROWS)?;
        let most = schema.generations.len() as u64;
        within(format_args!("{at}.contracted"), schema.contracted as u64, 0..=most)?;
    }
    let mut names = BTreeSet::new();
    for (n, service) in services.iter().enumerate() {
        let at = format!("services[{n}]");
        check_service(&at, service, scenario)?;
        anyhow::ensure!(names.insert(&service.name), "{at}.name: {:?} is there twice", service.name);
    }
    for n in 0..upgrades.len() {
        check_upgrade(n, scenario)?;
    }
    for (n, fault) in faults.iter().enumerate() {
        check_fault(&format!("mishaps[{n}]"), fault, upgrades.len())?;
    }
    if let Some(stream) = &scenario.stream {
        check_stream(stream, scenario)?;
    }
    if let Some(metadata) = &scenario.metadata {
        check_metadata(metadata, services.len())?;
    }
    within("latency", scenario.latency, 0..=LATENCY)?;
    within("max_request", scenario.max_request.unwrap_or(MAX_REQUEST), MAX_REQUEST..=u64::MAX)
}

fn check_service(at: &str, service: &ServicePlan, scenario: &Scenario) -> anyhow::Result<()> {
    service.name.parse::<ServiceName>().with_context(|| format!("{at}.name"))?;
    anyhow::ensure!(!service.nodes.is_empty(), "{at}.nodes: at least one is needed");
    let mut nodes = BTreeSet::new();
    for (field, some) in [("nodes", &service.nodes), ("late", &service.late)] {
        for (n, node) in some.iter().enumerate() {
            let at = format!("{at}.{field}[{n}]");
            place(&at, *node, scenario.zones.len(), "zones")?;
            anyhow::ensure!(nodes.insert(node), "{at}: the service is on node {node} twice");
        }
    }
    within(format_args!("{at}.lease"), service.lease, LEASES)?;
    within(format_args!("{at}.lingers"), service.lingers, 0..=LONGEST)?;
    match service.schema {
        Some(schema) => place(format_args!("{at}.schema"), schema, scenario.schemas.len(), "schemas"),
        None => Ok(()),
    }
}

fn check_upgrade(n: usize, scenario: &Scenario) -> anyhow::Result<()> {
    let (at, upgrade) = (format!("upgrades[{n}]"), &scenario.upgrades[n]);
    place(format_args!("{at}.service"), upgrade.service, scenario.services.len(), "services")?;
    let service = &scenario.services[upgrade.service];
    let is_of_it = |other: &&UpgradePlan| other.service == upgrade.service;
    let before = u32::try_from(scenario.upgrades[..n].iter().filter(is_of_it).count())?;
    let from = scenario.first_version(upgrade.service) + before;
    anyhow::ensure!(
        upgrade.from == from,
        "{at}.from: {}; {from} is allowed, the version that service {:?} is at by then",
        upgrade.from,
        service.name
    );
    if let Some(schema) = service.schema {
        let last = scenario.schemas[schema].generations.len();
        let needed = from as usize;
        anyhow::ensure!(
            needed <= last,
            "{at}: it leads to version {}, and schemas[{schema}].generations to {}",
            from + 1,
            last + 1
        );
    }
    let instances = (service.nodes.len() + service.late.len()) as u64;
    within(format_args!("{at}.min_in_service"), upgrade.min_in_service, 0..=instances)?;
    within(format_args!("{at}.max_unavailable"), upgrade.max_unavailable, 1..=u64::MAX)?;
    for (field, ms) in [("drain_deadline", upgrade.drain_deadline), ("healthy_time", upgrade.healthy_time)] {
        within(format_args!("{at}.{field}"), ms, 0..=LONGEST)?;
    }
    let strategy = &upgrade.strategy;
    let read: Result<Strategy, _> = serde_json::from_value(strategy.clone());
    read.with_context(|| format!("{at}.strategy: {strategy}"))?;
    word::<Then>(format_args!("{at}.then"), &upgrade.then)?;
    for (n, phase) in upgrade.approvals.iter().enumerate() {
        word::<ApprovalPoint>(format_args!("{at}.approvals[{n}]"), phase)?;
    }
    Ok(())
}

fn check_fault(at: &str, fault: &Fault, upgrades: usize) -> anyhow::Result<()> {
    place(format_args!("{at}.upgrade"), fault.upgrade, upgrades, "upgrades")?;
    word::<PhaseName>(format_args!("{at}.phase"), &fault.phase)?;
    within(format_args!("{at}.after"), fault.after, 0..=LONGEST)?;
    within(format_args!("{at}.lasts"), fault.lasts, 0..=LONGEST)
}

fn check_stream(stream: &StreamPlan, scenario: &Scenario) -> anyhow::Result<()> {
    let nodes = scenario.zones.len();
    place("stream.on", stream.on, scenario.services.len(), "services")?;
    for (n, node) in stream.nodes.iter().enumerate() {
        place(format_args!("stream.nodes[{n}]"), *node, nodes, "zones")?;
    }
    for (n, step) in stream.steps.iter().enumerate() {
        let at = format!("stream.steps[{n}]");
        within(format_args!("{at}.at"), step.at, 0..=LONGEST)?;
        if let StreamCommand::HooksFail(node, _) = step.what {
            place(format_args!("{at}.what.HooksFail[0]"), node, nodes, "zones")?;
        }
    }
    Ok(())
}

fn check_metadata(metadata: &MetadataPlan, services: usize) -> anyhow::Result<()> {
    place("metadata.on", metadata.on, services, "services")?;
    for (n, update) in metadata.updates.iter().enumerate() {
        let at = format!("metadata.updates[{n}]");
        within(format_args!("{at}.at"), update.at, 0..=LONGEST)?;
        let pattern = update.pattern.as_str();
        anyhow::ensure!(
            ["rolling", "canary", "immediate"].contains(&pattern),
            "{at}.pattern: {pattern:?}; rolling, canary and immediate are allowed"
        );
    }
    Ok(())
}

/// A number within its limits.
fn within(field: impl Display, found: u64, allowed: RangeInclusive<u64>) -> anyhow::Result<()> {
    let (least, most) = (*allowed.start(), *allowed.end());
    match allowed.contains(&found) {
        true => Ok(()),
        false if most == u64::MAX => anyhow::bail!("{field}: {found}; at least {least} is allowed"),
        false => anyhow::bail!("{field}: {found}; {least} to {most} is allowed"),
    }
}

/// A place in a list.
fn place(field: impl Display, found: usize, length: usize, list: &str) -> anyhow::Result<()> {
    anyhow::ensure!(length > 0, "{field}: {found}; `{list}` is empty");
    anyhow::ensure!(found < length, "{field}: {found}; 0 to {} is allowed, a place in `{list}`", length - 1);
    Ok(())
}

/// One of the words of a type.
fn word<T: DeserializeOwned>(field: impl Display, found: &str) -> anyhow::Result<()> {
    let read: Result<T, _> = serde_json::from_value(found.into());
    read.map(drop).with_context(|| format!("{field}: {found:?}"))
}

#[cfg(test)]
mod tests;
