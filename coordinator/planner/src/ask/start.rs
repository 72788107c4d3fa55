//! Start an upgrade: its record and its locks, in one transaction.

use super::{Asker, Refusal, RefusalKind, refuse, told};
use crate::fleet::Fleet;
use crate::moment::Moment;
use crate::preflight::findings;
use std::collections::BTreeMap;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::active::Active;
use tidegate_proto::record::schema::Schema;
use tidegate_proto::record::upgrade::{Phase, SchemaBinding, Upgrade};
use tidegate_proto::spec::Spec;
use tidegate_proto::value::ActiveSchema;
use tidegate_proto::{Key, Revision, ServiceName, UpgradeId, mutant};

/// What is asked for.
#[derive(Debug, Clone)]
pub struct StartRequest {
    /// The id that the upgrade shall have.
    pub id: UpgradeId,
    /// The spec.
    pub spec: Spec,
    /// The schema that goes with it, as the coordinator found it; demanded where the spec names one.
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
        return refuse(RefusalKind::Invalid, format!("the spec is not valid: {}", flaws.join("; ")));
    }
    if spec.schema.is_some() != schema.is_some() {
        return refuse(RefusalKind::Invalid, "the spec names a schema and none was found for it");
    }
    free(fleet, &spec, schema.as_ref())?;
    let blockers: Vec<String> =
        findings(fleet, &spec).into_iter().filter(|f| f.blocks).map(|f| f.what).collect();
    if !blockers.is_empty() {
        return refuse(
            RefusalKind::State,
            format!("preflight found what would stop the upgrade: {}", blockers.join("; ")),
        );
    }
    let commit = told(moment, Subject::Upgrade(id.clone()), &asker, "", "preflight");
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
        waves: None,
        failed: BTreeMap::new(),
        skipped: BTreeMap::new(),
        stalled_ms: 0,
        phase_ms: 0,
        done: 0,
        timetable: Vec::new(),
    };
    let key = Key::Upgrade(id);
    Ok(commit.when(Precondition::At(key.clone(), Revision::ABSENT)).put(key, body))
}

/// Rule 9: at most one active upgrade per service and per schema. What cannot be read is no free lock.
fn free(fleet: &Fleet, spec: &Spec, schema: Option<&SchemaBinding>) -> Result<(), Refusal> {
    let asked = |key: &Key| match key {
        Key::Active(service) | Key::Window(service) | Key::Budget(service) => *service == spec.service,
        Key::ActiveSchema(id) | Key::Schema(id) => schema.is_some_and(|schema| schema.id == *id),
        _ => false,
    };
    if let Some((key, why, _)) = fleet.unreadable().find(|(key, ..)| asked(key)) {
        return refuse(RefusalKind::State, format!("the record {key} {why}: nothing is started over it"));
    }
    if let Some((holder, _)) = fleet.lock(&spec.service) {
        return refuse(
            RefusalKind::State,
            format!(
                "upgrade {holder} of {} is active: one at a time; `tidegate upgrade explain {holder}` says where it stands",
                spec.service
            ),
        );
    }
    let held = schema.and_then(|s| fleet.schema_lock(&s.id).map(|(holder, _)| (s, holder)));
    let forgotten = schema.and_then(|s| fleet.schema(&s.id)).and_then(|known| {
        let named = |service: &ServiceName| {
            *service == spec.service
                || spec.schema.as_ref().is_some_and(|s| s.shared_with.contains_key(service))
        };
        known.services.keys().find(|service| !named(service)).cloned()
    });
    if let Some(service) = forgotten {
        return refuse(
            RefusalKind::Invalid,
            format!(
                "{service} shares this schema, and the spec does not say which version of it may meet the contracted form: name it in schema.shared_with"
            ),
        );
    }
    match held {
        Some((schema, holder)) => {
            refuse(RefusalKind::State, format!("upgrade {holder} holds schema {}: one at a time", schema.id))
        }
        None => Ok(()),
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
    let (Some(schema), Some(asked)) = (schema, &spec.schema) else { return commit };
    let key = Key::ActiveSchema(schema.id.clone());
    let commit = commit.when(Precondition::At(key.clone(), Revision::ABSENT)).put(key, ActiveSchema(active));
    let mut services = asked.shared_with.clone();
    services.insert(spec.service.clone(), spec.to);
    let (key, known) = (Key::Schema(schema.id.clone()), fleet.schema(&schema.id));
    let contracted = known.map(|known| known.contracted.clone()).unwrap_or_default();
    let body = Schema { services, contracted, migrations: schema.migrations, upgrade: id.clone() };
    let commit = commit.when(Precondition::At(key.clone(), known.map_or(Revision::ABSENT, |k| k.at)));
    match known {
        Some(known) => commit.put(key, known.record.with(body)),
        None => commit.put(key, body),
    }
}
