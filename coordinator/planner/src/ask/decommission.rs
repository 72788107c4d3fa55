//! Decommission an instance: a declaration by a person that it is gone, which covers its last admission and no later one.

use super::{Asker, Refusal, demand_readable, demand_why, with_event};
use crate::fleet::Fleet;
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::decommission::Decommission;
use tidegate_proto::record::upgrade::{Phase, Upgrade};
use tidegate_proto::{InstanceId, Key, Revision, ServiceVersion, mutant};

/// How the person made sure that the instance does not come back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gone {
    /// How it was stopped or fenced.
    pub stopped_how: Option<String>,
    /// How the etcd user of its agent was revoked, where the instance still reports.
    pub revoked_how: Option<String>,
}

/// The tombstone; refused while the instance reports, unless it contradicts the store and its agent's etcd user was
/// revoked; and without how it was stopped or fenced, for one last known below what an active upgrade moves to, or above what
/// it goes back to before expand is undone, or that this store has not admitted.
pub fn decommission(
    fleet: &Fleet,
    moment: &Moment,
    id: &InstanceId,
    how: Gone,
    asker: &Asker,
) -> Result<Commit, Refusal> {
    demand_why(asker, "decommissioning")?;
    let Gone { stopped_how, revoked_how } = how;
    let (service, node) = (id.service.clone(), id.node.clone());
    let report_key = Key::Report(service.clone(), node.clone());
    let admission_key = Key::Inventory(service.clone(), node.clone());
    // A tombstone covers nothing while the directive cannot be read, which may be the order that it comes back to.
    let directive_key = Key::Directive(service.clone(), node.clone());
    let key = Key::Decommission(service, node);
    for key in [&report_key, &admission_key, &directive_key, &key] {
        demand_readable(fleet, key, &format!("decommission {id}"))?;
    }
    let contradicts = fleet.contradiction_of(id).is_some();
    let found = fleet.service(&id.service).and_then(|s| s.get(&id.node));
    let Some(instance) = found.filter(|i| i.inventory.is_some() || i.listed.exists() || contradicts) else {
        return Err(Refusal::not_found(format!(
            "{id} was never admitted: `tidegate fleet list` shows the instances there are"
        )));
    };
    let is_given = |how: &Option<String>| how.as_deref().is_some_and(|how| !how.trim().is_empty());
    if instance.report.is_some() && !mutant::is("reporting-is-decommissioned") {
        reports(id, contradicts, is_given(&revoked_how))?;
    }
    let gives_how = is_given(&stopped_how);
    let untold = instance.decommission.as_ref().is_some_and(|word| word.stopped_how.is_none());
    if instance.is_decommissioned() && !(untold && gives_how) {
        return Err(Refusal::state(format!(
            "{id} is already decommissioned; only --stopped-how can be added"
        )));
    }
    if !gives_how {
        needs_no_how(fleet, id, instance.inventory.as_ref().map(|inventory| inventory.version))?;
    }
    let at = instance.decommission.as_ref().map_or(Revision::ABSENT, |d| d.at);
    let admission = instance.inventory.as_ref().map_or(Revision::ABSENT, |inventory| inventory.at);
    let report = instance.report.as_ref().map_or(Revision::ABSENT, |report| report.at);
    let body = Decommission {
        admission,
        who: asker.who.clone(),
        why: asker.why.clone(),
        stopped_how,
        revoked_how: revoked_how.filter(|_| report.exists()),
        at: moment.wall,
    };
    Ok(with_event(moment, Subject::Fleet, asker, &format!("{id}"), &format!("{id} decommissioned"))
        .when(Precondition::At(report_key, report))
        .when(Precondition::At(admission_key, admission))
        .when(Precondition::At(key.clone(), at))
        .put(key, body))
}

/// Whether an instance may be decommissioned without how it was stopped or fenced, by the version of its last admission. A
/// certificate asks for that of one that was admitted. It names none without an admission, so that is asked at once, also
/// where no upgrade is active. The undo at the end of a rollback has no certificate.
fn needs_no_how(fleet: &Fleet, id: &InstanceId, admitted: Option<ServiceVersion>) -> Result<(), Refusal> {
    let found = match (admitted, fleet.active_upgrade(&id.service)) {
        (None, _) => format!("{id} has no admission in this store, so that no certificate asks for it later"),
        (Some(last), Some((upgrade, active))) if is_taken_from(active, last) => {
            let (from, to) = (active.spec.from, active.spec.to);
            let then = match active.phase {
                Phase::RollingBack { .. } => format!("goes back to {from}, and undoes what expand made"),
                _ => format!("moves to {to}; the certificate quotes how it was stopped"),
            };
            format!("{id} was last known at version {last}, and upgrade {upgrade} {then}")
        }
        (Some(_), _) => return Ok(()),
    };
    Err(Refusal::invalid(format!(
        "{found}: say with --stopped-how how it was stopped or fenced, so that it cannot come back"
    )))
}

/// Whether an upgrade ends with the removal of what a version uses: of a lower one than it moves to by contract, of a higher
/// one than it goes back to by the undo of expand.
fn is_taken_from(upgrade: &Upgrade, version: ServiceVersion) -> bool {
    match upgrade.phase {
        Phase::RollingBack { .. } => upgrade.spec.schema.is_some() && version > upgrade.spec.from,
        _ => version < upgrade.spec.to,
    }
}

/// Whether an instance that reports may be decommissioned.
fn reports(id: &InstanceId, contradicts: bool, revoked: bool) -> Result<(), Refusal> {
    match (contradicts, revoked) {
        (true, true) => Ok(()),
        (true, false) => Err(Refusal::invalid(format!(
            "{id} reports, and contradicts the store: revoke the etcd user of its agent, and say with --how how that was done"
        ))),
        (false, _) => Err(Refusal::state(format!(
            "{id} reports: it is not gone. Stop its agent and its service first, and wait until its lease has lapsed"
        ))),
    }
}
