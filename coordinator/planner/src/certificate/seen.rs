//! What a certificate holds of the services that share the schema: all that was read of them at one revision.

use super::{Gone, InstanceSeen, ServicePart, WindowSeen};
use crate::fleet::{Fleet, Instance, ServiceFleet};
use std::collections::BTreeMap;
use tidegate_proto::record::schema::Schema;
use tidegate_proto::spec::SpecSchema;
use tidegate_proto::{Revision, ServiceName, ServiceVersion};

/// What is seen of each service that shares the schema.
pub(crate) fn services_seen(
    fleet: &Fleet,
    asked: &SpecSchema,
    schema: &Schema,
) -> BTreeMap<ServiceName, ServicePart> {
    let part = |name: &ServiceName| service_part(fleet.service(name), asked.empty.contains(name));
    schema.services.keys().map(|name| (name.clone(), part(name))).collect()
}

fn service_part(service: Option<&ServiceFleet>, named_empty: bool) -> ServicePart {
    let window =
        service.and_then(|s| s.window()).map(|w| WindowSeen { at: w.at, floor: w.floor, ceiling: w.ceiling });
    let all = || service.into_iter().flat_map(ServiceFleet::every_instance);
    ServicePart {
        window,
        instances: all().filter(|i| i.counts()).map(|i| (i.node.clone(), seen(i))).collect(),
        decommissioned: all()
            .filter(|i| i.is_decommissioned())
            .filter_map(|i| Some((i.node.clone(), gone(i)?)))
            .collect(),
        named_empty,
    }
}

/// What is missing is written as what it reads as: no admission, no report, an unknown version.
fn seen(instance: &Instance) -> InstanceSeen {
    let believed = instance.unreadable.is_empty() && !instance.contradicts;
    let report = instance.report.as_ref().filter(|_| believed);
    InstanceSeen {
        admission: instance.inventory.as_ref().map_or(Revision::ABSENT, |i| i.at),
        admitted: instance.inventory.as_ref().map_or(ServiceVersion::ABSENT, |i| i.version),
        report: report.map_or(Revision::ABSENT, |r| r.at),
        reported: report.and_then(|r| r.version),
        report_admission: report.map_or(Revision::ABSENT, |_| instance.reported_admission()),
        acknowledged: instance.acknowledged(),
    }
}

fn gone(instance: &Instance) -> Option<Gone> {
    let (inventory, word) = (instance.inventory.as_ref()?, instance.decommission.as_ref()?);
    Some(Gone {
        admission: inventory.at,
        admitted: inventory.version,
        covers: word.admission,
        who: word.who.clone(),
        why: word.why.clone(),
        stopped_how: word.stopped_how.clone(),
    })
}
