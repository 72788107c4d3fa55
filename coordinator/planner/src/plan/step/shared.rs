//! The windows of the services that share the schema. One that was never upgraded has none, so an instance of any
//! version may be admitted, and contract could not be certified: it is given one before staging begins.

use super::super::Draft;
use crate::fleet::ServiceFleet;
use crate::preflight::lowest;
use crate::release::need;
use crate::{contracted, upgrade::migrate_floors};
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Kind;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, Revision, ServiceName, ServiceVersion};

/// How many windows one commit sets: each compares a few keys.
const WINDOWS_A_COMMIT: usize = 20;

/// Commits a window for each sharing service that has none: the floor is the lowest version that runs, or the one that
/// contract requires where a person named the service as empty; the ceiling is open. Tells whether it planned any.
pub(super) fn commit_windows(draft: &mut Draft<'_>) -> bool {
    let Some(asked) = draft.spec().schema.as_ref() else { return false };
    let missing = asked.shared_with.iter().filter_map(|(name, needs)| {
        let of = draft.fleet.service(name);
        if migrate_floors::committed(draft.fleet, name).is_some() {
            return None;
        }
        let floor = match of.filter(|of| !of.is_empty()) {
            Some(of) => lowest(of)?,
            None => *needs,
        };
        Some((name, floor))
    });
    let missing: Vec<(&ServiceName, ServiceVersion)> = missing.collect();
    for batch in missing.chunks(WINDOWS_A_COMMIT) {
        let commit = batch.iter().fold(draft.commit(), |commit, (name, floor)| {
            let key = Key::Window((*name).clone());
            let joined =
                Precondition::NonePutAfterWithin(Kind::Inventory, name.to_string(), draft.fleet.revision());
            let (ceiling, contracted) = (ServiceVersion::MAX, contracted::bound(draft.fleet, name));
            let body = Window { floor: *floor, ceiling, set_by: draft.id.clone(), contracted };
            commit.when(Precondition::At(key.clone(), Revision::ABSENT)).when(joined).put(key, body)
        });
        let commit = contracted::compared(draft.fleet, commit);
        let because =
            "a service that shares the schema had no window, so any version of it could be admitted";
        push(draft, commit, batch.iter().map(|(name, _)| *name), "window", because);
    }
    !missing.is_empty()
}

/// After a rollback these windows admit every version again, as before, unless what runs or was contracted meanwhile
/// needs the floor. Tells whether it planned any.
pub(super) fn reopen_windows(draft: &mut Draft<'_>) -> bool {
    let Some(asked) = draft.spec().schema.as_ref() else { return false };
    let opens = |name: &&ServiceName| {
        let window = draft.fleet.service(name).and_then(ServiceFleet::window);
        let ours = window.is_some_and(|window| window.set_by == *draft.id && !window.is_open());
        ours && need::forbids(draft.fleet, name, ServiceVersion::ABSENT).is_none()
            && contracted::forbids(draft.fleet, name, ServiceVersion::ABSENT).is_none()
    };
    let set: Vec<&ServiceName> = asked.shared_with.keys().filter(opens).collect();
    for batch in set.chunks(WINDOWS_A_COMMIT) {
        let commit = batch.iter().fold(draft.commit(), |commit, name| {
            let Some(window) = draft.fleet.service(name).and_then(ServiceFleet::window) else {
                return commit;
            };
            let key = Key::Window((*name).clone());
            let commit = need::same(draft.fleet, commit, name).when(Precondition::At(key.clone(), window.at));
            let contracted = contracted::bound(draft.fleet, name);
            commit.put(key, window.record.with(Window { contracted, ..Window::open(draft.id.clone()) }))
        });
        let commit = contracted::compared(draft.fleet, commit);
        push(draft, commit, batch.iter().copied(), "window opened", "the upgrade was rolled back");
    }
    !set.is_empty()
}

fn push<'a>(
    draft: &mut Draft<'_>,
    commit: Commit,
    names: impl Iterator<Item = &'a ServiceName>,
    what: &str,
    because: &str,
) {
    let names: Vec<String> = names.map(ToString::to_string).collect();
    let what = format!("{what} for {}", names.join(", "));
    let phase = draft.upgrade.phase.name().word();
    draft.push(commit, what.clone(), phase, &what, because);
}
