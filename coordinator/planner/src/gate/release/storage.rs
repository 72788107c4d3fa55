//! Whether a release may meet the storage that is there: the floor of each service that it requires, or, where a
//! service is only watched, the lowest version of its instances where none is silent or unknown.
//!
//! # Invariants
//! What was seen is compared in the transaction that relies on it.

use super::ReleaseGate;
use super::evidence::is_proven;
use crate::fleet::{Fleet, Sample, ServiceFleet};
use crate::gate::{Reason, StoreGate, VersionGate, store};
use crate::release::floor::{is_only_watched, none_came, proven};
use std::collections::BTreeMap;
use tidegate_proto::commit::Precondition;
use tidegate_proto::compute::EvidenceRule;
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::record::stream::StreamSettings;
use tidegate_proto::{Key, ServiceName, ServiceVersion, mutant};

/// What must hold in the transaction that lets a release out, into canary or to a pinned compute: storage is new
/// enough, and the two were seen to work together where that is asked; or every reason why not.
pub fn may_meet_storage(
    fleet: &Fleet,
    settings: &StreamSettings,
    release: &ComputeRelease,
) -> Result<Vec<Precondition>, Vec<Reason>> {
    let ready = storage_is_ready(fleet, &release.requires);
    match (ready, has_evidence(fleet, settings, release)) {
        (Ok(ready), Ok(proven)) => Ok(ready.into_iter().chain(proven).collect()),
        (ready, proven) => {
            let mut reasons = ready.err().unwrap_or_default();
            for reason in proven.err().unwrap_or_default() {
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
            Err(reasons)
        }
    }
}

/// What must hold in the transaction that relies on the two having been seen to work together, where that is asked; or what
/// lacks evidence.
pub fn has_evidence(
    fleet: &Fleet,
    settings: &StreamSettings,
    release: &ComputeRelease,
) -> Result<Vec<Precondition>, Vec<Reason>> {
    match settings.evidence.max(release.evidence) {
        EvidenceRule::None => Ok(Vec::new()),
        EvidenceRule::Required => is_proven(fleet, &release.tag, &release.requires),
    }
}

/// What must hold in the transaction that relies on the storage being new enough; or every reason why it is not.
pub fn storage_is_ready(
    fleet: &Fleet,
    requires: &BTreeMap<ServiceName, ServiceVersion>,
) -> Result<Vec<Precondition>, Vec<Reason>> {
    if mutant::is("storage-floor-is-not-asked") {
        return Ok(Vec::new());
    }
    let (mut compares, mut reasons) = (Vec::new(), Vec::new());
    for (service, minimum) in requires {
        match ready(fleet, service, *minimum) {
            Ok(compared) => compares.extend(compared),
            Err(found) => reasons.extend(found),
        }
    }
    if reasons.is_empty() { Ok(compares) } else { Err(reasons) }
}

fn ready(
    fleet: &Fleet,
    name: &ServiceName,
    minimum: ServiceVersion,
) -> Result<Vec<Precondition>, Vec<Reason>> {
    let key = Key::Window(name.clone());
    if let Some(why) = fleet.unreadable_at(&key) {
        return Err(vec![Reason::Store(StoreGate::Unreadable {
            key: key.to_string(),
            why: why.to_string(),
        })]);
    }
    let Some(service) = fleet.service(name) else {
        return Err(vec![Reason::Version(VersionGate::NoInstances { service: name.clone() })]);
    };
    let same_window = Precondition::At(key, service.window_at());
    let Some(window) = service.window().filter(|window| !is_only_watched(Some(&window.record.body))) else {
        return all_at_least(fleet, service, minimum)
            .map(|()| [same_window].into_iter().chain(none_came(fleet, name)).collect());
    };
    if window.floor >= minimum {
        return match proven(fleet, service, window) >= minimum {
            true => Ok(vec![same_window]),
            // It names the disregarded instance that may run a lower version.
            false => all_at_least(fleet, service, minimum).map(|()| vec![same_window]),
        };
    }
    let behind = all_at_least(fleet, service, minimum).err().unwrap_or_default();
    let floor = ReleaseGate::Floor {
        service: name.clone(),
        floor: window.floor,
        needs: minimum,
        by_hand: raised_by_hand(fleet, service, minimum),
    };
    Err([Reason::Release(floor)].into_iter().chain(behind).collect())
}

/// The ceiling of the window in which a person raises the floor of a service to this version; none where an upgrade raises it,
/// or where that would be refused.
pub(crate) fn raised_by_hand(
    fleet: &Fleet,
    service: &ServiceFleet,
    to: ServiceVersion,
) -> Option<ServiceVersion> {
    let window = service.window().filter(|window| !is_only_watched(Some(&window.record.body)))?;
    let is_possible = to <= window.ceiling
        && !is_upgraded(fleet, service.name())
        && all_at_least(fleet, service, to).is_ok();
    is_possible.then_some(window.ceiling)
}

/// Whether an upgrade of a service is active: no person sets its window meanwhile.
fn is_upgraded(fleet: &Fleet, name: &ServiceName) -> bool {
    fleet.lock(name).is_some() || fleet.unreadable_at(&Key::Active(name.clone())).is_some()
}

/// Whether every instance is known to be at the version or above it, and there is one.
fn all_at_least(fleet: &Fleet, service: &ServiceFleet, minimum: ServiceVersion) -> Result<(), Vec<Reason>> {
    let name = || service.name().clone();
    let contradict = fleet.contradicting(service.name());
    let mut reasons: Vec<Reason> = store::claims_of_one_node(fleet, service.name()).collect();
    let mut any = |nodes: Sample, reason: &dyn Fn(Sample) -> Reason| {
        if !nodes.is_empty() {
            reasons.push(reason(nodes));
        }
    };
    any(service.below(minimum).sample(), &|nodes| {
        Reason::Version(VersionGate::Behind { service: name(), nodes, needs: minimum })
    });
    let silent = service.silent().sample_but(|node| contradict.contains(node), contradict.len());
    any(silent, &|nodes| Reason::Version(VersionGate::Silent { service: name(), nodes }));
    any(service.unknown().sample(), &|nodes| {
        Reason::Version(VersionGate::VersionUnknown { service: name(), nodes })
    });
    reasons.extend(store::unknown_and_disregarded(fleet, service.name()));
    if service.is_empty() {
        reasons.push(Reason::Version(VersionGate::NoInstances { service: name() }));
    }
    if reasons.is_empty() { Ok(()) } else { Err(reasons) }
}
