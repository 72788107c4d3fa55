//! What storage must not fall below: the highest need of every release in canary, deployed, pinned or still run.
//! A change of a stream rewrites the stream's part of it; a lowering of a floor compares it.

use super::floor;
use crate::fleet::Fleet;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::need::{Hold, Holder, Need};
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::record::stream::Stream;
use tidegate_proto::{Key, Revision, ServiceName, StreamName, mutant};

/// What a stream needs of each service, and for which of its releases.
pub fn of_stream(stream: &Stream) -> BTreeMap<ServiceName, Holder> {
    let mut needs = BTreeMap::new();
    if let Some(head) = &stream.deployed {
        hold(&mut needs, &head.release, Hold::Deployed);
    }
    if let Some(head) = &stream.canary {
        hold(&mut needs, &head.release, Hold::Canary);
    }
    let pinned: BTreeSet<_> = stream.pins.values().map(|pin| pin.revision).collect();
    for head in pinned.into_iter().filter_map(|revision| stream.head(revision)) {
        hold(&mut needs, &head.release, Hold::Pinned);
    }
    for (tag, running) in stream.running.iter().filter(|(_, running)| running.count > 0) {
        let (Some(revision), Some(version)) = (running.revision, running.version) else { continue };
        for (service, minimum) in &running.requires {
            let holder =
                Holder { minimum: *minimum, revision, tag: tag.clone(), version, hold: Hold::Running };
            raise(&mut needs, service, holder);
        }
    }
    needs
}

fn hold(needs: &mut BTreeMap<ServiceName, Holder>, release: &ComputeRelease, hold: Hold) {
    for (service, minimum) in &release.requires {
        let holder = Holder {
            minimum: *minimum,
            revision: release.revision,
            tag: release.tag.clone(),
            version: release.version,
            hold,
        };
        raise(needs, service, holder);
    }
}

/// The first of equals stays: what is deployed is named before what merely runs.
fn raise(needs: &mut BTreeMap<ServiceName, Holder>, service: &ServiceName, holder: Holder) {
    match needs.get(service) {
        Some(have) if have.minimum >= holder.minimum => {}
        _ => drop(needs.insert(service.clone(), holder)),
    }
}

/// Adds to a commit that changes a stream what changes in the needs, each compared.
pub(crate) fn rewritten(fleet: &Fleet, mut commit: Commit, name: &StreamName, after: &Stream) -> Commit {
    if mutant::is("needs-are-not-written") {
        return commit;
    }
    let mut wanted = of_stream(after);
    let held = fleet.needs().filter(|(_, need)| need.streams.contains_key(name));
    let services: BTreeSet<ServiceName> =
        held.map(|(service, _)| service.clone()).chain(wanted.keys().cloned()).collect();
    for service in services {
        let (stored, wanted) = (fleet.need(&service), wanted.remove(&service));
        if stored.and_then(|need| need.streams.get(name)) == wanted.as_ref() {
            continue;
        }
        let mut body = stored.map_or_else(Need::default, |need| need.record.body.clone());
        match wanted {
            Some(holder) => drop(body.streams.insert(name.clone(), holder)),
            None => drop(body.streams.remove(name)),
        }
        commit = floor::followed(fleet, commit, &service, &body);
        let key = Key::Need(service);
        commit = commit.when(Precondition::At(key.clone(), stored.map_or(Revision::ABSENT, |need| need.at)));
        commit = match stored {
            Some(need) => commit.put(key, need.record.with(body)),
            None => commit.put(key, body),
        };
    }
    commit
}

/// Adds the condition that the need has not changed meanwhile to a commit that lowers a floor.
pub(crate) fn same(fleet: &Fleet, commit: Commit, service: &ServiceName) -> Commit {
    if mutant::is("need-is-not-compared") {
        return commit;
    }
    let at = fleet.need(service).map_or(Revision::ABSENT, |need| need.at);
    commit.when(Precondition::At(Key::Need(service.clone()), at))
}
