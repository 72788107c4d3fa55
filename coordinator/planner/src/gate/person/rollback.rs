//! Whether an upgrade can be rolled back: its phase, the contracted schemas and the databases allow it, and no compute
//! release needs the floor that the rollback lowers.

use super::PersonGate;
use crate::contracted;
use crate::gate::release::needed::forbids;
use crate::gate::store::unreadable;
use crate::gate::{Answer, Reason};
use crate::upgrade::phase::Refused;
use crate::upgrade::{View, databases_allow, rollback_path};
use tidegate_proto::{Key, ServiceVersion};

/// Whether the rollback may begin.
pub(crate) fn begins(view: &View<'_>, why: &str) -> Answer {
    match rollback_path(view, why) {
        Err(refused) => Answer::from(no_rollback(&refused)),
        Ok(_) => lowers_floor(view),
    }
}

/// Whether the databases that instances use allow the version to which a rollback that has begun leads. No command ends it
/// otherwise.
pub(crate) fn databases(view: &View<'_>) -> Answer {
    match databases_allow(view) {
        Err(refused @ Refused::ContractBegun(..)) => Answer::from(no_rollback(&format!(
            "{refused}: restore the database of that time, and the rollback goes on; or restore a later copy of the store, or begin with an empty one, and reconcile it"
        ))),
        Err(refused) => Answer::from(no_rollback(&refused)),
        Ok(()) => Answer::open(),
    }
}

/// Whether a floor that was raised during the rollback may be lowered to the old version again.
pub(crate) fn lowers_raised_floor(view: &View<'_>, floor: ServiceVersion) -> Answer {
    let (service, from) = (&view.spec().service, view.spec().from);
    match contracted::forbids(view.fleet, service, from).filter(|_| from < floor) {
        Some(forbidden) => Answer::from(no_rollback(&forbidden)),
        None => lowers_floor(view),
    }
}

/// Whether compute releases allow the floor that the rollback lowers. Where the window cannot be read, it is not known whether
/// it lowers one; before preflight was left, it lowers none.
pub(crate) fn lowers_floor(view: &View<'_>) -> Answer {
    if view.upgrade.former.is_none() {
        return Answer::open();
    }
    let key = Key::Window(view.spec().service.clone());
    if let Some(why) = view.fleet.unreadable_at(&key) {
        return Answer::from(unreadable(&key, why));
    }
    let floor = view.service().and_then(|service| service.window()).map(|window| window.floor);
    let (service, from) = (&view.spec().service, view.spec().from);
    let lowers = floor.is_some_and(|floor| from < floor);
    match forbids(view.fleet, service, from).filter(|_| lowers) {
        Some(needed) => Answer::from(needed),
        None => Answer::open(),
    }
}

/// That the upgrade has no edge to where it was to be moved.
pub(crate) fn no_rollback(why: &impl ToString) -> Reason {
    PersonGate::NoRollback { why: why.to_string() }.into()
}
