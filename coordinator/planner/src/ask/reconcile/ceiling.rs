//! Which ceiling of the store a plan keeps, and which one it raises without a claim.

use super::proposal::{Choices, WindowChange};
use super::refused::MOST_WINDOWS;
use crate::fleet::{Fleet, Instance, ServiceFleet};
use crate::gate::budget::outside::is_refused_in_rotation;
use crate::gate::store::running::{Running, is_never_admitted};
use tidegate_proto::{InstanceId, NodeId, ServiceVersion};

/// The ceiling of the store's window, unless that window was replaced in the former store: an agent whose claim is applied
/// obeyed a later one, whose ceiling is in no record. The schema may not have what a version above it uses. An upgrade that
/// has left preflight has set the store's window, and moves instances inside it. A window without a ceiling leaves the
/// versions to another tool.
pub(super) fn kept(
    fleet: &Fleet,
    service: &ServiceFleet,
    applied: impl Fn(&NodeId) -> bool,
) -> Option<ServiceVersion> {
    let ceiling = service.window()?.ceiling;
    let at = service.window_at();
    let was_replaced = service
        .instances()
        .any(|i| applied(&i.node) && i.report.as_ref().is_some_and(|report| report.window > at));
    let has_upgrade =
        || fleet.active_upgrade(service.name()).is_some_and(|(_, upgrade)| upgrade.former.is_some());
    (!was_replaced || ceiling == ServiceVersion::MAX || has_upgrade()).then_some(ceiling)
}

/// Leaves room also where no claim of the service is applied: an agent that has lost its journal claims nothing, obeys the
/// store's window, has refused what it runs and leaves it in rotation. The lost store may have admitted that version. A
/// cordon changes nothing about that: requests go on there, and it is lifted only once the plan is applied. One window too
/// many for the plan stays as it is.
pub(super) fn make_room(fleet: &Fleet, choices: &Choices, windows: &mut Vec<WindowChange>) {
    for service in fleet.services() {
        let (name, Some(window)) = (service.name(), service.window()) else { continue };
        let is_disregarded =
            |i: &Instance| choices.disregard.contains(&InstanceId::new(name.clone(), i.node.clone()));
        let serves = |i: &&Instance| is_refused_in_rotation(i) && !is_never_admitted(i) && !is_disregarded(i);
        let highest = service.instances().filter(serves).filter_map(|i| Running::of(i).known()).max();
        let Some(highest) = highest.filter(|highest| *highest > window.ceiling) else { continue };
        // A window that an applied claim changes leaves that room already.
        let has_room = windows.iter().any(|change| change.service == *name && change.changes());
        if has_room || windows.iter().filter(|change| change.changes()).count() >= MOST_WINDOWS {
            continue;
        }
        windows.retain(|change| change.service != *name);
        windows.push(WindowChange {
            service: name.clone(),
            at: service.window_at(),
            now: Some((window.floor, window.ceiling)),
            then: Some((window.floor, highest)),
            by_database: false,
        });
    }
}
