//! Decommission an instance: a person's word that it is gone, which covers its last admission and no later one.

use super::{Asker, Refusal, RefusalKind, demand_why, refuse, told};
use crate::fleet::Fleet;
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::decommission::Decommission;
use tidegate_proto::{InstanceId, Key, Revision, mutant};

/// The tombstone; refused while the instance reports, and, for one last known below what an active upgrade moves to,
/// without how it was stopped or fenced.
pub fn decommission(
    fleet: &Fleet,
    moment: &Moment,
    id: &InstanceId,
    stopped_how: Option<String>,
    asker: &Asker,
) -> Result<Commit, Refusal> {
    demand_why(asker, "decommissioning")?;
    let service = fleet.service(&id.service);
    let Some((instance, inventory)) =
        service.and_then(|s| s.get(&id.node)).and_then(|i| i.inventory.as_ref().map(|inv| (i, inv)))
    else {
        return refuse(
            RefusalKind::NotFound,
            format!("{id} was never admitted: `tidegate fleet list` shows the instances there are"),
        );
    };
    if instance.report.is_some() && !mutant::is("reporting-is-decommissioned") {
        return refuse(
            RefusalKind::State,
            format!(
                "{id} reports: it is not gone. Stop its agent and its service first, and wait until its lease has lapsed"
            ),
        );
    }
    let told_how = stopped_how.as_deref().is_some_and(|how| !how.trim().is_empty());
    let untold = instance.decommission.as_ref().is_some_and(|word| word.stopped_how.is_none());
    if instance.is_decommissioned() && !(untold && told_how) {
        return refuse(
            RefusalKind::State,
            format!("{id} is decommissioned already; its word can only be completed, with --stopped-how"),
        );
    }
    if let Some((upgrade, active)) = fleet.active_upgrade(&id.service)
        && inventory.version < active.spec.to
        && !told_how
    {
        return refuse(
            RefusalKind::Invalid,
            format!(
                "{id} was last known at version {}, and upgrade {upgrade} moves to {}: say with --stopped-how how it was stopped or fenced, so that it cannot come back; the certificate quotes it",
                inventory.version, active.spec.to
            ),
        );
    }
    let key = Key::Decommission(id.service.clone(), id.node.clone());
    let at = instance.decommission.as_ref().map_or(Revision::ABSENT, |d| d.at);
    let body = Decommission {
        admission: inventory.at,
        who: asker.who.clone(),
        why: asker.why.clone(),
        stopped_how,
        at: moment.wall,
    };
    let report = Key::Report(id.service.clone(), id.node.clone());
    let admission = Key::Inventory(id.service.clone(), id.node.clone());
    Ok(told(moment, Subject::Fleet, asker, &format!("{id}"), &format!("{id} decommissioned"))
        .when(Precondition::At(report, Revision::ABSENT))
        .when(Precondition::At(admission, inventory.at))
        .when(Precondition::At(key.clone(), at))
        .put(key, body))
}
