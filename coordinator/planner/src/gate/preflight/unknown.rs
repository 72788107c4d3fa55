//! Why the version of an instance is not known, where a person can end that.

use super::finding::{Finding, blocker, ended_by};
use super::former::replaced_leftovers;
use crate::fleet::{Fleet, Instance, ServiceFleet};
use crate::gate::Sample;
use crate::gate::description::decommission;
use crate::gate::store::Inclusion;
use tidegate_proto::InstanceId;
use tidegate_proto::record::report::Step;
use tidegate_proto::spec::Spec;

/// How many are named.
pub(super) const NAMED: usize = 5;

/// The instances whose version is not known; the records that cannot be read, and the instances whose agents obey the store
/// only after a plan includes them.
pub(super) fn findings(fleet: &Fleet, service: &ServiceFleet, spec: &Spec) -> Vec<Finding> {
    let left = replaced_leftovers(service, spec);
    let is_left = |instance: &&Instance| left.iter().any(|other| other.node == instance.node);
    let why = |instance: &Instance| {
        let id = InstanceId::new(service.name().clone(), instance.node.clone());
        let unreadable = fleet.unreadable_of(&id);
        let mut why: Vec<String> = unreadable
            .map(|(key, why)| format!("the record {key} {why}: restore its previous value"))
            .collect();
        why.extend(to_include(fleet, service, instance));
        why
    };
    let unknown: Vec<&Instance> = service.unknown().each.filter(|instance| !is_left(instance)).collect();
    let nodes = Sample::counted(unknown.iter().map(|instance| &instance.node));
    let named = (!nodes.is_empty()).then(|| {
        let what = format!("{}: the version that runs is not known on: {nodes}", service.name());
        Finding { until: answers(unknown.iter().copied()), ..blocker(what) }
    });
    named.into_iter().chain(unknown.into_iter().flat_map(why).take(NAMED).map(blocker)).collect()
}

/// What ends that the version of these is not known, where no person has to: their services may be starting.
pub(super) fn answers<'a>(unknown: impl Iterator<Item = &'a Instance>) -> Option<String> {
    let needs_a_person = |instance: &Instance| {
        let is_refused = instance.report.as_ref().is_some_and(|r| matches!(r.step, Step::Refused { .. }));
        is_refused || instance.disregarded || !instance.unreadable.is_empty()
    };
    let coming = unknown.filter(|instance| !needs_a_person(instance));
    let coming = Sample::counted(coming.map(|instance| &instance.node));
    (!coming.is_empty()).then(|| format!("the service answers its version on {coming}"))
}

/// What a person does about an instance, where its claim was disregarded.
pub(super) fn to_include(fleet: &Fleet, service: &ServiceFleet, instance: &Instance) -> Option<String> {
    let id = InstanceId::new(service.name().clone(), instance.node.clone());
    instance.disregarded.then(|| disregarded(&id, Inclusion::of(fleet, service, instance, None)))
}

/// What a person does about a disregarded instance.
fn disregarded(id: &InstanceId, inclusion: Inclusion) -> String {
    let include = format!("`tidegate fleet reconcile --include {id}`");
    let how = match inclusion {
        Inclusion::Open => format!(": {include}"),
        Inclusion::Widens(version) => format!(
            ", which may widen the window to version {version} that runs there: {include} only where the former store \
             had admitted it; otherwise {}",
            ended_by(&id.service, "a version inside the window")
        ),
        Inclusion::Outside { version, floor, ceiling, .. } => format!(
            ", which is refused while version {version} runs there, outside the new window \
             [{floor}, {ceiling}]: {}",
            ended_by(&id.service, "a version inside it")
        ),
        Inclusion::NeedsVersion => format!(
            ", which needs its version, or that it is out of rotation: `tidegate-agent check` (on {})",
            id.node
        ),
        Inclusion::Impossible => format!(
            ", and no plan can, because no former store can have given the revision that was claimed: stop it and \
             its agent, and decommission it: `{}`",
            decommission(&id.service, &id.node)
        ),
    };
    format!(
        "the claim of {id} against the store was disregarded, and its agent obeys the store only after a plan \
         includes it{how}"
    )
}
