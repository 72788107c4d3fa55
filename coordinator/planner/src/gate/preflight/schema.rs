//! What preflight finds about the services that share the schema: without a committed window of each, contract could
//! never be certified; and a floor that migrate requires must be one that can be reached.

use super::finding::{Finding, blocker, warning};
use super::unknown::{NAMED, answers, to_include};
use crate::fleet::{Fleet, ServiceFleet};
use crate::gate::schema::form::{begins_to_use, is_there_after, unreadable_upgrade};
use crate::gate::schema::migrate_floors;
use crate::release::floor::is_only_watched;
use tidegate_proto::record::schema::Schema;
use tidegate_proto::record::upgrade::{Phase, PhaseName, SchemaBinding, Upgrade};
use tidegate_proto::spec::{Spec, SpecSchema};
use tidegate_proto::{Key, ServiceName, ServiceVersion};

/// What was found of each service that shares the schema.
pub(super) fn sharing(fleet: &Fleet, spec: &Spec) -> Vec<Finding> {
    let Some(asked) = &spec.schema else { return Vec::new() };
    asked.shared_with.iter().flat_map(|(name, needs)| one(fleet, asked, name, *needs)).collect()
}

fn one(fleet: &Fleet, asked: &SpecSchema, name: &ServiceName, needs: ServiceVersion) -> Vec<Finding> {
    let key = Key::Window(name.clone());
    if let Some((key, why, _)) = fleet.unreadable().find(|(unreadable, ..)| **unreadable == key) {
        return vec![blocker(format!("{name} shares the schema, and the record {key} {why}"))];
    }
    let of = fleet.service(name).filter(|of| !of.is_empty());
    // One that is only watched gets a window by the upgrade.
    let window = fleet.service(name).and_then(ServiceFleet::window);
    let window = window.filter(|window| !is_only_watched(Some(&window.record.body)));
    let floor = window.map(|window| window.floor);
    let low = |what: &str| {
        warning(format!("{name} shares the schema: {what}, and contract waits until its floor is {needs}"))
    };
    let Some(of) = of else {
        return match (asked.empty.contains(name), floor) {
            (false, _) => vec![blocker(format!(
                "{name} shares the schema and has no instance: no agent has ever been admitted for it; start its agents, or name it in schema.empty"
            ))],
            (true, Some(floor)) if floor < needs => vec![low(&format!("its floor is {floor}"))],
            (true, _) => Vec::new(),
        };
    };
    let mut found = unknown_versions(fleet, of, floor.is_none());
    if let Some(window) = window.filter(|window| window.floor < needs)
        && of.lowest().is_some_and(|lowest| lowest >= needs)
    {
        let now = &window.record.body;
        found.push(match fleet.lock(name) {
            // Its own upgrade raises it at its end; no other change of the window is allowed.
            Some((upgrade, _)) => low(&format!("its window is {now} until upgrade {upgrade} of it is over")),
            None => blocker(format!(
                "{name} shares the schema: contract waits until its floor is {needs}, its window is {now}, and no instance runs a version below {needs}; raise it: `tidegate fleet window {name} --floor {needs} --ceiling {} --why WHY`",
                window.ceiling
            )),
        });
        return found;
    }
    let lowest = floor.or_else(|| of.lowest()).unwrap_or(needs);
    if lowest < needs {
        let what = if floor.is_some() { "its floor is" } else { "the lowest version that runs is" };
        found.push(low(&format!("{what} {lowest}")));
    }
    found
}

/// What holds a service back while another upgrade takes away the form of a shared schema that its new version uses.
pub(super) fn rolled_back(fleet: &Fleet, spec: &Spec) -> Vec<Finding> {
    let shares = |schema: &Schema| schema.services.get(&spec.service).is_some_and(|needs| spec.to >= *needs);
    let held = fleet.schemas().filter(|(_, schema)| shares(schema));
    let by = held.filter_map(|(id, _)| fleet.upgrade(fleet.schema_lock(id)?.0).zip(fleet.schema_lock(id)));
    let returns = by.filter(|(upgrade, _)| {
        upgrade.spec.service != spec.service && upgrade.phase.name() == PhaseName::RollingBack
    });
    let found = returns.map(|(_, (holder, _))| {
        blocker(format!(
            "upgrade {holder} rolls back the schema that {} shares, and takes away the form that version {} uses: wait until it is over",
            spec.service, spec.to
        ))
        .until(format!("the rollback of upgrade {holder} is over"))
    });
    found.collect()
}

/// That the record of an upgrade cannot be read which may take away the form of a shared schema: the roll would be held.
pub(super) fn unread(fleet: &Fleet, spec: &Spec) -> Option<Finding> {
    let (key, why) = unreadable_upgrade(fleet, &spec.service)?;
    Some(blocker(format!(
        "{} shares a schema, and the record {key} {why}: that upgrade may take away the form that version {} uses; restore \
         the previous value of the record",
        spec.service, spec.to
    )))
}

/// What holds an upgrade in preflight after another one has taken away the form that was there when it was started: it would
/// go on by itself as soon as that rollback is over. A person who starts it once more knows what the schema has.
pub(super) fn taken_away(fleet: &Fleet, spec: &Spec) -> Vec<Finding> {
    let Some((_, started)) = fleet.lock(&spec.service) else { return Vec::new() };
    let back = fleet.upgrades().filter(|(_, upgrade)| {
        upgrade.at > started
            && matches!(upgrade.phase, Phase::RolledBack { .. })
            && begins_to_use(spec, upgrade)
    });
    let expanded = |upgrade: &Upgrade| upgrade.timetable.iter().any(|part| part.phase == PhaseName::Expand);
    let found = back.filter(|(_, upgrade)| expanded(upgrade) && !is_there_after(fleet, upgrade));
    let found = found.map(|(id, _)| {
        blocker(format!(
            "upgrade {id} has rolled back the schema that {} shares since this upgrade was started, and has taken away the form that version {} uses: end this upgrade, and start it again once the form is there",
            spec.service, spec.to
        ))
    });
    found.collect()
}

/// Instances with an unknown version: a window cannot be committed below them.
fn unknown_versions(fleet: &Fleet, of: &ServiceFleet, blocks: bool) -> Vec<Finding> {
    let name = of.name();
    let mut found = Vec::new();
    let mut any = |sample: crate::gate::Sample, what: &str, until: Option<String>| {
        if !sample.is_empty() {
            let what = format!("{name} shares the schema, and {what} {sample}");
            found.push(Finding { blocks, what, until });
        }
    };
    let silent = "there is no report (bring the agent back, or decommission the instance) from";
    any(of.silent().sample(), silent, None);
    any(of.unknown().sample(), "the version that runs is not known on", answers(of.unknown().each));
    let included = of.unknown().each.filter_map(|instance| to_include(fleet, of, instance));
    found.extend(included.take(NAMED).map(|what| Finding { blocks, what, until: None }));
    found
}

/// What was found of the floors that migrate requires.
pub(super) fn floors(fleet: &Fleet, spec: &Spec, binding: &SchemaBinding) -> Vec<Finding> {
    let required = migrate_floors::required(spec, binding);
    let shares = |service: &ServiceName| {
        spec.schema.as_ref().is_some_and(|asked| asked.shared_with.contains_key(service))
    };
    let found = required.into_iter().filter_map(|(service, needs)| {
        if service == spec.service {
            return (needs > spec.to).then(|| {
                blocker(format!(
                    "a migration requires the floor {needs} of {service} before migrate, and this upgrade ends at {}: it could never be reached; correct `requires` in the migration",
                    spec.to
                ))
            });
        }
        if !shares(&service) {
            return Some(blocker(format!(
                "a migration requires the floor {needs} of {service} before migrate, and schema.shared_with does not name that service"
            )));
        }
        let floor = migrate_floors::committed(fleet, &service);
        let now = floor.map_or("no floor is committed".to_owned(), |floor| format!("its floor is {floor}"));
        floor.is_none_or(|floor| floor < needs).then(|| {
            warning(format!("migrate waits until the floor of {service} is {needs}: {now}"))
        })
    });
    found.collect()
}
