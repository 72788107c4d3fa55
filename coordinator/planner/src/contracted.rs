//! What contracted schemas require of a service: no lower version may run again, whichever upgrade has contracted.
//!
//! # Invariants
//! * Unknown closes: a schema record that cannot be read may require anything of any service.
//! * Entering contract puts the schema record, and a commit that sets a window compares that none was put since: the
//!   two cannot cross.

use crate::fleet::{Fleet, ServiceFleet, Stored};
use crate::moment::SchemaFacts;
use std::collections::BTreeMap;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Kind;
use tidegate_proto::record::schema::Schema;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, SchemaName, ServiceName, ServiceVersion, UpgradeId, mutant};

/// Why a service may not run a version.
#[derive(Debug, Clone, PartialEq, Eq, strum::Display)]
pub enum Forbidden {
    /// A schema that it shares was contracted.
    #[strum(
        to_string = "{service} shares schema {schema} (upgrade {upgrade}), whose contracted form requires version {requires} or above"
    )]
    Below {
        /// The service.
        service: ServiceName,
        /// The schema.
        schema: SchemaName,
        /// The upgrade that has contracted it last, or is about to change it.
        upgrade: UpgradeId,
        /// The lowest version that can read what is left.
        requires: ServiceVersion,
    },
    /// A schema record cannot be read, so what it requires is not known.
    #[strum(to_string = "the record {key} {why}, so what a contracted schema requires is not known")]
    Unknown {
        /// Its key.
        key: Key,
        /// What is wrong with it.
        why: String,
    },
}

/// Why this version of the service may not run (again), if it may not.
pub fn forbids(fleet: &Fleet, service: &ServiceName, version: ServiceVersion) -> Option<Forbidden> {
    if mutant::is("contracted-is-not-asked") {
        return None;
    }
    let unknown = fleet
        .unreadable()
        .find(|(key, ..)| key.kind() == Kind::Schema)
        .map(|(key, why, _)| Forbidden::Unknown { key: key.clone(), why: why.to_string() });
    unknown.or_else(|| {
        let (schema, stored, requires) = highest(fleet, service)?;
        (version < requires).then(|| Forbidden::Below {
            service: service.clone(),
            schema: schema.clone(),
            upgrade: stored.upgrade.clone(),
            requires,
        })
    })
}

/// The lowest floor that a window of the service may have.
pub(crate) fn lowest_floor(fleet: &Fleet, service: &ServiceName) -> ServiceVersion {
    highest(fleet, service).map_or(ServiceVersion::ABSENT, |(_, _, requires)| requires)
}

/// The lowest version of a service that can serve with what contracted schemas left: its window carries this to agents.
/// None where that is not known: a schema record cannot be read, or the store was reconciled with a former one and may
/// have lost some.
pub(crate) fn bound(fleet: &Fleet, service: &ServiceName) -> Option<ServiceVersion> {
    let unreadable = fleet.unreadable().any(|(key, ..)| key.kind() == Kind::Schema);
    let lost = fleet.reconciliation().is_some_and(|word| word.takes_in_a_former_store());
    (!unreadable && !lost).then(|| lowest_floor(fleet, service))
}

/// The lowest version of each service that may run, by the databases of refused starts, also once a plan has acknowledged
/// their terms: the former store led them, so no record has what they contracted, and no agent may remember the floor of that
/// time.
pub(crate) fn by_refused_starts(
    databases: &BTreeMap<UpgradeId, SchemaFacts>,
) -> BTreeMap<&ServiceName, ServiceVersion> {
    let mut required = BTreeMap::new();
    let all = databases.values().flat_map(SchemaFacts::required_by_contracts);
    for (service, requires) in all.filter(|(_, requires)| *requires > ServiceVersion::ABSENT) {
        let known = required.entry(service).or_insert(requires);
        *known = (*known).max(requires);
    }
    required
}

/// Adds to a commit that the windows of these services name what a schema requires of them from now on: agents then take
/// out at once what came to run a version below it.
pub(crate) fn named_in_windows<'a>(
    fleet: &Fleet,
    commit: Commit,
    required: impl Iterator<Item = (&'a ServiceName, &'a ServiceVersion)>,
) -> Commit {
    required.fold(commit, |commit, (service, requires)| {
        let Some(window) = fleet.service(service).and_then(ServiceFleet::window) else { return commit };
        let contracted = bound(fleet, service).map(|before| before.max(*requires));
        if window.contracted == contracted {
            return commit;
        }
        let body = Window { contracted, ..window.record.body.clone() };
        commit.put(Key::Window(service.clone()), window.record.with(body))
    })
}

fn highest<'a>(
    fleet: &'a Fleet,
    service: &ServiceName,
) -> Option<(&'a SchemaName, &'a Stored<Schema>, ServiceVersion)> {
    let requires =
        fleet.schemas().filter_map(|(id, stored)| Some((id, stored, *stored.contracted.get(service)?)));
    requires.max_by_key(|(_, _, requires)| *requires)
}

/// Adds to a commit that no schema record was put since this fleet was seen.
pub(crate) fn compared(fleet: &Fleet, commit: Commit) -> Commit {
    match mutant::is("schemas-are-not-compared") {
        true => commit,
        false => commit.when(Precondition::NonePutAfter(Kind::Schema, fleet.revision())),
    }
}
