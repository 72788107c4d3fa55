//! Why the version of an instance is not known, where a person can end that.

use super::ended_by;
use super::finding::{Finding, blocker};
use super::former::replaced_leftovers;
use crate::fleet::{Fleet, Instance, ServiceFleet};
use tidegate_proto::InstanceId;
use tidegate_proto::record::report::{Report, Rotation, Step};
use tidegate_proto::spec::Spec;

/// How many are named.
const NAMED: usize = 5;

/// The records that cannot be read, and the instances whose agents obey the store only after a plan includes them.
pub(super) fn findings(fleet: &Fleet, service: &ServiceFleet, spec: &Spec) -> Vec<Finding> {
    let left = replaced_leftovers(service, spec);
    let is_left = |instance: &&Instance| left.iter().any(|other| other.node == instance.node);
    let why = |instance: &Instance| {
        let id = InstanceId::new(service.name().clone(), instance.node.clone());
        let unreadable = fleet.unreadable_of(&id);
        let mut why: Vec<String> = unreadable
            .map(|(key, why)| format!("the record {key} {why}: restore its previous value"))
            .collect();
        if fleet.disregarded_of(service.name()).any(|other| other.node == instance.node) {
            why.push(disregarded(service, instance, &id));
        }
        why
    };
    let unknown = service.unknown().each.filter(|instance| !is_left(instance));
    unknown.flat_map(why).take(NAMED).map(blocker).collect()
}

/// What a person does about a disregarded instance. A plan that includes it may widen the window to what it runs, and is
/// refused where something may be in rotation whose version is not known.
fn disregarded(service: &ServiceFleet, instance: &Instance, id: &InstanceId) -> String {
    let report = instance.report.as_ref().map(|report| &report.record.body);
    let runs = report.and_then(Report::runs);
    let outside = runs.filter(|runs| service.window().is_some_and(|window| !window.admits(*runs)));
    let is_out = |r: &Report| r.rotation == Rotation::Out || r.nothing_runs || r.step == Step::Stopped;
    let is_out = report.is_some_and(is_out);
    let include = format!("`tidegate fleet reconcile --include {id}`");
    let how = match (outside, runs) {
        (Some(version), _) => format!(
            ", which may widen the window to version {version} that runs there: {include} only where the former store \
             had admitted it; otherwise {}",
            ended_by(service.name(), "a version inside the window")
        ),
        (None, None) if !is_out => format!(
            ", which needs its version, or that it is out of rotation: `tidegate-agent check` (on {})",
            id.node
        ),
        _ => format!(": {include}"),
    };
    format!(
        "the claim of {id} against the store was disregarded, and its agent obeys the store only after a plan \
         includes it{how}"
    )
}
