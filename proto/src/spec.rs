//! The spec of an upgrade: a YAML file that an operator keeps in version control. Here are its fields, their
//! defaults, and the checks that need nothing but the spec itself. Unknown fields are refused.

use crate::release::Release;
use crate::timing::{Drain, HealthTimes};
use crate::word::words;
use crate::{Amount, Digest, ReleaseTag, ServiceName, ServiceVersion};
use serde::{Deserialize, Serialize};

mod gate;
mod strategy;
pub use gate::RequiredGate;
pub(crate) use strategy::heat_steps;
pub use strategy::{CanaryStep, Strategy};

/// What an operator asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spec {
    /// The service to upgrade.
    pub service: ServiceName,
    /// The version that it runs.
    pub from: ServiceVersion,
    /// The version that it shall run: one hop above.
    pub to: ServiceVersion,
    /// The release that carries `to`.
    pub release: SpecRelease,
    /// How instances are grouped into waves. Absent = rolling by 1.
    #[serde(default)]
    pub strategy: Strategy,
    /// How many healthy instances must stay in rotation at any instant.
    #[serde(default = "one")]
    pub min_in_service: Amount,
    /// How many may be out of rotation at any instant, for whatever cause.
    #[serde(default = "one")]
    pub max_unavailable: Amount,
    /// A label; at most one of its values is out of rotation at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// When an instance counts as healthy.
    #[serde(default)]
    pub health: HealthTimes,
    /// How instances are drained.
    #[serde(default)]
    pub drain: Drain,
    /// How many failures are tolerated, and what follows beyond them.
    #[serde(default)]
    pub failures: Failures,
    /// The schema change that goes with the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<SpecSchema>,
    /// Phases that wait for a person.
    #[serde(default)]
    pub approvals: Vec<ApprovalPoint>,
    /// Verdicts of gate jobs that must be recorded as passed before anything is staged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires_gate: Vec<RequiredGate>,
}

fn one() -> Amount {
    Amount::Count(1)
}

/// The release of a spec; its version is the spec's `to`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpecRelease {
    /// Its tag.
    pub tag: ReleaseTag,
    /// The sha256 of its artifact.
    pub sha256: Digest,
}

/// The failure budget.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failures {
    /// Of the whole fleet.
    #[serde(default = "none")]
    pub tolerate: Amount,
    /// Of any one wave.
    #[serde(default)]
    pub per_wave: u32,
    /// Kinds of failure that do not count.
    #[serde(default)]
    pub ignore: Vec<IgnoredFailure>,
    /// What follows beyond the budget.
    #[serde(default)]
    pub then: Then,
}

fn none() -> Amount {
    Amount::Count(0)
}

impl Default for Failures {
    fn default() -> Self {
        Self { tolerate: none(), per_wave: 0, ignore: Vec::new(), then: Then::default() }
    }
}

/// A kind of failure that may be left out of the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum IgnoredFailure {
    /// The instance fell silent.
    Unreachable,
}

/// What follows beyond the failure budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Then {
    /// Roll back to the former version.
    #[default]
    Rollback,
    /// Stop and wait for a person.
    Pause,
}

/// The schema change of an upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpecSchema {
    /// Which database.
    pub database: DatabaseSource,
    /// The directory of migrations, below the coordinators' own `--migrations` directory.
    pub migrations: String,
    /// Every other service that shares the schema, with the lowest version that may meet its contracted form.
    #[serde(default)]
    pub shared_with: std::collections::BTreeMap<ServiceName, ServiceVersion>,
    /// Services of `shared_with` that have no instance, and are named here so that this is no accident.
    #[serde(default)]
    pub empty: Vec<ServiceName>,
    /// Sessions on the schema that are no service of ours and may stay, by `application_name`.
    #[serde(default)]
    pub allow_sessions: Vec<String>,
    /// Further endpoints of the database, whose sessions are read as well: standbys that answer reads, and databases
    /// to which it is replicated logically.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<DatabaseSource>,
}

impl SpecSchema {
    /// The names of all endpoints whose sessions are read: the environment variables that hold their URLs.
    pub fn every_endpoint(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.database).chain(&self.endpoints).map(DatabaseSource::name)
    }
}

impl SpecSchema {
    /// How many other services may share a schema: the transactions that enter migrate and contract compare the window
    /// of each, and one transaction has at most 128 compares.
    pub const MAX_SHARING: usize = 100;
}

/// Where the coordinators find a database: never in the spec itself, which is kept in version control.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum DatabaseSource {
    /// The URL is in this environment variable of every coordinator.
    FromEnv(String),
}

impl DatabaseSource {
    /// The variable: messages name the database by it, because the URL holds a password.
    pub fn name(&self) -> &str {
        let Self::FromEnv(variable) = self;
        variable
    }
}

/// A phase that a person must approve before it is entered.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ApprovalPoint {
    /// Before any code is staged.
    Stage,
    /// Before the schema is expanded.
    Expand,
    /// Before data is migrated.
    Migrate,
    /// Before the first instance is drained.
    Roll,
    /// Before the old code is removed.
    Remove,
    /// Before what only old code needs is dropped.
    Contract,
}

words!(
    ApprovalPoint,
    NotAnApprovalPoint,
    "{0:?} is not a phase that can be approved: stage, expand, migrate, roll, remove and contract are"
);

/// What is wrong with a spec, by itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {what}")]
pub struct Flaw {
    /// Where.
    pub field: &'static str,
    /// What was found, and what is allowed.
    pub what: String,
}

impl Spec {
    /// The release to roll out.
    pub fn target(&self) -> Release {
        Release { tag: self.release.tag.clone(), sha256: self.release.sha256, version: self.to }
    }

    /// Everything that is wrong with the spec by itself; empty = valid.
    pub fn flaws(&self) -> Vec<Flaw> {
        let mut flaws = self.strategy.flaws();
        let mut flaw = |field, what| flaws.push(Flaw { field, what });
        let (from, to) = (self.from.get(), self.to.get());
        if to <= from {
            flaw("to", format!("{to} is not above `from` ({from}): a service version only moves forward"));
        } else if to - from > 1 {
            flaw("to", format!("from {from} to {to} is more than one hop: upgrade to {} first", from + 1));
        }
        if self.max_unavailable == Amount::Count(0) {
            flaw(
                "max_unavailable",
                "is 0, so no instance could ever be taken out: 1 or more, or a percentage, is allowed"
                    .to_owned(),
            );
        }
        if self.failure_domain.as_deref() == Some("") {
            flaw("failure_domain", "is empty: name a label of the nodes, such as zone".to_owned());
        }
        if self.health.healthy_deadline <= self.health.min_healthy_time {
            flaw(
                "health.healthy_deadline",
                format!(
                    "{} is not above min_healthy_time ({}), so no instance could ever become healthy in time",
                    self.health.healthy_deadline, self.health.min_healthy_time
                ),
            );
        }
        if self.health.progress_deadline < self.health.healthy_deadline {
            flaw(
                "health.progress_deadline",
                format!(
                    "{} is below healthy_deadline ({}): a wave would fail before an instance may fail",
                    self.health.progress_deadline, self.health.healthy_deadline
                ),
            );
        }
        if let Some(schema) = self.schema.as_ref().filter(|s| s.shared_with.len() > SpecSchema::MAX_SHARING) {
            let (found, most) = (schema.shared_with.len(), SpecSchema::MAX_SHARING);
            flaw(
                "schema.shared_with",
                format!(
                    "names {found} services, and at most {most} are allowed: the transaction that enters contract compares the window of each"
                ),
            );
        }
        if let Some(schema) = &self.schema {
            let mut names = std::collections::BTreeSet::new();
            if let Some(twice) = schema.every_endpoint().find(|name| !names.insert(*name)) {
                flaw(
                    "schema.endpoints",
                    format!("{twice} is named twice: list each endpoint once, and not the database itself"),
                );
            }
        }
        if self.schema.is_none()
            && self.approvals.iter().any(|p| {
                matches!(p, ApprovalPoint::Expand | ApprovalPoint::Migrate | ApprovalPoint::Contract)
            })
        {
            flaw("approvals", "names a schema phase, but the spec has no schema".to_owned());
        }
        flaws.extend(gate::flaw(self));
        flaws
    }

    /// The digest that identifies the spec.
    pub fn digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(self).expect("a spec has string keys only, so it is always JSON"))
    }
}

#[cfg(test)]
mod tests;
