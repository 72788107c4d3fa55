//! Whether an upgrade can be rolled back: its phase has an edge for that, every contracted schema allows the version to
//! which it leads, and no database shows a contract, or final rows, that the store does not know of.

use super::View;
use super::later::{has_contracted, later_than};
use super::phase::{Move, Refused, transition};
use crate::contracted;
use crate::fleet::Fleet;
use crate::moment::{ContractBegun, Moment, SchemaFacts};
use tidegate_proto::record::upgrade::{Phase, PhaseName, Upgrade};
use tidegate_proto::{ServiceName, ServiceVersion, UpgradeId};

/// Where turning back leads, or why it does not exist. An upgrade that has not left preflight has moved no instance and set
/// no window: that the former version may not run does not refuse its end.
pub(crate) fn rollback_path(view: &View<'_>, because: &str) -> Result<Phase, Refused> {
    let (fleet, upgrade) = (view.fleet, view.upgrade);
    let next = transition(&upgrade.phase, Move::RollBack(because.to_owned()), upgrade.schema.as_ref())?;
    if upgrade.former.is_none() {
        return Ok(next);
    }
    // As long as the floor is the former version's, no certificate that it is gone can exist.
    let window = fleet.service(&upgrade.spec.service).and_then(|service| service.window());
    let raised = window.is_some_and(|window| window.floor > upgrade.spec.from);
    if raised && let Some(forbidden) = contracted::forbids(fleet, &upgrade.spec.service, upgrade.spec.from) {
        return Err(Refused::Contracted(forbidden.to_string()));
    }
    databases_allow(view)?;
    if has_final_rows(view) {
        return Err(Refused::RowsMigrated(PhaseName::Migrate));
    }
    Ok(next)
}

/// Whether the database of an upgrade from before the last reconciliation shows that migrate has begun, and the former version
/// cannot read migrated rows. Its phase does not say so where the store was restored to before migrate.
fn has_final_rows(view: &View<'_>) -> bool {
    let is_final = view.upgrade.schema.as_ref().is_some_and(|schema| !schema.old_reads_migrated);
    let has_begun = view.facts().is_some_and(|facts| facts.migrate_begun);
    is_final && has_begun && is_of_a_former_store(view.fleet, view.upgrade)
}

/// Whether no database shows a contract that the former version cannot bear. The store does not know of a contract that
/// came after the copy from which it was restored, nor of one that a person ran by hand. Where it was restored while an
/// upgrade was active, the phase of that upgrade says nothing of its database until the database was seen. What a contract
/// of a later upgrade required of a service is not in the store either, so that no former version is known to bear it.
pub(crate) fn databases_allow(view: &View<'_>) -> Result<(), Refused> {
    let (service, from) = (&view.spec().service, view.spec().from);
    for (id, upgrade) in view.fleet.active_upgrades() {
        let Some(requires) = required_by(upgrade, service) else { continue };
        let facts = view.moment.schemas.get(id);
        if let Some(contract) = facts.and_then(|facts| later_than(view.fleet, facts)) {
            let contract = contract.to_string();
            return Err(Refused::LaterContract { upgrade: id.clone(), contract, from });
        }
        if requires > from && facts.is_some_and(|facts| is_contracted(view, upgrade, facts)) {
            return Err(Refused::ContractBegun(id.clone(), from));
        }
        if is_unseen(view.fleet, view.moment, id, upgrade) {
            return Err(Refused::Unseen(id.clone()));
        }
    }
    Ok(())
}

/// Whether a database shows that contract of the upgrade's own migrations has begun, unless the service ran on what it left
/// when the upgrade was started.
fn is_contracted(view: &View<'_>, upgrade: &Upgrade, facts: &SchemaFacts) -> bool {
    let (fleet, spec) = (view.fleet, view.spec());
    match facts.contract_begun {
        ContractBegun::No => false,
        ContractBegun::OfOthers => {
            let is_unknown = facts.contracted_by.iter().any(|by| !has_contracted(fleet, by));
            let is_lost = is_unknown || is_of_a_former_store(fleet, upgrade);
            is_lost && !is_recorded(fleet, upgrade, (&spec.service, spec.from))
        }
        ContractBegun::Own => true,
    }
}

/// Whether nothing was seen of the database of an upgrade that was active when the store was reconciled with a former one:
/// the upgrade may have entered contract since, and the restored record would not say so.
pub(crate) fn is_unseen(fleet: &Fleet, moment: &Moment, id: &UpgradeId, upgrade: &Upgrade) -> bool {
    upgrade.schema.is_some()
        && !upgrade.phase.is_over()
        && is_of_a_former_store(fleet, upgrade)
        && !moment.schemas.get(id).is_some_and(SchemaFacts::was_seen)
}

/// Whether an upgrade was started before the store was reconciled with a former one. Its lock is written at its start only.
fn is_of_a_former_store(fleet: &Fleet, upgrade: &Upgrade) -> bool {
    let by = fleet.reconciliation().filter(|by| by.takes_in_a_former_store());
    by.zip(fleet.lock(&upgrade.spec.service)).is_some_and(|(by, (_, started))| started < by.at)
}

/// The version that the contract of an upgrade requires of a service; none = the upgrade has no schema that it uses.
pub(super) fn required_by(upgrade: &Upgrade, service: &ServiceName) -> Option<ServiceVersion> {
    let asked = upgrade.spec.schema.as_ref().filter(|_| upgrade.schema.is_some())?;
    match upgrade.spec.service == *service {
        true => Some(upgrade.spec.to),
        false => asked.shared_with.get(service).copied(),
    }
}

/// Whether the schema's record has a contract that this version of a service bears.
fn is_recorded(fleet: &Fleet, upgrade: &Upgrade, (service, version): (&ServiceName, ServiceVersion)) -> bool {
    let schema = upgrade.schema.as_ref().and_then(|binding| fleet.schema(&binding.id));
    schema.and_then(|schema| schema.contracted.get(service)).is_some_and(|requires| *requires <= version)
}
