//! The databases of refused starts, which obeyed a term that the store does not know. Nothing but a reconciliation hears
//! them, and of each service only that of the last start: the URL of an earlier one may have been wrong.

use crate::context::Context;
use crate::leadership::Leadership;
use std::collections::BTreeMap;
use tidegate_planner::{Fleet, SchemaFacts};
use tidegate_proto::{ServiceName, UpgradeId};

/// Keeps the term that the database of a refused start obeyed, and what its contracts require. The database of an upgrade
/// that is there is another one: its own jobs look at that.
pub(super) fn hear(
    context: &Context,
    leadership: &Leadership,
    id: &UpgradeId,
    service: &ServiceName,
    seen: &SchemaFacts,
) {
    // The view is locked before the facts, as where a plan is made.
    let view = context.mirror.view();
    if view.fleet.upgrade(id).is_some() {
        return;
    }
    let heard = SchemaFacts {
        obeyed: seen.obeyed.clone(),
        requires: seen.requires,
        refused_start: Some(service.clone()),
        ..SchemaFacts::default()
    };
    leadership.schemas().send_if_modified(|all| {
        let forgotten = forget(all, &view.fleet, |other, of| other != id && of == Some(service));
        let former = all.insert(id.clone(), heard.clone());
        forgotten || former.as_ref() != Some(&heard)
    });
}

/// Forgets what [`hear`] has kept for this ID or this service: an upgrade is about to have it.
pub(crate) fn unhear(context: &Context, leadership: &Leadership, id: &UpgradeId, service: &ServiceName) {
    let view = context.mirror.view();
    leadership
        .schemas()
        .send_if_modified(|all| forget(all, &view.fleet, |other, of| other == id || of == Some(service)));
}

/// Forgets databases by ID and by the service of the refused start, and none of an upgrade that is there. Whether there
/// was one.
fn forget(
    all: &mut BTreeMap<UpgradeId, SchemaFacts>,
    fleet: &Fleet,
    is_over: impl Fn(&UpgradeId, Option<&ServiceName>) -> bool,
) -> bool {
    let before = all.len();
    all.retain(|id, facts| fleet.upgrade(id).is_some() || !is_over(id, facts.refused_start.as_ref()));
    all.len() < before
}
