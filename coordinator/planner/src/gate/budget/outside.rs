//! Instances in rotation at a version outside the window, and those that were drained because of that.

use super::BudgetGate;
use crate::fleet::{Causes, Exposure, Fleet, Instance, ServiceFleet, Stored};
use crate::gate::Reason;
use tidegate_proto::Key;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Rotation, Step};
use tidegate_proto::record::upgrade::{Phase, Upgrade};
use tidegate_proto::spec::Spec;

/// Why instances of a service are drained, or stay in or out, without a wave of an upgrade.
pub fn reason(fleet: &Fleet, service: &ServiceFleet) -> Option<Reason> {
    let window = service.window()?;
    // What serves below a floor that follows needs is not drained: the releases that need more name it.
    let is_drained = !window.follows_needs();
    let is_concerned = |i: &&Instance| is_drained && is_left_in_rotation(i) || is_to_drain(i);
    let mut concerned = service.out().each.filter(is_concerned).peekable();
    concerned.peek()?;
    if !is_without_orders(fleet, service) {
        return None;
    }
    let (name, window) = (service.name().clone(), window.record.body.to_string());
    let nodes = Causes::counted(concerned);
    let gate = match is_capacity_unknown(fleet, service) {
        true => BudgetGate::CapacityUnknown { service: name, window, nodes },
        false => BudgetGate::Outside { service: name, window, nodes },
    };
    Some(Reason::Budget(gate))
}

/// The spec whose capacity holds while no upgrade moves instances: of the active upgrade, of the one that set the window,
/// or of the last one.
pub(crate) fn binding_spec<'a>(fleet: &'a Fleet, service: &ServiceFleet) -> Option<&'a Spec> {
    let of_service = |stored: &&Stored<Upgrade>| stored.spec.service == *service.name();
    let active = fleet.lock(service.name()).and_then(|(id, _)| fleet.upgrade(id));
    let setter = service.window().and_then(|window| fleet.upgrade(&window.set_by));
    let last = || {
        fleet
            .upgrades()
            .map(|(_, stored)| stored)
            .filter(of_service)
            .max_by_key(|stored| stored.record.body.at)
    };
    let stored = active.or(setter).filter(of_service).or_else(last);
    stored.map(|stored| &*stored.record.body.spec)
}

/// Whether there is no such spec, and the store was reconciled with a former one and may have lost it: with instances that
/// have not reported since, so that no default says how many must stay.
pub(crate) fn is_capacity_unknown(fleet: &Fleet, service: &ServiceFleet) -> bool {
    let lost = fleet.reconciliation().is_some_and(|word| word.takes_in_a_former_store());
    lost && binding_spec(fleet, service).is_none()
}

/// Seen in rotation with a version that the window does not admit, also where it counts as out by an order or a cordon.
pub(crate) fn is_refused_in_rotation(instance: &Instance) -> bool {
    let report = instance.report.as_ref().filter(|_| !instance.contradicts && instance.unreadable.is_empty());
    report.is_some_and(|r| matches!(r.step, Step::Refused { .. }) && r.rotation == Rotation::In)
}

/// In rotation with a version that the window does not admit.
pub(crate) fn is_left_in_rotation(instance: &Instance) -> bool {
    is_refused_in_rotation(instance) && instance.exposure() == Exposure::In
}

/// Its order is to leave rotation, and its agent has not declined that.
pub(crate) fn is_to_drain(instance: &Instance) -> bool {
    let drains = instance.directive.as_ref().is_some_and(|d| d.disposition == Disposition::Drain);
    drains && !instance.has_declined() && instance.unreadable.is_empty()
}

/// Whether no upgrade gives the instances their orders now, as far as everything that says so can be read.
pub(crate) fn is_without_orders(fleet: &Fleet, service: &ServiceFleet) -> bool {
    !is_moved_by_upgrade(fleet, service) && !is_unreadable(fleet, service)
}

/// Whether instances get their orders from an upgrade now. While it is paused, this takes no instance out either.
fn is_moved_by_upgrade(fleet: &Fleet, service: &ServiceFleet) -> bool {
    let Some((id, _)) = fleet.lock(service.name()) else { return false };
    let Some(upgrade) = fleet.upgrade(id).map(|stored| &stored.record.body) else { return true };
    // Until preflight is left, and where it ends from there, none is moved.
    let moves =
        upgrade.former.is_some() && !matches!(upgrade.phase, Phase::Stage | Phase::Expand | Phase::Migrate);
    moves || upgrade.paused.is_some() || upgrade.waves.is_some()
}

/// A lock, a window, or the upgrade that set the window, is not the same as none where it cannot be read.
fn is_unreadable(fleet: &Fleet, service: &ServiceFleet) -> bool {
    let set_by = service.window().map(|window| &window.set_by);
    fleet.unreadable().any(|(key, ..)| match key {
        Key::Active(s) | Key::Window(s) | Key::Budget(s) => s == service.name(),
        Key::Upgrade(id) => set_by == Some(id),
        _ => false,
    })
}
