//! A contract that came after an upgrade: the store was restored to a copy in which that upgrade is active, and one that is
//! not in the copy has contracted the database since. The versions between which the upgrade moves instances may not run
//! on what is left.

use super::View;
use super::rollback_path::{is_unseen, required_by};
use crate::fleet::{Fleet, Stored};
use crate::moment::{LaterContract, SchemaFacts};
use tidegate_proto::UpgradeId;
use tidegate_proto::record::upgrade::{PhaseName, Upgrade};

/// Such a contract in a database that the service of an upgrade uses, with the upgrade that is bound to it. The history does
/// not have what it required of services that share the schema.
pub(crate) fn later_contract<'a>(view: &View<'a>) -> Option<(&'a UpgradeId, &'a LaterContract)> {
    let (fleet, moment) = (view.fleet, view.moment);
    bound(view).find_map(|(id, _)| Some((id, later_than(fleet, moment.schemas.get(id)?)?)))
}

/// Another upgrade that is bound to a database which the service uses, where nothing was seen of that database since the store
/// was reconciled with a former one; with what is known of it.
pub(crate) fn unseen_of_others<'a>(view: &View<'a>) -> Option<(&'a UpgradeId, Option<&'a SchemaFacts>)> {
    let (fleet, moment) = (view.fleet, view.moment);
    let mut others = bound(view).filter(|(id, _)| *id != view.id);
    let (id, _) = others.find(|(id, upgrade)| is_unseen(fleet, moment, id, upgrade))?;
    Some((id, moment.schemas.get(id)))
}

/// The upgrades that are bound to a database which the service of an upgrade uses.
fn bound<'a>(view: &View<'a>) -> impl Iterator<Item = (&'a UpgradeId, &'a Stored<Upgrade>)> {
    let service = &view.spec().service;
    view.fleet.active_upgrades().filter(move |(_, upgrade)| required_by(upgrade, service).is_some())
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
