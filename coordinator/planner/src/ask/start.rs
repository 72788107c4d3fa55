//! Start an upgrade: its record and its locks, in one transaction.

use super::{Asker, Refusal, with_event};
use crate::fleet::Fleet;
use crate::gate::preflight::findings;
use crate::moment::Moment;
use crate::upgrade::schema_lock::{self, NotFree};
use std::collections::BTreeMap;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::active::Active;
use tidegate_proto::record::upgrade::{Phase, SchemaBinding, Upgrade};
use tidegate_proto::spec::Spec;
use tidegate_proto::{Key, Revision, UpgradeId, mutant};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct StartRequest {
    /// The id that the upgrade shall have.
    pub id: UpgradeId,
    /// The spec.
    pub spec: Spec,
    /// The schema that goes with it, as the coordinator found it. Absent where the spec names none, and where its
    /// database does not answer: then preflight waits for it.
    pub schema: Option<SchemaBinding>,
    /// Who asks.
    pub asker: Asker,
}

/// The commit that starts it. Flaws of the spec, a lock that is held, or a fleet that does not fit are refused here,
/// so that nothing is written for an upgrade that could not leave preflight.
pub fn start(fleet: &Fleet, moment: &Moment, request: StartRequest) -> Result<Commit, Refusal> {
    let StartRequest { id, spec, schema, asker } = request;
    let flaws: Vec<String> = spec.flaws().iter().map(ToString::to_string).collect();
    if !flaws.is_empty() {
        return Err(Refusal::invalid(format!("the spec is not valid: {}", flaws.join("; "))));
    }
    if spec.schema.is_none() && schema.is_some() {
        return Err(Refusal::invalid("a schema was found for a spec that names none"));
    }
    free(fleet, &spec, schema.as_ref())?;
    let blockers: Vec<String> =
        findings(fleet, &spec, schema.as_ref()).into_iter().filter(|f| f.blocks).map(|f| f.what).collect();
    if !blockers.is_empty() {
        return Err(Refusal::state(format!(
            "preflight found what would stop the upgrade: {}",
            blockers.join("; ")
        )));
    }
    unused(fleet, &id)?;
    let commit = with_event(moment, Subject::Upgrade(id.clone()), &asker, "", "preflight");
    let commit = lock(fleet, commit, &id, &spec, schema.as_ref());
    let digest = spec.digest();
    let body = Upgrade {
        spec: Box::new(spec),
        digest,
        by: asker.who,
        at: moment.wall,
        phase: Phase::Preflight,
        paused: None,
        approvals: BTreeMap::new(),
        former: None,
        schema,
        certificate: None,
        waves: None,
        failed: BTreeMap::new(),
        skipped: BTreeMap::new(),
        resumed: 0,
        stalled_ms: 0,
        phase_ms: 0,
        done: 0,
        timetable: Vec::new(),
    };
    let key = Key::Upgrade(id);
    Ok(commit.when(Precondition::At(key.clone(), Revision::ABSENT)).put(key, body))
}

/// An ID names one upgrade, also after its end: records, events and owners in databases go by it.
pub fn unused(fleet: &Fleet, id: &UpgradeId) -> Result<(), Refusal> {
    match fleet.upgrade(id) {
        None => Ok(()),
        Some(_) => Err(Refusal::state(format!(
            "there is an upgrade {id} already: choose another ID (`tidegate upgrade explain {id}` says where that one stands)"
        ))),
    }
}

/// Rule 9: at most one active upgrade per service and per schema. What cannot be read is no free lock.
fn free(fleet: &Fleet, spec: &Spec, schema: Option<&SchemaBinding>) -> Result<(), Refusal> {
    let asked = |key: &Key| match key {
        Key::Active(service) | Key::Window(service) | Key::Budget(service) => *service == spec.service,
        _ => false,
    };
    if let Some((key, why, _)) = fleet.unreadable().find(|(key, ..)| asked(key)) {
        return Err(Refusal::state(format!("the record {key} {why}: nothing is started over it")));
    }
    if let Some((holder, _)) = fleet.lock(&spec.service) {
        return Err(Refusal::state(format!(
            "upgrade {holder} of {} is active: one at a time; `tidegate upgrade explain {holder}` says where it stands",
            spec.service
        )));
    }
    match schema.map(|schema| schema_lock::free(fleet, spec, schema)) {
        Some(Err(forgotten @ NotFree::Forgotten { .. })) => Err(Refusal::invalid(forgotten.to_string())),
        Some(Err(not)) => Err(Refusal::state(not.to_string())),
        Some(Ok(())) | None => Ok(()),
    }
}

fn lock(
    fleet: &Fleet,
    commit: Commit,
    id: &UpgradeId,
    spec: &Spec,
    schema: Option<&SchemaBinding>,
) -> Commit {
    let active = Active { upgrade: id.clone() };
    let key = Key::Active(spec.service.clone());
    let commit = match mutant::is("lock-is-not-compared") {
        true => commit,
        false => commit.when(Precondition::At(key.clone(), Revision::ABSENT)),
    };
    let commit = commit.put(key, active.clone());
    match schema {
        Some(schema) => schema_lock::take(fleet, commit, id, spec, schema),
        None => commit,
    }
}
