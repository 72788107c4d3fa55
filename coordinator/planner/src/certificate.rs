//! The proof on which a contract runs (rule 1): what was read, at one revision, of every service that shares the
//! schema, and of the database. It holds the evidence itself, so that a reader of the text can check every condition
//! again, without a store.
//!
//! # Invariants
//! * It is made from a fresh read at one revision R, and entering contract compares what R saw.
//! * Each part is proved, or says why it does not apply. Nothing else is a certificate.

mod allowed;
mod conditions;
mod seen;

pub use allowed::{SESSION, accepted, allowed_sessions};
pub(crate) use conditions::services_flaws;
pub use conditions::{False, check, joined, new_form, sessions_flaws, standing_flaws, undo_flaws};
pub(crate) use seen::services_seen;
pub use tidegate_proto::record::upgrade::SESSIONS;

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::record::upgrade::Decision;
use tidegate_proto::{Digest, NodeId, Revision, SchemaName, ServiceName, ServiceVersion, TermId, UpgradeId};

/// The certificate's form; a reader refuses one that it does not know.
pub const FORMAT: u32 = 1;

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The form of this text.
    pub format: u32,
    /// The upgrade that contracts.
    pub upgrade: UpgradeId,
    /// The schema that is contracted.
    pub schema: SchemaName,
    /// The digest of the migrations.
    pub migrations: Digest,
    /// The leadership that made it.
    pub term: TermId,
    /// The revision of the store at which everything was read.
    pub read_at: Revision,
    /// Every service that shares the schema, with the lowest version that may meet its contracted form.
    pub required: BTreeMap<ServiceName, ServiceVersion>,
    /// What was read of each of them.
    pub services: BTreeMap<ServiceName, ServicePart>,
    /// Whether the spec asked for a person's approval.
    pub approval_asked: bool,
    /// The approval.
    pub approval: Part<Decision>,
    /// Rows that the migration has not reached.
    pub pending_rows: Part<Rows>,
    /// Sessions on the schema, on all endpoints, prepared transactions too.
    pub sessions: Part<BTreeSet<Session>>,
    /// Sessions that are no service of ours and may stay, by name.
    pub allowed_sessions: BTreeSet<String>,
    /// The endpoints whose sessions were read, by the environment variables that hold their URLs; empty in
    /// certificates of the time when the database's own URL was the only one.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub endpoints: BTreeSet<String>,
}

/// A part of the proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Part<T> {
    /// With this evidence.
    Proved(T),
    /// For this reason.
    NotApplicable(String),
}

/// What was read of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServicePart {
    /// The committed window; none = there is none.
    pub window: Option<WindowSeen>,
    /// Every instance that counts.
    pub instances: BTreeMap<NodeId, InstanceSeen>,
    /// Every instance that a person said is gone.
    pub decommissioned: BTreeMap<NodeId, Gone>,
    /// A person named the service as one without instances.
    pub named_empty: bool,
}

/// A committed window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowSeen {
    /// Its mod_revision.
    pub at: Revision,
    /// The lowest version that may be admitted.
    pub floor: ServiceVersion,
    /// The highest.
    pub ceiling: ServiceVersion,
}

/// What was read of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceSeen {
    /// The mod_revision of its last admission.
    pub admission: Revision,
    /// The version that was admitted.
    pub admitted: ServiceVersion,
    /// The mod_revision of its report.
    pub report: Revision,
    /// The version that it reported; none = unknown.
    pub reported: Option<ServiceVersion>,
    /// The admission that the report belongs to.
    pub report_admission: Revision,
    /// The mod_revision of the window that it acknowledged.
    pub acknowledged: Revision,
}

/// What was read of an instance that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gone {
    /// The mod_revision of its last admission.
    pub admission: Revision,
    /// The version that was admitted.
    pub admitted: ServiceVersion,
    /// The admission that the declaration covers.
    pub covers: Revision,
    /// Who said so.
    pub who: String,
    /// Why.
    pub why: String,
    /// How it was stopped or fenced.
    pub stopped_how: Option<String>,
}

/// Rows that a migration has not reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// How many.
    pub pending: u64,
}

/// A session on the schema. What former versions did not record of it is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Its `application_name`; the global id of a prepared transaction.
    pub name: String,
    /// What it is: `session`, `prepared transaction`, …
    pub kind: String,
    /// The endpoint that listed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Its server process there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i64>,
    /// The database user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The client's address; absent for a local socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

/// A certificate with its digest: what `tidegate upgrade certificate` prints and `tidegate certificate verify` reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sealed {
    /// The certificate.
    pub certificate: Certificate,
    /// The sha256 of its canonical text.
    pub digest: Digest,
}

impl Certificate {
    /// Its canonical text: JSON, fields in order, maps sorted, no spaces.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("a certificate has string keys only, so it is always JSON")
    }

    /// The digest of its text.
    pub fn digest(&self) -> Digest {
        Digest::of(self.text().as_bytes())
    }
}

impl Sealed {
    /// Checks the digest, then every condition; names the first that is false.
    pub fn verify(&self) -> Result<(), False> {
        let found = self.certificate.digest();
        if found != self.digest {
            return Err(False {
                part: "digest".to_owned(),
                why: format!("the text has digest {found}, not {}", self.digest),
            });
        }
        match check(&self.certificate).into_iter().next() {
            Some(found) => Err(found),
            None => Ok(()),
        }
    }
}
