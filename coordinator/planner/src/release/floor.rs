//! The floor of storage that is only watched: another tool upgrades it, so no upgrade sets a window. Its floor follows
//! the highest need of compute releases, up and down; its ceiling stays open.
//!
//! # Invariants
//! * A transaction that changes the needs of such a service sets its floor as well, and compares its window.
//! * A floor that an upgrade set is evidence of what runs: it is raised only to what every instance is known to run, and
//!   never lowered here.
//! * No floor is raised to a need while an agent of the service contradicts the store: a person decides about its claim
//!   first. Above what that instance runs, no plan to reconcile could include it. A claim that was disregarded may be
//!   included later: the floor is raised at most to what this instance is known to run.
//! * Nor is one raised in a store that was reconciled with a former one while no instance of the service is known: one that
//!   was away makes its claim when it is back.
//! * A floor that a reconciliation set is no evidence of more than what each disregarded instance is known to run.

use crate::contracted;
use crate::fleet::{Fleet, Instance, Known, ServiceFleet};
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Kind;
use tidegate_proto::record::need::Need;
use tidegate_proto::record::window::{BY_RECONCILIATION, BY_RELEASES, Window};
use tidegate_proto::{Key, Revision, ServiceName, ServiceVersion, UpgradeId, mutant};

fn by_releases() -> UpgradeId {
    BY_RELEASES.parse().expect("a plain word is a name")
}

/// Whether no upgrade bounds the service from above: then its floor is no evidence of what runs.
pub fn is_only_watched(window: Option<&Window>) -> bool {
    window.is_none_or(|window| window.is_open() || window.follows_needs())
}

/// The window that the needs ask for; none = it is that already, or an upgrade sets it.
fn wanted(fleet: &Fleet, service: &ServiceName, need: &Need) -> Option<Window> {
    if mutant::is("watched-floor-is-not-set") || fleet.unreadable_at(&Key::Window(service.clone())).is_some()
    {
        return None;
    }
    let now = window_of(fleet, service);
    let has = now.map_or(ServiceVersion::ABSENT, |now| now.floor);
    let needed = needed_floor(Some(need));
    let needed = if needed > has { needed.min(highest_open(fleet, service).max(has)) } else { needed };
    let floor = needed.max(contracted::lowest_floor(fleet, service));
    let contracted = contracted::bound(fleet, service);
    match now {
        Some(now) if now.ceiling != ServiceVersion::MAX => None,
        Some(now) if !is_only_watched(Some(now)) => {
            let is_run = fleet.service(service).is_some_and(|known| all_at_least(known, floor));
            let floor = if is_run { floor } else { contracted::lowest_floor(fleet, service) };
            (now.floor < floor).then(|| Window { floor, ..now.clone() })
        }
        Some(now) if now.floor == floor => None,
        None if floor == ServiceVersion::ABSENT => None,
        _ => Some(Window { floor, ceiling: ServiceVersion::MAX, set_by: by_releases(), contracted }),
    }
}

/// The highest floor to which the needs may raise that of a service: none while one of its agents contradicts the store, or
/// may do so once it reports.
fn highest_open(fleet: &Fleet, service: &ServiceName) -> ServiceVersion {
    match fleet.contradicted_by().any(|(of, ..)| of == service) || is_yet_to_report(fleet, service) {
        true => ServiceVersion::ABSENT,
        false => run_by_disregarded(fleet, service),
    }
}

/// Whether a store that was reconciled with a former one knows no instance of a service: the former one may have.
fn is_yet_to_report(fleet: &Fleet, service: &ServiceName) -> bool {
    let has_instances = fleet.service(service).is_some_and(|known| !known.is_empty());
    !has_instances && fleet.reconciliation().is_some_and(|by| by.takes_in_a_former_store())
}

/// The highest version that no disregarded instance of a service is below, as far as is known. One that fell silent makes the
/// same claim when it is back.
fn run_by_disregarded(fleet: &Fleet, service: &ServiceName) -> ServiceVersion {
    let was_disregarded = |instance: &Instance| {
        fleet.reconciliation().is_some_and(|by| {
            by.disregarded_claim(service, &instance.node).is_some() && !is_admitted_since(instance, by.at)
        })
    };
    if fleet.service(service).is_some_and(|of| of.silent().each.any(was_disregarded)) {
        return ServiceVersion::ABSENT;
    }
    fleet.disregarded_of(service).map(known_to_run).min().unwrap_or(ServiceVersion::MAX)
}

/// Whether an instance was admitted after this revision: then it obeys the store.
fn is_admitted_since(instance: &Instance, revision: Revision) -> bool {
    instance.inventory.as_ref().is_some_and(|last| last.at > revision)
}

/// The highest version that an instance is known to run at least.
fn known_to_run(instance: &Instance) -> ServiceVersion {
    match instance.known() {
        Known::At(version) => version,
        Known::Silent | Known::Unknown => ServiceVersion::ABSENT,
    }
}

/// The floor of a service as far as it is evidence of what runs. A plan to reconcile sets it also over an instance that it
/// disregards, whether that claims anything or not, and which may run a lower version.
pub(crate) fn proven(fleet: &Fleet, service: &ServiceFleet, window: &Window) -> ServiceVersion {
    set_over(fleet, service, window).map(known_to_run).fold(window.floor, ServiceVersion::min)
}

/// The disregarded instances over which a plan to reconcile has set a window, without those that were admitted since.
pub(crate) fn set_over<'a>(
    fleet: &'a Fleet,
    service: &'a ServiceFleet,
    window: &Window,
) -> impl Iterator<Item = &'a Instance> {
    let by = fleet.reconciliation().filter(|_| window.set_by.as_str() == BY_RECONCILIATION);
    by.into_iter().flat_map(move |by| {
        let named = by.disregarded.get(service.name()).into_iter().flat_map(|nodes| nodes.keys());
        let instances = named.filter_map(move |node| service.get(node));
        instances.filter(move |instance| instance.counts() && !is_admitted_since(instance, by.at))
    })
}

/// Whether every instance is known to be at the version or above it, and there is one.
fn all_at_least(service: &ServiceFleet, version: ServiceVersion) -> bool {
    let spread = service.spread();
    spread.silent == 0 && spread.unknown == 0 && spread.min().is_some_and(|min| min >= version)
}

/// What must hold where a transaction relies on what every instance of a service runs: none was admitted since this fleet was
/// seen, and none reports that did not. A decommissioned one counts again from its first report, under its former admission.
pub(crate) fn none_came(fleet: &Fleet, service: &ServiceName) -> [Precondition; 2] {
    none_came_since(fleet.revision(), service)
}

fn none_came_since(seen: Revision, service: &ServiceName) -> [Precondition; 2] {
    [
        Precondition::NonePutAfterWithin(Kind::Inventory, service.to_string(), seen),
        Precondition::NoneCreatedAfterWithin(Kind::Report, service.to_string(), seen),
    ]
}

/// The same of several services; of more than `most`, of all services at once, because a transaction has a bounded number of
/// compares.
pub(crate) fn none_came_to(seen: Revision, services: &[&ServiceName], most: usize) -> Vec<Precondition> {
    match services.len() > most {
        true => vec![
            Precondition::NonePutAfter(Kind::Inventory, seen),
            Precondition::NoneCreatedAfter(Kind::Report, seen),
        ],
        false => services.iter().flat_map(|service| none_came_since(seen, service)).collect(),
    }
}

/// The lowest floor that releases leave.
fn needed_floor(need: Option<&Need>) -> ServiceVersion {
    need.and_then(Need::highest).map_or(ServiceVersion::ABSENT, |(_, holder)| holder.minimum)
}

fn window_of<'a>(fleet: &'a Fleet, service: &ServiceName) -> Option<&'a Window> {
    fleet.service(service).and_then(ServiceFleet::window).map(|stored| &stored.record.body)
}

/// Adds to a commit that changes what is needed of a service the floor that follows from it.
pub(crate) fn followed(fleet: &Fleet, commit: Commit, service: &ServiceName, need: &Need) -> Commit {
    let Some(body) = wanted(fleet, service, need) else { return commit };
    let key = Key::Window(service.clone());
    let now = fleet.service(service).and_then(ServiceFleet::window);
    let compared = Precondition::At(key.clone(), now.map_or(Revision::ABSENT, |now| now.at));
    let evidence = (!is_only_watched(now.map(|now| &now.record.body))).then(|| none_came(fleet, service));
    let compares = contracted::compared(fleet, Commit::new()).when.into_iter().chain([compared]);
    let compares = compares.chain(evidence.into_iter().flatten());
    let compares = compares.filter(|compared| !commit.when.contains(compared)).collect::<Vec<_>>();
    let commit = compares.into_iter().fold(commit, Commit::when);
    match now {
        Some(now) => commit.put(key, now.record.with(body)),
        None => commit.put(key, body),
    }
}

/// The window that a rollback puts back, but not below what compute releases need: they went out against the floor of the
/// upgrade. Where no upgrade bounds the service any more, the floor follows the needs.
pub(crate) fn put_back(
    fleet: &Fleet,
    service: &ServiceName,
    body: Window,
    floor_now: ServiceVersion,
) -> Window {
    let need = fleet.need(service).map(|stored| &stored.record.body);
    let needed = needed_floor(need).min(floor_now);
    if needed <= body.floor {
        return body;
    }
    let set_by = if is_only_watched(Some(&body)) { by_releases() } else { body.set_by };
    Window { floor: needed, set_by, ..body }
}

/// The floors that do not follow the needs yet: those needs were written before floors followed them, or while an upgrade
/// set the window. Each is a description and the commit that sets the floor.
pub(crate) fn lagging(fleet: &Fleet) -> impl Iterator<Item = (String, Commit)> + '_ {
    fleet.needs().filter_map(move |(service, need)| {
        let body = wanted(fleet, service, need)?;
        let compared = Commit::new().when(Precondition::At(Key::Need(service.clone()), need.at));
        let what = format!("floor of {service} {}", body.floor);
        Some((what, followed(fleet, compared, service, need)))
    })
}
