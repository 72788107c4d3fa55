//! A contract that came after an upgrade, by one that the store does not know of: no version of the upgrade is started on
//! what it has left.

use super::SchemaGate;
use crate::gate::person::rollback::begins;
use crate::gate::{Answer, Reason};
use crate::upgrade::{View, later_contract};

/// Whether no database that the service uses shows such a contract.
pub(crate) fn none_came_later(view: &View<'_>) -> Answer {
    let Some((upgrade, contract)) = later_contract(view) else { return Answer::open() };
    let (upgrade, contract) = (upgrade.clone(), contract.to_string());
    let rollback_path = begins(view, "").is_open;
    Answer::from(Reason::from(SchemaGate::LaterContract { upgrade, contract, rollback_path }))
}
