//! The floor of storage that is only watched: another tool upgrades it, so no upgrade sets a window. Its floor follows
//! the highest need of compute releases, up and down; its ceiling stays open.
//!
//! # Invariants
//! * A transaction that changes the needs of such a service sets its floor as well, and compares its window.
//! * A floor that an upgrade set is raised, and never lowered here.

use crate::action::{Action, PlannedCommit};
use crate::contracted;
use crate::fleet::{Fleet, ServiceFleet};
use crate::gate::{Reason, Sample, VersionGate};
use std::collections::BTreeMap;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::need::{Holder, Need};
use tidegate_proto::record::window::Window;
use tidegate_proto::{
    Key, ReleaseRevision, Revision, ServiceName, ServiceVersion, StreamName, UpgradeId, mutant,
};

/// The value of `set_by` in a window that compute releases set.
fn by_releases() -> UpgradeId {
    "compute-releases".parse().expect("a plain word is a name")
}

/// Whether the window follows what compute releases need.
pub fn follows_needs(window: &Window) -> bool {
    window.ceiling == ServiceVersion::MAX && window.set_by == by_releases()
}

/// Whether no upgrade bounds the service from above: then its floor is no evidence of what runs.
pub fn is_only_watched(window: Option<&Window>) -> bool {
    window.is_none_or(|window| window.is_open() || follows_needs(window))
}

/// The window that the needs ask for; none = it is that already, or an upgrade sets it.
fn wanted(fleet: &Fleet, service: &ServiceName, need: &Need) -> Option<Window> {
    if mutant::is("watched-floor-is-not-set") || fleet.unreadable_at(&Key::Window(service.clone())).is_some()
    {
        return None;
    }
    let needed = need.highest().map_or(ServiceVersion::ABSENT, |(_, holder)| holder.minimum);
    let floor = needed.max(contracted::lowest_floor(fleet, service));
    let contracted = contracted::bound(fleet, service);
    let now = window_of(fleet, service);
    match now {
        Some(now) if now.ceiling != ServiceVersion::MAX => None,
        Some(now) if !is_only_watched(Some(now)) => {
            (now.floor < floor).then(|| Window { floor, ..now.clone() })
        }
        Some(now) if now.floor == floor => None,
        None if floor == ServiceVersion::ABSENT => None,
        _ => Some(Window { floor, ceiling: ServiceVersion::MAX, set_by: by_releases(), contracted }),
    }
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
    let schemas = contracted::compared(fleet, Commit::new()).when;
    let schemas = schemas.into_iter().filter(|compared| !commit.when.contains(compared)).collect::<Vec<_>>();
    let commit = schemas.into_iter().fold(commit, Commit::when);
    let commit = if commit.when.contains(&compared) { commit } else { commit.when(compared) };
    match now {
        Some(now) => commit.put(key, now.record.with(body)),
        None => commit.put(key, body),
    }
}

/// Sets the floors that do not follow the needs yet: those needs were written before floors followed them, or while an
/// upgrade set the window.
pub(crate) fn catch_up(fleet: &Fleet) -> impl Iterator<Item = Action> + '_ {
    fleet.needs().filter_map(move |(service, need)| {
        let body = wanted(fleet, service, need)?;
        let compared = Commit::new().when(Precondition::At(Key::Need(service.clone()), need.at));
        let what = format!("floor of {service} {}", body.floor);
        let commit = followed(fleet, compared, service, need);
        Some(Action::Commit(PlannedCommit { subject: Subject::Fleet, what, commit }))
    })
}

/// Instances of a service that are known to run less than what a release needs: another tool put them back, or computes
/// run what no gate let out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Below {
    /// The service.
    pub service: ServiceName,
    /// Some of the instances, and how many there are.
    pub nodes: Sample,
    /// What is needed.
    pub needs: ServiceVersion,
    /// By which release of the stream.
    pub revision: ReleaseRevision,
}

impl Below {
    /// As a reason.
    pub fn reason(&self) -> Reason {
        Reason::Version(VersionGate::Behind {
            service: self.service.clone(),
            nodes: self.nodes.clone(),
            needs: self.needs,
        })
    }
}

/// What runs less than the releases of a stream need.
pub fn below(fleet: &Fleet, name: &StreamName) -> Vec<Below> {
    let holders = fleet.needs().filter_map(|(service, need)| Some((service, need.streams.get(name)?)));
    holders.filter_map(|(service, holder)| found_below(fleet, service, holder)).collect()
}

fn found_below(fleet: &Fleet, service: &ServiceName, holder: &Holder) -> Option<Below> {
    let nodes = fleet.service(service)?.below(holder.minimum).sample();
    let (needs, revision) = (holder.minimum, holder.revision);
    (!nodes.is_empty()).then(|| Below { service: service.clone(), nodes, needs, revision })
}

/// How many instances of a service run less than any release needs.
pub fn count_below(fleet: &Fleet, service: &ServiceName) -> usize {
    let needed = fleet.need(service).and_then(|need| need.highest());
    let of = needed.and_then(|(_, holder)| Some((fleet.service(service)?, holder.minimum)));
    of.map_or(0, |(of, minimum)| of.below(minimum).count)
}

/// What runs less than a stream begins to need, as its event says it.
pub(crate) fn begun_below(
    fleet: &Fleet,
    name: &StreamName,
    after: &BTreeMap<ServiceName, Holder>,
) -> Vec<String> {
    let rises = |service: &ServiceName, holder: &Holder| {
        let before = fleet.need(service).and_then(|need| need.streams.get(name));
        before.is_none_or(|before| before.minimum < holder.minimum)
    };
    let begun = after.iter().filter(|(service, holder)| rises(service, holder));
    begun
        .filter_map(|(service, holder)| found_below(fleet, service, holder))
        .map(|below| below.reason().to_string())
        .collect()
}

/// What runs less than the releases of a stream need, by release.
pub(crate) fn named(fleet: &Fleet, name: &StreamName) -> BTreeMap<ReleaseRevision, Vec<Reason>> {
    let mut named: BTreeMap<ReleaseRevision, Vec<Reason>> = BTreeMap::new();
    for below in below(fleet, name) {
        named.entry(below.revision).or_default().push(below.reason());
    }
    named
}
