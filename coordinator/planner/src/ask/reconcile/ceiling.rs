//! Which ceiling of the store a plan keeps.

use crate::fleet::{Fleet, ServiceFleet};
use tidegate_proto::{NodeId, ServiceVersion};

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
