//! The next step of one upgrade, by phase.

mod bind;
mod contract;
mod enter;
mod failures;
mod faults;
pub(crate) mod metadata;
pub(crate) mod outside;
mod preflight;
mod reconciled;
pub(super) mod release;
mod remove;
mod retreat;
pub(super) mod returned;
mod roll;
mod schema;
mod shared;
mod stage;
mod stragglers;
mod walk;

use super::Draft;
use crate::fleet::{Instance, Standing};
use crate::reason::{Causes, PersonGate, Reason, RollGate, Sample, StoreGate, VersionGate};
use crate::upgrade::way_back;
pub(super) use retreat::turn_back;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Kind;
use tidegate_proto::record::upgrade::{Pause, Phase, Retreat};
use tidegate_proto::{Key, mutant};

/// Decides the next step.
pub(super) fn step(draft: &mut Draft<'_>) {
    if unreadable(draft) {
        return;
    }
    let heeded = |pause: &&Pause| pause.who == "coordinator" || !mutant::is("persons-pause-is-not-heeded");
    if let Some(pause) = draft.upgrade.paused.as_ref().filter(heeded) {
        let (who, why) = (pause.who.clone(), pause.why.clone());
        let way_back = way_back(draft.fleet, draft.upgrade, &why).is_ok();
        draft.wait(Reason::Person(PersonGate::Paused { who, why, way_back }));
        return failures::tell_open(draft);
    }
    if reconciled::restate(draft) {
        return;
    }
    let exposes = match draft.upgrade.phase {
        Phase::Roll { .. } | Phase::Remove | Phase::Contract { .. } => true,
        Phase::Migrate => draft.upgrade.waves.is_some(),
        _ => false,
    };
    if exposes && faults::watch(draft) {
        return;
    }
    match draft.upgrade.phase.clone() {
        Phase::Preflight => preflight::preflight(draft),
        Phase::Stage => stage::stage(draft),
        Phase::Expand => schema::expand(draft),
        Phase::Migrate => schema::migrate(draft),
        Phase::Roll { wave } => roll::roll(draft, wave),
        Phase::Remove => remove::remove(draft),
        Phase::Contract { certificate } => contract::contract(draft, certificate),
        Phase::RollingBack { retreat: Retreat::Restage, .. } => retreat::restage(draft),
        Phase::RollingBack { retreat: Retreat::Walk, .. } => retreat::walk(draft),
        Phase::RollingBack { retreat: Retreat::Lower, .. } => retreat::lower(draft),
        Phase::RollingBack { retreat: Retreat::Undo, .. } => retreat::undo(draft),
        Phase::Completed | Phase::RolledBack { .. } | Phase::Failed { .. } => return,
    }
    let keeps_no_count = matches!(
        draft.upgrade.phase,
        Phase::Preflight
            | Phase::Stage
            | Phase::Remove
            | Phase::RollingBack { retreat: Retreat::Restage | Retreat::Lower, .. }
    );
    if keeps_no_count {
        // The next leader goes on from here; nothing of it is a stall.
        draft.checkpoint(0, false);
    }
}

/// A record that authorises steps and cannot be read stops them; one of an instance closes that instance's gates.
fn unreadable(draft: &mut Draft<'_>) -> bool {
    let service = draft.spec().service.clone();
    let mut stops = false;
    let unreadable: Vec<_> =
        draft.fleet.unreadable().map(|(key, why, _)| (key.clone(), why.to_string())).collect();
    let mut named = 0;
    for (key, why) in unreadable {
        let ours = match &key {
            Key::Report(s, _) | Key::Inventory(s, _) | Key::Directive(s, _) | Key::Decommission(s, _) => {
                *s == service
            }
            Key::Window(s) | Key::Active(s) | Key::Budget(s) => {
                stops |= *s == service;
                *s == service
            }
            Key::Waves(id, _) | Key::Exception(id, _) => {
                stops |= id == draft.id;
                id == draft.id
            }
            Key::Schema(id) => {
                let bound = draft.upgrade.schema.as_ref().is_some_and(|schema| schema.id == *id);
                stops |= bound;
                bound
            }
            Key::Maintenance(_) => {
                stops = true;
                true
            }
            _ => false,
        };
        named += usize::from(ours);
        if ours && named <= 20 {
            draft.wait(Reason::Store(StoreGate::Unreadable { key: key.to_string(), why }));
        }
    }
    stops
}

/// Waits until every instance has acknowledged the window; tells whether it waits.
fn acknowledged(draft: &mut Draft<'_>) -> bool {
    let Some(service) = draft.service() else { return false };
    let (name, window) = (service.name().clone(), service.window_at());
    let nodes = service.unacknowledged().sample();
    !draft.wait_for_any(nodes, |nodes| {
        Reason::Version(VersionGate::Unacknowledged { service: name, nodes, window })
    })
}

/// Waits until every instance is known to be at the version; tells whether all are.
fn all_at(draft: &mut Draft<'_>, version: tidegate_proto::ServiceVersion) -> bool {
    let Some(service) = draft.service() else { return false };
    let name = || service.name().clone();
    let silent = service.silent().sample();
    let mut waits = draft
        .wait_for_any(silent, |nodes| Reason::Version(VersionGate::Silent { service: name(), nodes }))
        && !mutant::is("silent-instance-is-passed-over");
    waits |= draft.wait_for_any(service.unknown().sample(), |nodes| {
        Reason::Version(VersionGate::VersionUnknown { service: name(), nodes })
    });
    waits |= draft.wait_for_any(service.below(version).sample(), |nodes| {
        Reason::Version(VersionGate::Behind { service: name(), nodes, needs: version })
    });
    waits |= draft.wait_for_any(service.above(version).sample(), |nodes| {
        Reason::Version(VersionGate::Ahead { service: name(), nodes, allowed: version })
    });
    if service.is_empty() {
        draft.wait(Reason::Version(VersionGate::NoInstances { service: name() }));
        waits = true;
    }
    failures::tell_excused(draft, |node| failures::is_elsewhere(service, node, version));
    !waits
}

/// Waits until every instance was seen serving the target; tells whether all were. Those that serve another version
/// are named by `all_at`.
fn all_serving(draft: &mut Draft<'_>) -> bool {
    let Some(service) = draft.service() else { return false };
    let all = |standing| service.standing(standing, u32::MAX);
    let (kept_out, moved): (Vec<_>, Vec<_>) = service.ordered().each.partition(|i| i.is_kept_out());
    let names = |of: Vec<&'_ Instance>| Sample::counted(of.into_iter().map(|i| &i.node));
    let mut waits = all(Standing::Ready).count > 0;
    for nodes in [all(Standing::Kept).sample(), all(Standing::Held).sample(), names(kept_out)] {
        waits |= draft.wait_for_any(nodes, |nodes| Reason::Roll(RollGate::Maintenance { nodes }));
    }
    for standing in [Standing::Silent, Standing::Unhealthy, Standing::Adrift] {
        waits |= draft.wait_for_unfit(Causes::of(all(standing)));
    }
    waits |= draft.wait_for_unfit(Causes::counted(moved.into_iter()));
    !waits || mutant::is("completed-is-not-seen")
}

/// Plans a window of the upgrade's service, unless an instance joins meanwhile.
fn set_window(
    draft: &mut Draft<'_>,
    floor: tidegate_proto::ServiceVersion,
    ceiling: tidegate_proto::ServiceVersion,
    because: &str,
) {
    let commit = nobody_joined(draft, draft.window(draft.commit(), floor, ceiling));
    let what = format!("window for {}", draft.spec().service);
    let phase = draft.upgrade.phase.name().word();
    draft.push(commit, what.clone(), phase, &what, because);
}

/// Adds to a commit that nobody was admitted since this fleet was seen.
fn nobody_joined(draft: &Draft<'_>, commit: Commit) -> Commit {
    let service = draft.spec().service.to_string();
    commit.when(Precondition::NonePutAfterWithin(Kind::Inventory, service, draft.fleet.revision()))
}

/// Tells every instance whose directive does not say so yet which releases should be present.
fn direct(draft: &mut Draft<'_>, releases: &[tidegate_proto::Release], because: &str) {
    let Some(service) = draft.service() else { return };
    // What contradicts the store may obey an order a second time.
    let instances = service.misdirected().each.filter(|instance| !instance.contradicts);
    let orders: Vec<_> = instances.take(super::draft::BATCH * 20).map(super::order::Order::restate).collect();
    draft.order(&orders, releases, "releases for", because);
}
