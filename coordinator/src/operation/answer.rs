//! What is seen, put into the messages that answers are made of.

use tidegate_planner::fleet::Known;
use tidegate_planner::{Fleet, Instance, Sample, ServiceFleet, Stored};
use tidegate_proto::UpgradeId;
use tidegate_proto::key::Key;
use tidegate_proto::record::report::{BalancerReport, Health, Report, Rotation, Step};
use tidegate_proto::record::upgrade::{Phase, Upgrade};
use tidegate_proto::wire::v1;

/// An upgrade's state, in a line.
pub(super) fn summary(fleet: &Fleet, id: &UpgradeId, upgrade: &Stored<Upgrade>) -> v1::UpgradeSummary {
    let service = fleet.service(&upgrade.spec.service);
    let active = fleet.active_upgrade(&upgrade.spec.service).is_some_and(|(active, _)| active == id);
    let done = match (&upgrade.phase, service) {
        (Phase::Completed, _) => at_the_end(upgrade),
        (_, Some(service)) if active => service.done(),
        _ => 0,
    };
    v1::UpgradeSummary {
        id: id.to_string(),
        service: upgrade.spec.service.to_string(),
        from: upgrade.spec.from.get(),
        to: upgrade.spec.to.get(),
        release: upgrade.spec.release.tag.to_string(),
        phase: upgrade.phase.name().word().to_owned(),
        over: upgrade.phase.is_over(),
        paused: upgrade.paused.is_some(),
        by: upgrade.by.clone(),
        // The record's own time; the `at` beside it is its mod_revision.
        at: upgrade.record.body.at.0,
        wave: match &upgrade.phase {
            Phase::Roll { wave } => Some(wave + 1),
            _ => None,
        },
        waves: upgrade.waves.as_ref().map_or(0, |division| short(division.sizes.len())),
        done: short(done),
        instances: short(if active { service.map_or(0, ServiceFleet::len) } else { at_the_end(upgrade) }),
        left_in_place: upgrade.schema.as_ref().map(|schema| schema.left.clone()).unwrap_or_default(),
    }
}

/// How many instances it had when it ended: those that were divided into waves, and those that joined later.
fn at_the_end(upgrade: &Upgrade) -> usize {
    let divided: usize =
        upgrade.waves.as_ref().map_or(0, |division| division.sizes.iter().map(|size| *size as usize).sum());
    match upgrade.phase {
        Phase::Completed => divided.max(upgrade.done as usize),
        _ => divided,
    }
}

/// Why an upgrade is held, turned or failed, where it is.
pub(super) fn because(upgrade: &Upgrade) -> Option<String> {
    if let Some(pause) = &upgrade.paused {
        return Some(format!("paused by {}: {}", pause.who, pause.why));
    }
    match &upgrade.phase {
        Phase::RollingBack { because, .. } | Phase::RolledBack { because } | Phase::Failed { because } => {
            Some(because.clone())
        }
        _ => None,
    }
}

/// How many instances of a service are at each version.
pub(super) fn spread(fleet: &Fleet, service: &ServiceFleet) -> v1::Spread {
    let spread = service.spread();
    let unreadable = fleet.unreadable().filter(|(key, ..)| is_of(key, service)).take(100);
    v1::Spread {
        service: service.name().to_string(),
        by_version: spread.by_version.iter().map(|(version, count)| (version.get(), short(*count))).collect(),
        silent: short(spread.silent),
        unknown: short(spread.unknown),
        in_service: short(service.in_service()),
        floor: service.window().map(|window| window.floor.get()),
        ceiling: service.window().map(|window| window.ceiling.get()),
        unreadable: unreadable.map(|(key, why, _)| format!("{key} {why}")).collect(),
        outside: tidegate_planner::plan::outside(fleet, service).map(|reason| reason.to_string()),
    }
}

fn is_of(key: &Key, of: &ServiceFleet) -> bool {
    match key {
        Key::Report(service, _)
        | Key::Inventory(service, _)
        | Key::Decommission(service, _)
        | Key::Directive(service, _)
        | Key::Window(service)
        | Key::Active(service)
        | Key::Budget(service) => service == of.name(),
        Key::Maintenance(node) => of.get(node).is_some(),
        _ => false,
    }
}

pub(super) fn instance(of: &ServiceFleet, instance: &Instance) -> v1::Instance {
    let report = instance.report.as_ref();
    let known = instance.known();
    v1::Instance {
        service: of.name().to_string(),
        node: instance.node.to_string(),
        version: match known {
            Known::At(version) => Some(version.get()),
            // No gate counts what it runs; people are shown it.
            _ if instance.contradicts => report.and_then(|report| report.runs()).map(|version| version.get()),
            Known::Silent | Known::Unknown => None,
        },
        release: report.and_then(|report| report.release.as_ref()).map(ToString::to_string),
        rotation: rotation(report.map_or(Rotation::Unknown, |report| report.rotation)).to_owned(),
        health: health(report.map_or(Health::Unknown, |report| report.health)).to_owned(),
        step: report.map_or("unknown", |report| step(report)).to_owned(),
        because: because_of(instance),
        wave: instance.wave.map(|wave| wave + 1),
        silent: known == Known::Silent && !instance.contradicts,
        in_service: instance.is_in_service(),
        cordoned: instance.cordoned,
        directive: instance.directive.as_ref().map(|directive| directive.disposition.word().to_owned()),
        admitted: instance.inventory.as_ref().map(|inventory| inventory.version.get()),
        labels: instance.inventory.as_ref().map(|inventory| inventory.labels.clone()).unwrap_or_default(),
        in_flight: report.and_then(|report| report.in_flight),
        balancers: report.into_iter().flat_map(|report| report.balancers.iter().map(balancer)).collect(),
        decommissioned: instance.is_decommissioned(),
        quarantined: instance.contradicts.then(|| {
            "its agent contradicts the store: `tidegate fleet reconcile` shows what it claims".to_owned()
        }),
    }
}

fn balancer(balancer: &BalancerReport) -> v1::BalancerStatus {
    v1::BalancerStatus {
        balancer: balancer.balancer.clone(),
        status: balancer.status.clone(),
        sessions: balancer.sessions,
        by_hand: balancer.is_by_hand(),
    }
}

/// Its agent knows no step for a service that served and answers no more.
fn step(report: &Report) -> &'static str {
    let dead = report.health == Health::Unhealthy && report.rotation == Rotation::Unknown;
    if dead && report.step == Step::Serving { "not-answering" } else { report.step.word() }
}

/// The first instances of a service that are leaving rotation.
pub(super) fn leaving(of: &ServiceFleet) -> Vec<v1::Instance> {
    let leaves = |i: &&Instance| i.report.as_ref().is_some_and(|report| report.step == Step::Draining);
    of.ordered().each.filter(leaves).take(Sample::NAMED).map(|each| instance(of, each)).collect()
}

fn because_of(instance: &Instance) -> Option<String> {
    if let Some((kind, why)) = instance.unreadable.iter().next() {
        return Some(format!("its record in {} {why}", kind.word()));
    }
    match &instance.report.as_ref()?.step {
        Step::Failed { at, reason } => Some(format!("{at}: {reason}")),
        Step::Refused { reason } => Some(reason.clone()),
        _ => None,
    }
}

fn rotation(rotation: Rotation) -> &'static str {
    match rotation {
        Rotation::In => "in",
        Rotation::Leaving => "leaving",
        Rotation::Out => "out",
        Rotation::Returning => "returning",
        Rotation::Maintenance => "maintenance",
        Rotation::Unknown => "unknown",
    }
}

fn health(health: Health) -> &'static str {
    match health {
        Health::Healthy => "healthy",
        Health::Unhealthy => "unhealthy",
        Health::Unknown => "unknown",
    }
}

/// A count as messages have it; no fleet is larger.
pub(super) fn short(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn service_that_stopped_answering_is_not_shown_as_serving() {
        let step_of = |rotation: &str, health: &str| {
            let identity = json!({"nonce": "n", "boot": "b"});
            let report = json!({"identity": identity, "step": {"name": "serving"}, "rotation": rotation, "health": health});
            step(&serde_json::from_value(report).unwrap())
        };
        assert_eq!(step_of("in", "healthy"), "serving");
        assert_eq!(step_of("in", "unhealthy"), "serving", "its health URL answers 200");
        assert_eq!(step_of("unknown", "unhealthy"), "not-answering");
    }
}
