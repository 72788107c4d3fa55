//! Set the window of a service by hand: which versions may be admitted. An upgrade sets it by itself; a person does so
//! where none will, as after a store was reconciled.

use super::{Asker, Refusal, demand_why, reconciled, with_event};
use crate::contracted;
use crate::fleet::{Fleet, Instance, ServiceFleet};
use crate::gate::release::needed;
use crate::gate::store;
use crate::moment::Moment;
use crate::release::floor::none_came;
use crate::release::need;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::{Kind, Subject};
use tidegate_proto::record::window::{BY_OPERATOR, Window};
use tidegate_proto::{InstanceId, Key, ServiceName, ServiceVersion, UpgradeId, mutant};

/// A window that a person asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRequest {
    /// Of this service.
    pub service: ServiceName,
    /// The lowest version that may be admitted.
    pub floor: ServiceVersion,
    /// The highest.
    pub ceiling: ServiceVersion,
}

/// What a window is set by where a person set it.
fn operator() -> UpgradeId {
    BY_OPERATOR.parse().expect("a plain word is a name")
}

/// Sets a window.
///
/// # Errors
/// Refused without a reason; while an upgrade of the service is active or paused; while one of a schema that it shares is,
/// unless the window becomes narrower; while the store is contradicted; below what a schema of the service has contracted, or
/// what a compute release needs; and where an instance would be outside. A silent instance counts at its last admission.
pub fn set_window(
    fleet: &Fleet,
    moment: &Moment,
    asked: &WindowRequest,
    asker: &Asker,
) -> Result<Commit, Refusal> {
    demand_why(asker, "setting a window")?;
    let WindowRequest { service: name, floor, ceiling } = asked;
    if floor > ceiling {
        return Err(Refusal::invalid(format!("the floor {floor} is above the ceiling {ceiling}")));
    }
    let Some(service) = fleet.service(name) else {
        return Err(Refusal::not_found(format!(
            "there is no service {name}: `tidegate fleet spread` shows those there are"
        )));
    };
    reconciled(fleet, moment)?;
    let refused = |why: String| -> Result<Commit, Refusal> {
        Err(Refusal::state(format!("cannot set the window of {name} to [{floor}, {ceiling}]: {why}")))
    };
    if let Some(claim) = store::claims_of_one_node(fleet, name).next() {
        return refused(format!("{claim}. See `tidegate fleet reconcile`"));
    }
    let key = Key::Window(name.clone());
    if let Some(why) = fleet.unreadable_at(&key) {
        return refused(format!("the record {key} {why}"));
    }
    if let Some(why) = upgraded(fleet, service, asked) {
        return refused(why);
    }
    if let Some(forbidden) = contracted::forbids(fleet, name, *floor) {
        return refused(forbidden.to_string());
    }
    if let Some(why) = outside(fleet, service, asked) {
        return refused(why);
    }
    let now = service.window();
    if now.is_some_and(|now| now.floor == *floor && now.ceiling == *ceiling) {
        return refused("it is that already".to_owned());
    }
    let lowers = now.is_some_and(|now| *floor < now.floor);
    if lowers && let Some(needed) = needed::forbids(fleet, name, *floor) {
        return refused(format!("{needed}. Withdraw that first"));
    }
    let was = now.map_or_else(|| "any version".to_owned(), |now| now.record.body.to_string());
    let body = Window {
        floor: *floor,
        ceiling: *ceiling,
        set_by: operator(),
        contracted: contracted::bound(fleet, name),
    };
    let to = format!("{name}: window {body} instead of {was}");
    let commit = with_event(moment, Subject::Fleet, asker, &format!("{name}: {was}"), &to)
        .when(Precondition::At(key.clone(), service.window_at()))
        .when(Precondition::At(Key::Active(name.clone()), tidegate_proto::Revision::ABSENT))
        .when(Precondition::NonePutAfter(Kind::ActiveSchema, fleet.revision()));
    let commit = none_came(fleet, name).into_iter().fold(commit, Commit::when);
    let commit = contracted::compared(fleet, commit);
    let commit = if lowers { need::same(fleet, commit, name) } else { commit };
    Ok(match now {
        Some(now) => commit.put(key, now.record.with(body)),
        None => commit.put(key, body),
    })
}

/// Which upgrade sets the window, or works on a schema of the service. The second may wait for a floor that no upgrade raises
/// any more, or that of the service raises, which starts under a window of one version: it is narrowed meanwhile.
fn upgraded(fleet: &Fleet, service: &ServiceFleet, asked: &WindowRequest) -> Option<String> {
    let name = service.name();
    if let Some((id, _)) = fleet.lock(name) {
        return Some(format!("upgrade {id} of it is active or paused, and sets the window itself"));
    }
    let key = Key::Active(name.clone());
    if let Some(why) = fleet.unreadable_at(&key) {
        return Some(format!("the record {key} {why}"));
    }
    let narrows = |now: &Window| now.floor <= asked.floor && asked.ceiling <= now.ceiling;
    if service.window().is_some_and(|now| narrows(&now.record.body)) {
        return None;
    }
    fleet.active_upgrades().find_map(|(id, upgrade)| {
        let named = upgrade.spec.schema.as_ref().is_some_and(|schema| schema.shared_with.contains_key(name));
        let bound = upgrade.schema.as_ref().and_then(|binding| fleet.schema(&binding.id));
        let shares = bound.is_some_and(|schema| schema.services.contains_key(name));
        (named || shares).then(|| {
            format!("upgrade {id} changes a schema that it shares: it can only be narrowed meanwhile")
        })
    })
}

/// The first instance that would be outside, and how many more.
fn outside(fleet: &Fleet, service: &ServiceFleet, asked: &WindowRequest) -> Option<String> {
    if mutant::is("window-is-set-over-instances") {
        return None;
    }
    let mut found = service.instances().filter_map(|instance| {
        let id = InstanceId::new(service.name().clone(), instance.node.clone());
        flaw(fleet, &id, instance, asked).map(|why| format!("{id} {why}"))
    });
    let first = found.next()?;
    Some(match found.count() {
        0 => first,
        more => format!("{first}; and {more} more instances would be outside"),
    })
}

fn flaw(fleet: &Fleet, id: &InstanceId, instance: &Instance, asked: &WindowRequest) -> Option<String> {
    if let Some((key, why)) = fleet.unreadable_of(id).next() {
        return Some(format!(
            "runs an unknown version, because the record {key} {why}: restore its previous value"
        ));
    }
    let inside = |version: &ServiceVersion| asked.floor <= *version && *version <= asked.ceiling;
    let Some(version) = instance.last_seen() else {
        return Some("runs an unknown version".to_owned());
    };
    let silent = if instance.report.is_none() { ", as far as is known: it is silent" } else { "" };
    (!inside(&version)).then(|| format!("runs version {version}{silent}"))
}
