//! A contract that came after an upgrade: the store was restored to a copy in which that upgrade is active, and one that is
//! not in the copy has contracted the database since. The versions between which the upgrade moves instances may not run
//! on what is left.

use super::View;
use super::rollback_path::required_by;
use crate::fleet::Fleet;
use crate::moment::{LaterContract, SchemaFacts};
use tidegate_proto::UpgradeId;
use tidegate_proto::record::upgrade::PhaseName;

/// Such a contract in a database that the service of an upgrade uses, with the upgrade that is bound to it. The history does
/// not have what it required of services that share the schema.
pub(crate) fn later_contract<'a>(view: &View<'a>) -> Option<(&'a UpgradeId, &'a LaterContract)> {
    let (fleet, moment, service) = (view.fleet, view.moment, &view.spec().service);
    let mut bound = fleet.active_upgrades().filter(|(_, upgrade)| required_by(upgrade, service).is_some());
    bound.find_map(|(id, _)| Some((id, later_than(fleet, moment.schemas.get(id)?)?)))
}

/// The first contract in a database that came after the migrations of its upgrade, and that the store does not know of.
pub(super) fn later_than<'a>(fleet: &Fleet, facts: &'a SchemaFacts) -> Option<&'a LaterContract> {
    facts.later.iter().find(|contract| contract.by.as_ref().is_none_or(|by| !has_contracted(fleet, by)))
}

/// Whether the store knows of the contract of an upgrade: what it requires is then in the schema's record.
pub(super) fn has_contracted(fleet: &Fleet, id: &UpgradeId) -> bool {
    let phase = fleet.upgrade(id).map(|upgrade| upgrade.phase.name());
    phase.is_some_and(|phase| matches!(phase, PhaseName::Contract | PhaseName::Completed))
}
