//! The windows of the services that share the schema. One that was never upgraded has none, so an instance of any
//! version may be admitted, and contract could not be certified: it is given one before the schema is changed.

use super::super::Draft;
use crate::action::SchemaJob;
use crate::contracted;
use crate::fleet::{Fleet, Instance, ServiceFleet};
use crate::gate::Reason;
use crate::gate::schema::{form, migrate_floors};
use crate::gate::{store, version};
use crate::release::floor::{self, is_only_watched, none_came};
use crate::release::need;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::upgrade::{PhaseName, Upgrade};
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, Revision, ServiceName, ServiceVersion, mutant};

/// How many windows one commit sets: each compares a few keys.
const WINDOWS_A_COMMIT: usize = 20;

/// Gives each sharing service a window that has none, or one that admits every version; one that this upgrade gave
/// follows what runs. The floor is the lowest version that runs, up to what this upgrade requires, or that where an
/// operator named the service as empty: a version above it may be one that a probe answered by mistake, and the floor
/// stays. The ceiling is open. Waits for services whose versions are not known, or whose window cannot be read.
/// Returns whether all have a window and nothing was planned.
pub(super) fn commit_windows(draft: &mut Draft<'_>) -> bool {
    let Some(asked) = draft.spec().schema.as_ref() else { return true };
    if mutant::is("sharing-services-get-no-window") {
        return true;
    }
    let mut floors = Vec::new();
    let mut known = true;
    for (name, needs) in &asked.shared_with {
        let key = Key::Window(name.clone());
        if let Some(why) = draft.fleet.unreadable_at(&key) {
            draft.wait(store::unreadable(&key, why));
            known = false;
            continue;
        }
        let of = draft.fleet.service(name).filter(|of| !of.is_empty());
        let window = draft.fleet.service(name).and_then(ServiceFleet::window);
        let ours = window.is_some_and(|window| window.set_by == *draft.id && window.floor < *needs);
        let is_open = is_only_watched(window.map(|window| &window.record.body));
        if !is_open && !ours {
            continue;
        }
        let most = required(draft, name, *needs);
        match of.map_or(Some(*needs), ServiceFleet::lowest).map(|runs| runs.min(most)) {
            Some(floor) if window.is_none_or(|window| window.floor < floor) => floors.push((name, floor)),
            Some(_) => {}
            None if is_open => {
                known = false;
                if let Some(of) = of {
                    draft.passes(version::known(of));
                    draft.passes(store::disregarded(draft.fleet, name));
                }
            }
            None => {}
        }
    }
    for batch in floors.chunks(WINDOWS_A_COMMIT) {
        let commit =
            batch.iter().fold(draft.commit(), |commit, (name, floor)| give(draft, commit, name, *floor));
        let commit = contracted::compared(draft.fleet, commit);
        let because =
            "the service shares the schema, and its window admitted versions that contract does not bear";
        push(draft, commit, batch.iter().map(|(name, _)| *name), "window", because);
    }
    known && floors.is_empty()
}

/// What entering migrate compares and writes, once every floor that it requires is committed; waits otherwise. `own` is
/// the floor of the upgraded service once the same transaction is done, where that raises it.
pub(super) fn floors_reached(draft: &mut Draft<'_>, own: Option<ServiceVersion>) -> Option<Commit> {
    commit_windows(draft);
    match migrate_floors::reached(&draft.view(), own) {
        Ok(entered) => Some(entered),
        Err(missing) => {
            draft.passes(missing);
            None
        }
    }
}

/// The highest floor that the service has to have for this upgrade: for contract and for migrate; and what other schemas
/// that it uses have contracted.
fn required(draft: &Draft<'_>, name: &ServiceName, needs: ServiceVersion) -> ServiceVersion {
    let binding = draft.upgrade.schema.as_ref();
    let for_migrate =
        binding.and_then(|binding| migrate_floors::required(draft.spec(), binding).remove(name));
    needs.max(for_migrate.unwrap_or(needs)).max(contracted::lowest_floor(draft.fleet, name))
}

/// Adds to a commit that the service has a window from this floor on, unless an instance of it came meanwhile.
fn give(draft: &Draft<'_>, commit: Commit, name: &ServiceName, floor: ServiceVersion) -> Commit {
    let key = Key::Window(name.clone());
    let (ceiling, contracted) = (ServiceVersion::MAX, contracted::bound(draft.fleet, name));
    let body = Window { floor, ceiling, set_by: draft.id.clone(), contracted };
    let now = draft.fleet.service(name).and_then(ServiceFleet::window);
    let at = now.map_or(Revision::ABSENT, |now| now.at);
    let commit = commit.when(Precondition::At(key.clone(), at));
    let commit = none_came(draft.fleet, name).into_iter().fold(commit, Commit::when);
    match now {
        Some(now) => commit.put(key, now.record.with(body)),
        None => commit.put(key, body),
    }
}

/// After a rollback these windows admit every version again that compute releases leave, as before, unless what was
/// contracted meanwhile needs the floor. Waits for records that cannot be read and say whether they do: no later turn opens
/// the windows. Returns whether all are open and nothing was planned.
pub(super) fn windows_reopened(draft: &mut Draft<'_>) -> bool {
    let Some(asked) = draft.spec().schema.as_ref() else { return true };
    let unread: Vec<Reason> = asked.shared_with.keys().flat_map(|name| unreadable_for(draft, name)).collect();
    let all_read = unread.is_empty();
    unread.into_iter().for_each(|reason| draft.wait(reason));
    let set: Vec<&ServiceName> =
        asked.shared_with.keys().filter(|name| is_to_be_opened(draft, name)).collect();
    for batch in set.chunks(WINDOWS_A_COMMIT) {
        let commit = batch.iter().fold(draft.commit(), |commit, name| {
            let Some(window) = draft.fleet.service(name).and_then(ServiceFleet::window) else {
                return commit;
            };
            let key = Key::Window((*name).clone());
            let commit = need::same(draft.fleet, commit, name).when(Precondition::At(key.clone(), window.at));
            commit.put(key, window.record.with(opened(draft, name, window)))
        });
        let commit = contracted::compared(draft.fleet, commit);
        push(draft, commit, batch.iter().copied(), "window opened", "the upgrade was rolled back");
    }
    all_read && set.is_empty()
}

/// Whether this upgrade gave a sharing service its window, which is not open.
fn has_ours(draft: &Draft<'_>, name: &ServiceName) -> bool {
    let window = draft.fleet.service(name).and_then(ServiceFleet::window);
    window.is_some_and(|window| window.set_by == *draft.id && !window.is_open())
}

/// The records that cannot be read and may say whether the window of a sharing service is to be opened: the window itself;
/// and where this upgrade gave it, what compute releases and contracted schemas need.
fn unreadable_for(draft: &Draft<'_>, name: &ServiceName) -> Vec<Reason> {
    let ours = has_ours(draft, name);
    let is_asked = |key: &Key| match key {
        Key::Window(of) => of == name,
        Key::Need(of) => ours && of == name,
        Key::Schema(_) => ours,
        _ => false,
    };
    let found = draft.fleet.unreadable().filter(|(key, ..)| is_asked(key));
    found.map(|(key, why, _)| store::unreadable(key, why)).collect()
}

/// Whether this upgrade gave a sharing service its window, and its rollback is to open that again.
fn is_to_be_opened(draft: &Draft<'_>, name: &ServiceName) -> bool {
    has_ours(draft, name)
        && draft.fleet.unreadable_at(&Key::Need(name.clone())).is_none()
        && contracted::forbids(draft.fleet, name, ServiceVersion::ABSENT).is_none()
}

/// That window, opened.
fn opened(draft: &Draft<'_>, name: &ServiceName, now: &Window) -> Window {
    let contracted = contracted::bound(draft.fleet, name);
    let open = Window { contracted, ..Window::open(draft.id.clone()) };
    floor::put_back(draft.fleet, name, open, now.floor)
}

/// The lowest version that the window of a sharing service admits after the rollback; none = every version.
fn floor_left(draft: &Draft<'_>, name: &ServiceName) -> Option<ServiceVersion> {
    let window = draft.fleet.service(name).and_then(ServiceFleet::window)?;
    let floor = match is_to_be_opened(draft, name) {
        true => opened(draft, name, window).floor,
        false => window.floor,
    };
    (floor > ServiceVersion::ABSENT).then_some(floor)
}

/// A sharing service that is at the version that may meet the contracted form, or is upgraded to it, or has an instance that
/// may run no lower one: its programs use what expand made. Of an instance that is silent its last admission counts: it needs
/// another one to run a higher version. One that a person put back below the floor of its window does not stay there: what
/// it is admitted with next uses the form. One that is being rolled back from that version stops using it.
pub(super) fn uses_new_form<'a>(draft: &Draft<'a>) -> Option<(&'a ServiceName, ServiceVersion)> {
    let upgrade = draft.upgrade;
    let others = upgrade.spec.schema.iter().flat_map(|asked| &asked.shared_with);
    let found = others.map(|(name, needs)| (name, *needs)).find(|(name, needs)| {
        let instances = draft.fleet.service(name).into_iter().flat_map(ServiceFleet::instances);
        let seen: Vec<ServiceVersion> = instances.filter_map(Instance::last_seen).collect();
        let returns = !seen.is_empty() && floor_left(draft, name).is_some_and(|floor| floor >= *needs);
        let stays = returns || seen.iter().any(|version| version >= needs);
        match draft.fleet.active_upgrade(name) {
            Some((_, other)) if form::is_leaving(other, upgrade) => false,
            Some((_, other)) => stays || goes_to(other).is_some_and(|version| version >= *needs),
            None => stays,
        }
    });
    found.filter(|_| !mutant::is("sharing-services-lose-the-new-form"))
}

/// The condition that the window of a service has not changed meanwhile: it may be all that keeps what expand made.
pub(super) fn same_window(fleet: &Fleet, service: &ServiceName) -> Commit {
    let at = fleet.service(service).map_or(Revision::ABSENT, ServiceFleet::window_at);
    Commit::new().when(Precondition::At(Key::Window(service.clone()), at))
}

/// The version to which an upgrade moves instances now: in preflight to none.
fn goes_to(upgrade: &Upgrade) -> Option<ServiceVersion> {
    match upgrade.phase.name() {
        PhaseName::Preflight => None,
        PhaseName::RollingBack => Some(upgrade.spec.from),
        _ => Some(upgrade.spec.to),
    }
}

/// Whether the new version uses a form that another upgrade makes, and that is missing or about to be; waits then.
pub(super) fn lacks_form(draft: &mut Draft<'_>) -> bool {
    let Some(missing) = form::missing(&draft.view()) else { return false };
    draft.wait(missing);
    true
}

/// Whether the databases that hold this form were seen; waits otherwise. The upgrades that have made it look at them.
pub(super) fn sees_form(draft: &mut Draft<'_>) -> bool {
    draft.passes(form::makers_are_seen(&draft.view(), SchemaJob::Look.word()))
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
