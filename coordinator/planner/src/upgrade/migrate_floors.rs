//! The floors that migrate requires: an old program that shares the schema would write past the fill, or could not
//! read what was filled. So migrate is entered once the committed floor of each service is there.
//!
//! # Invariants
//! * The transaction that enters migrate compares the window of every service whose floor was asked.
//! * Where old programs cannot read migrated rows, the same transaction writes what was required into the schema's
//!   record: no service goes back below it.

use crate::contracted;
use crate::fleet::{Fleet, Stored};
use crate::plan::Draft;
use crate::reason::{Reason, SchemaGate};
use std::collections::BTreeMap;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::schema::Schema;
use tidegate_proto::record::upgrade::{MigrateOrder, SchemaBinding};
use tidegate_proto::spec::Spec;
use tidegate_proto::{Key, Revision, ServiceName, ServiceVersion, mutant};

/// The floor that migrate requires of each service. A record that was written before requirements were kept says only
/// that migrate waits for the roll: then the own service is required at `to`, and the others at `shared_with`.
pub fn required(spec: &Spec, binding: &SchemaBinding) -> BTreeMap<ServiceName, ServiceVersion> {
    if !binding.migrate_floors.is_empty() || binding.order == MigrateOrder::BeforeRoll {
        return binding.migrate_floors.clone();
    }
    let mut floors = spec.schema.as_ref().map(|asked| asked.shared_with.clone()).unwrap_or_default();
    floors.insert(spec.service.clone(), spec.to);
    floors
}

/// The committed floor of a service; none = it has no window.
pub(crate) fn committed(fleet: &Fleet, service: &ServiceName) -> Option<ServiceVersion> {
    Some(fleet.service(service)?.window()?.floor)
}

/// What entering migrate compares and writes, or none while a floor is missing: then each is a reason. `own` is the
/// floor of the upgraded service once the same transaction is done, where that raises it.
pub(crate) fn reached(draft: &mut Draft<'_>, own: Option<ServiceVersion>) -> Option<Commit> {
    let binding = draft.upgrade.schema.as_ref()?;
    let required = match mutant::is("migrate-floors-are-not-asked") {
        true => BTreeMap::new(),
        false => required(draft.spec(), binding),
    };
    let mut commit = Commit::new();
    let mut waits = false;
    for (service, needs) in &required {
        let raised = own.filter(|_| *service == draft.spec().service);
        let floor = raised.or_else(|| committed(draft.fleet, service));
        if floor.is_none_or(|floor| floor < *needs) {
            draft.wait(Reason::Schema(SchemaGate::MigrateFloor {
                service: service.clone(),
                floor,
                needs: *needs,
            }));
            waits = true;
        }
        // The transaction that raises the own floor compares its window itself.
        if raised.is_none() && !mutant::is("migrate-floors-are-not-compared") {
            let at = draft.fleet.service(service).map_or(Revision::ABSENT, |of| of.window_at());
            commit = commit.when(Precondition::At(Key::Window(service.clone()), at));
        }
    }
    let schema = draft.fleet.schema(&binding.id);
    let binds = schema.filter(|_| !binding.old_reads_migrated && !required.is_empty());
    if let Some(schema) = binds {
        commit = bound_by(commit, binding, schema, &required);
        // The transaction that raises the own floor writes its window itself.
        let others =
            required.iter().filter(|(service, _)| own.is_none() || **service != draft.spec().service);
        commit = contracted::told_to_agents(draft.fleet, commit, others);
    }
    (!waits).then_some(commit)
}

/// What the migrated rows require of the upgraded service.
pub(crate) fn bound_of_own(spec: &Spec, binding: &SchemaBinding) -> ServiceVersion {
    let floor = required(spec, binding).get(&spec.service).copied();
    floor.filter(|_| !binding.old_reads_migrated).unwrap_or(ServiceVersion::ABSENT)
}

/// Adds that from now on the schema requires these versions: its rows are about to become unreadable below them.
fn bound_by(
    commit: Commit,
    binding: &SchemaBinding,
    schema: &Stored<Schema>,
    required: &BTreeMap<ServiceName, ServiceVersion>,
) -> Commit {
    let mut body = schema.record.body.clone();
    for (service, needs) in required {
        let known = body.contracted.entry(service.clone()).or_insert(*needs);
        *known = (*known).max(*needs);
    }
    let key = Key::Schema(binding.id.clone());
    commit.when(Precondition::At(key.clone(), schema.at)).put(key, schema.record.with(body))
}
