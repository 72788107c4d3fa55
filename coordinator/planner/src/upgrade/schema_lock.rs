//! The lock on a schema (rule 9: at most one active upgrade per schema): taken when an upgrade is started, or in
//! preflight where the database did not answer then.

use crate::fleet::Fleet;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::active::Active;
use tidegate_proto::record::schema::Schema;
use tidegate_proto::record::upgrade::SchemaBinding;
use tidegate_proto::spec::Spec;
use tidegate_proto::value::ActiveSchema;
use tidegate_proto::{Key, Revision, ServiceName, UpgradeId};

/// Why a schema is not free for an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFree {
    /// Another upgrade holds it.
    #[error(
        "upgrade {holder} holds schema {schema}: one at a time; `tidegate upgrade explain {holder}` says where it stands"
    )]
    Held {
        /// Who.
        holder: UpgradeId,
        /// What.
        schema: tidegate_proto::SchemaName,
    },
    /// A service that shares it is not spoken of.
    #[error(
        "{service} shares this schema, and the spec does not say which version of it may meet the contracted form: name it in schema.shared_with"
    )]
    Forgotten {
        /// Which.
        service: ServiceName,
    },
    /// What cannot be read is no free lock.
    #[error("the record {key} {why}: nothing is started over it")]
    Unreadable {
        /// Which.
        key: String,
        /// Why.
        why: String,
    },
}

impl NotFree {
    /// What ends it without a person, where something does.
    pub fn until(&self) -> Option<String> {
        match self {
            Self::Held { holder, .. } => Some(format!("upgrade {holder} is over")),
            Self::Forgotten { .. } | Self::Unreadable { .. } => None,
        }
    }
}

/// Whether an upgrade by this spec may take the schema.
pub fn free(fleet: &Fleet, spec: &Spec, schema: &SchemaBinding) -> Result<(), NotFree> {
    let ours = |key: &Key| match key {
        Key::ActiveSchema(id) | Key::Schema(id) => *id == schema.id,
        _ => false,
    };
    if let Some((key, why, _)) = fleet.unreadable().find(|(key, ..)| ours(key)) {
        return Err(NotFree::Unreadable { key: key.to_string(), why: why.to_string() });
    }
    let asked = spec.schema.as_ref();
    let named = |service: &ServiceName| {
        *service == spec.service || asked.is_some_and(|asked| asked.shared_with.contains_key(service))
    };
    let known = fleet.schema(&schema.id);
    if let Some(service) = known.and_then(|known| known.services.keys().find(|service| !named(service))) {
        return Err(NotFree::Forgotten { service: service.clone() });
    }
    match fleet.schema_lock(&schema.id) {
        Some((holder, _)) => Err(NotFree::Held { holder: holder.clone(), schema: schema.id.clone() }),
        None => Ok(()),
    }
}

/// Adds the lock and the schema's record, with their preconditions.
pub fn take(fleet: &Fleet, commit: Commit, id: &UpgradeId, spec: &Spec, schema: &SchemaBinding) -> Commit {
    let key = Key::ActiveSchema(schema.id.clone());
    let lock = ActiveSchema(Active { upgrade: id.clone() });
    let commit = commit.when(Precondition::At(key.clone(), Revision::ABSENT)).put(key, lock);
    let mut services = spec.schema.as_ref().map(|asked| asked.shared_with.clone()).unwrap_or_default();
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
