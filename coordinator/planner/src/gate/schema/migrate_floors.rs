//! The floors that migrate requires: an old program that shares the schema would write past the fill, or could not
//! read what was filled. So migrate is entered once the committed floor of each service is there.
//!
//! # Invariants
//! * The transaction that enters migrate compares the window of every service whose floor was asked.
//! * A floor that follows what compute releases need is no evidence of what runs: it counts up to the lowest version that
//!   does, and the transaction compares that no instance came since.
//! * A floor that a reconciliation set counts up to what each instance that it disregarded is known to run.
//! * Where old programs cannot read migrated rows, the same transaction writes what was required into the schema's
//!   record: no service goes back below it.

use super::SchemaGate;
use crate::contracted;
use crate::fleet::{Fleet, Known, Sample, ServiceFleet, Stored};
use crate::gate::release::storage::raised_by_hand;
use crate::gate::store::{disregarded, unknown_and_disregarded, unreadable};
use crate::gate::version::known;
use crate::gate::{Answer, VersionGate};
use crate::release::floor::{none_came_to, proven, set_over};
use crate::upgrade::View;
use std::collections::BTreeMap;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::schema::Schema;
use tidegate_proto::record::upgrade::{MigrateOrder, SchemaBinding};
use tidegate_proto::record::window::Window;
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

/// The committed floor of a service; none = it has no window, or its floor follows needs and what runs is not known.
pub(crate) fn committed(fleet: &Fleet, service: &ServiceName) -> Option<ServiceVersion> {
    let of = fleet.service(service)?;
    let floor = proven(fleet, of, of.window()?);
    match follows_needs(of) && !of.is_empty() {
        true => of.lowest().map(|runs| runs.min(floor)),
        false => Some(floor),
    }
}

fn follows_needs(of: &ServiceFleet) -> bool {
    of.window().is_some_and(|window| window.follows_needs())
}

/// Of how many services whose floor follows needs the instances are compared one by one: two compares each, beside the windows
/// of up to a hundred services.
const ONE_BY_ONE: usize = 8;

/// Adds to a commit that the floors of these services are what they were.
fn same_floors(fleet: &Fleet, commit: Commit, services: &[&ServiceName]) -> Commit {
    let windows = services.iter().fold(commit, |commit, service| {
        let at = fleet.service(service).map_or(Revision::ABSENT, ServiceFleet::window_at);
        commit.when(Precondition::At(Key::Window((*service).clone()), at))
    });
    let is_followed = |service: &&ServiceName| fleet.service(service).is_some_and(follows_needs);
    let followed: Vec<&ServiceName> = services.iter().copied().filter(is_followed).collect();
    none_came_to(fleet.revision(), &followed, ONE_BY_ONE).into_iter().fold(windows, Commit::when)
}

/// What entering migrate compares and writes, or each floor that is missing. `own` is the floor of the upgraded service
/// once the same transaction is done, where that raises it.
pub(crate) fn reached(view: &View<'_>, own: Option<ServiceVersion>) -> Result<Commit, Answer> {
    let Some(binding) = view.upgrade.schema.as_ref() else { return Err(Answer::closed()) };
    let required = match mutant::is("migrate-floors-are-not-asked") {
        true => BTreeMap::new(),
        false => required(view.spec(), binding),
    };
    let mut compared = Vec::new();
    let mut answer = Answer::open();
    for (service, needs) in &required {
        let raised = own.filter(|_| *service == view.spec().service);
        let floor = raised.or_else(|| committed(view.fleet, service));
        if floor.is_none_or(|floor| floor < *needs) {
            let key = Key::Window(service.clone());
            answer.and(Answer::from(match view.fleet.unreadable_at(&key) {
                Some(why) => unreadable(&key, why),
                None => missing(view, service, floor, *needs).into(),
            }));
            answer.and(follows(view, service, *needs));
        }
        // The transaction that raises the own floor compares its window itself.
        if raised.is_none() && !mutant::is("migrate-floors-are-not-compared") {
            compared.push(service);
        }
    }
    if !answer.is_open {
        return Err(answer);
    }
    let mut commit = same_floors(view.fleet, Commit::new(), &compared);
    let schema = view.fleet.schema(&binding.id);
    if let Some(schema) = schema.filter(|_| !binding.old_reads_migrated && !required.is_empty()) {
        commit = bound_by(commit, binding, schema, &required);
        // The transaction that raises the own floor writes its window itself.
        let others = required.iter().filter(|(service, _)| own.is_none() || **service != view.spec().service);
        commit = contracted::named_in_windows(view.fleet, commit, others);
    }
    Ok(commit)
}

/// That a floor is missing. One that this upgrade has set follows what runs: no person raises it.
fn missing(
    view: &View<'_>,
    service: &ServiceName,
    floor: Option<ServiceVersion>,
    needs: ServiceVersion,
) -> SchemaGate {
    let of = view.fleet.service(service);
    let of = of.filter(|of| of.window().is_some_and(|window| window.set_by != *view.id));
    let by_hand = of.and_then(|of| raised_by_hand(view.fleet, of, needs));
    SchemaGate::MigrateFloor { service: service.clone(), floor, needs, by_hand }
}

/// Whether the floor of a sharing service can follow what runs, where this upgrade has set its window: an instance whose
/// version is not known holds it. Where a reconciliation has set it, the disregarded ones over which it counts less are named,
/// also those that claim nothing now.
fn follows(view: &View<'_>, service: &ServiceName, needs: ServiceVersion) -> Answer {
    let of = view.fleet.service(service).filter(|_| *service != view.spec().service);
    let Some((of, window)) = of.and_then(|of| Some((of, of.window()?))) else { return Answer::open() };
    if window.set_by != *view.id {
        if proven(view.fleet, of, window) >= window.floor {
            return Answer::open();
        }
        let mut answer = runs_over(view.fleet, of, window, needs);
        answer.and(disregarded(view.fleet, service));
        return answer;
    }
    let mut answer = known(of);
    answer.reasons.extend(unknown_and_disregarded(view.fleet, service));
    answer
}

/// Whether each disregarded instance over which a reconciliation has set a floor is known to run the required version. One that
/// contradicts the store is named with its claim.
fn runs_over(fleet: &Fleet, of: &ServiceFleet, window: &Window, needs: ServiceVersion) -> Answer {
    let name = || of.name().clone();
    let those = |is_it: &dyn Fn(Known) -> bool| {
        let each = set_over(fleet, of, window).filter(|i| !i.contradicts && is_it(i.known()));
        Sample::counted(each.map(|i| &i.node))
    };
    let silent = those(&|known| known == Known::Silent);
    let unknown = those(&|known| known == Known::Unknown);
    let below = those(&|known| matches!(known, Known::At(version) if version < needs));
    let mut answer = Answer::of_any(silent, |nodes| VersionGate::Silent { service: name(), nodes });
    answer.and(Answer::of_any(unknown, |nodes| VersionGate::VersionUnknown { service: name(), nodes }));
    answer.and(Answer::of_any(below, |nodes| VersionGate::Behind { service: name(), nodes, needs }));
    answer
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
