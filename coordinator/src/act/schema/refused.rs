//! The databases of refused starts, which obeyed a term that the store does not know. Nothing but a reconciliation hears
//! them, and of each service only that of the last start: the URL of an earlier one may have been wrong. So the database of a
//! later start takes its place also where the store acknowledges it.

use super::term::acknowledged;
use crate::context::Context;
use crate::leadership::Leadership;
use std::collections::BTreeMap;
use tidegate_planner::{Fleet, SchemaFacts};
use tidegate_proto::spec::Spec;
use tidegate_proto::{ServiceName, ServiceVersion, UpgradeId};

/// Keeps the term that the database of a refused start obeyed, and what its contracts require. The database of an upgrade
/// that is there is another one: its own jobs look at that.
pub(super) fn hear(
    context: &Context,
    leadership: &Leadership,
    id: &UpgradeId,
    spec: &Spec,
    seen: &SchemaFacts,
) {
    let service = &spec.service;
    let is_acknowledged = acknowledged(context, seen);
    // The view is locked before the facts, as where a plan is made.
    let view = context.mirror.view();
    if view.fleet.upgrade(id).is_some() {
        return;
    }
    let heard = SchemaFacts {
        obeyed: seen.obeyed.clone(),
        requires: seen.requires,
        requires_of_sharing: required_of_sharing(spec, seen),
        refused_start: Some(service.clone()),
        ..SchemaFacts::default()
    };
    leadership.schemas().send_if_modified(|all| {
        if is_acknowledged && all.values().all(|facts| facts.refused_start.as_ref() != Some(service)) {
            return false;
        }
        let forgotten = forget(all, &view.fleet, |other, of| other != id && of == Some(service));
        let former = all.insert(id.clone(), heard.clone());
        forgotten || former.as_ref() != Some(&heard)
    });
}

/// What the contracts of a database require of the services that share it. The history does not have that; the spec says it of
/// the contract of its own version, and a later one requires no less.
fn required_of_sharing(spec: &Spec, seen: &SchemaFacts) -> BTreeMap<ServiceName, ServiceVersion> {
    match &spec.schema {
        Some(asked) if seen.requires >= Some(spec.to) => asked.shared_with.clone(),
        _ => BTreeMap::new(),
    }
}

/// Forgets what [`hear`] has kept for this ID or this service: an upgrade is about to have it.
pub(crate) fn unhear(context: &Context, leadership: &Leadership, id: &UpgradeId, service: &ServiceName) {
    let view = context.mirror.view();
    leadership
        .schemas()
        .send_if_modified(|all| forget(all, &view.fleet, |other, of| other == id || of == Some(service)));
}

/// Forgets databases by ID and by the service of the refused start, and none of an upgrade that is there. Whether there
/// was one.
fn forget(
    all: &mut BTreeMap<UpgradeId, SchemaFacts>,
    fleet: &Fleet,
    is_over: impl Fn(&UpgradeId, Option<&ServiceName>) -> bool,
) -> bool {
    let before = all.len();
    all.retain(|id, facts| fleet.upgrade(id).is_some() || !is_over(id, facts.refused_start.as_ref()));
    all.len() < before
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn contract_of_its_version_binds_those_of_a_refused_spec() {
        let sha256 = tidegate_proto::Digest::of(b"artifact");
        let spec: Spec = serde_json::from_value(json!({
            "service": "conductor", "from": 2, "to": 3, "release": {"tag": "r3", "sha256": sha256},
            "schema": {"database": {"from_env": "URL"}, "migrations": "m", "shared_with": {"api": 7}},
        }))
        .unwrap();
        let required = |contracted: Option<i64>| {
            let requires = contracted.map(|version| ServiceVersion::new(version).unwrap());
            let of = required_of_sharing(&spec, &SchemaFacts { requires, ..SchemaFacts::default() });
            of.get(&"api".parse::<ServiceName>().unwrap()).map(|version| version.get())
        };
        assert_eq!([None, Some(2)].map(required), [None; 2], "the spec says nothing of version 2");
        assert_eq!([Some(3), Some(4)].map(required), [Some(7); 2]);
    }
}
