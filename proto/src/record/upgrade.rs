//! One run of a service from one version to the next: what was requested, its phase, and everything that another
//! coordinator needs to take the next step and repeat none.

use super::{Body, Timestamp};
use crate::name::{NodeId, SchemaName, ServiceName, UpgradeId};
use crate::spec::{ApprovalPoint, Spec};
use crate::{Digest, Release, ServiceVersion};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// An upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Upgrade {
    /// What was asked for.
    pub spec: Box<Spec>,
    /// The digest of the spec.
    pub digest: Digest,
    /// Who asked.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Its phase.
    pub phase: Phase,
    /// Set while a person, or the failure budget, holds it.
    pub paused: Option<Pause>,
    /// What persons have approved.
    #[serde(default)]
    pub approvals: BTreeMap<ApprovalPoint, Decision>,
    /// What a rollback returns to; known once preflight is left.
    pub former: Option<Former>,
    /// The schema change that goes with it.
    #[serde(default, rename = "schema_change")]
    pub schema: Option<SchemaBinding>,
    /// The digest of the certificate on which contract ran, once it has ended; none in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Digest>,
    /// How the fleet was divided; known once the roll begins.
    pub waves: Option<Division>,
    /// Instances that failed in their wave, as earlier versions kept them; now each has a record of its own
    /// ([`Exception`](super::exception::Exception)).
    #[serde(default)]
    pub failed: BTreeMap<NodeId, Failure>,
    /// Instances that a person skipped, as earlier versions kept them.
    #[serde(default)]
    pub skipped: BTreeMap<NodeId, Decision>,
    /// How often a person had it go on in spite of its failures: those of before count no more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resumed: u32,
    /// Milliseconds without progress, as last stored; a new leader goes on from it (never more than the truth).
    #[serde(default)]
    pub stalled_ms: u64,
    /// Milliseconds spent in this phase, as last stored.
    #[serde(default)]
    pub phase_ms: u64,
    /// How many instances were done when `stalled_ms` last restarted; of an upgrade that is over, when it ended (0 in
    /// records of earlier versions).
    #[serde(default)]
    pub done: u32,
    /// The time table: phases that were left, in order.
    #[serde(default)]
    pub timetable: Vec<PhaseTime>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Body for Upgrade {
    const SCHEMA: u32 = 3;
}

/// The phase of an upgrade (machine 1 of the design; its moves are the planner's).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Phase {
    /// Every check runs; all findings are listed.
    Preflight,
    /// Agents fetch the new code beside the old.
    Stage,
    /// Additive DDL and two-way sync triggers.
    Expand,
    /// Background fill.
    Migrate,
    /// Wave by wave.
    Roll {
        /// The wave that is being rolled, counted from 0.
        wave: u32,
    },
    /// Old code is removed from the nodes; the floor is in effect.
    Remove,
    /// What only old code needed is dropped, on this certificate. No rollback is possible from here.
    Contract {
        /// The digest of the stored certificate.
        certificate: Digest,
    },
    /// Every instance was seen at the new version, in rotation, healthy.
    Completed,
    /// Instances are returned to the old version.
    RollingBack {
        /// The phase in which the rollback began.
        from: PhaseName,
        /// The step that it is in.
        #[serde(alias = "retreat")]
        step: RollbackStep,
        /// Why it turned.
        because: String,
    },
    /// Every instance was seen back on the old version, in rotation; the window is as before.
    RolledBack {
        /// Why it turned.
        because: String,
    },
    /// It ended in preflight: it has moved no instance.
    Failed {
        /// Why.
        because: String,
    },
}

/// The steps of a rollback, in order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum RollbackStep {
    /// The old release is staged again where it was removed, the floor is withdrawn, and both are acknowledged.
    Restage,
    /// Instances are moved back.
    #[serde(alias = "walk")]
    Move,
    /// The ceiling is lowered to the old version and acknowledged.
    Lower,
    /// Expand is undone.
    Undo,
}

impl RollbackStep {
    fn word(self) -> &'static str {
        self.into()
    }
}

/// The part of a certificate that a database may be unable to give, as an approval names it.
pub const SESSIONS: &str = "sessions";

/// A phase without its data.
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
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each is the phase of the same name above")]
pub enum PhaseName {
    Preflight,
    Stage,
    Expand,
    Migrate,
    Roll,
    Remove,
    Contract,
    Completed,
    RollingBack,
    RolledBack,
    Failed,
}

impl Phase {
    /// Its name, with its wave or the step of its rollback.
    pub fn step(&self) -> String {
        match self {
            Self::Roll { wave } => format!("roll wave {}", wave + 1),
            Self::RollingBack { step, .. } => format!("rolling-back {}", step.word()),
            other => other.name().word().to_owned(),
        }
    }

    /// Its name.
    pub fn name(&self) -> PhaseName {
        match self {
            Self::Preflight => PhaseName::Preflight,
            Self::Stage => PhaseName::Stage,
            Self::Expand => PhaseName::Expand,
            Self::Migrate => PhaseName::Migrate,
            Self::Roll { .. } => PhaseName::Roll,
            Self::Remove => PhaseName::Remove,
            Self::Contract { .. } => PhaseName::Contract,
            Self::Completed => PhaseName::Completed,
            Self::RollingBack { .. } => PhaseName::RollingBack,
            Self::RolledBack { .. } => PhaseName::RolledBack,
            Self::Failed { .. } => PhaseName::Failed,
        }
    }

    /// Whether nothing more will happen.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Completed | Self::RolledBack { .. } | Self::Failed { .. })
    }
}

impl PhaseName {
    /// The word for it.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name().word())
    }
}

/// What holds an upgrade in its phase.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pause {
    /// Who: an operator, or `coordinator` for the failure budget.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Timestamp,
}

/// A person's decision: an approval, or that an instance is skipped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Decision {
    /// Who.
    pub who: String,
    /// Why, or a remark.
    #[serde(default)]
    pub why: String,
    /// What they accept by name that cannot be proved: `sessions`, where a database cannot list them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub accepts: BTreeSet<String>,
    /// When.
    pub at: Timestamp,
}

/// What a rollback returns to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Former {
    /// The release that ran.
    pub release: Release,
    /// The window as it was: floor and ceiling; none = there was none.
    pub window: Option<(ServiceVersion, ServiceVersion)>,
    /// The upgrade that had set it.
    pub window_set_by: Option<UpgradeId>,
}

/// The schema change of an upgrade, as it was found when the upgrade was started.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SchemaBinding {
    /// The id kept in the database.
    pub id: SchemaName,
    /// The digest of the migrations.
    pub migrations: Digest,
    /// Whether data is migrated before the roll (Glance) or after it, under the floor (Nova).
    pub order: MigrateOrder,
    /// Whether N-1 can read migrated rows; if not, entering migrate is the point of no return.
    pub old_reads_migrated: bool,
    /// The ids of its migrations: those above `from` and up to `to`. Empty in records that were written before they
    /// were listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<String>,
    /// What a rollback left in place in the database, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// Whether a rollback saw, at its end, that all stays which the new version of a sharing service uses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub form_left: bool,
    /// The floor that migrate requires of each service. Absent where the migrations require none, and in records that
    /// were written before the requirement was kept: the planner then derives it from the spec.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub migrate_floors: BTreeMap<ServiceName, ServiceVersion>,
}

/// When data is migrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MigrateOrder {
    /// Before the roll (Glance).
    BeforeRoll,
    /// After the roll, under the floor (Nova).
    AfterRoll,
}

/// How the fleet was divided when the roll began.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Division {
    /// The number of pages.
    pub pages: u32,
    /// The size of each wave.
    pub sizes: Vec<u32>,
}

/// An instance that failed in its wave.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Failure {
    /// The wave in which it failed.
    pub wave: u32,
    /// What was tried and found.
    pub reason: String,
    /// A person went on in spite of it: it no longer counts against the budget.
    #[serde(default)]
    pub accepted: bool,
    /// It failed while it was rolled back. One that had failed before the rollback began is still moved back.
    #[serde(default)]
    pub returning: bool,
    /// How often the upgrade had been resumed when it failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resumed: u32,
}

/// A phase that was left.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PhaseTime {
    /// The phase.
    pub phase: PhaseName,
    /// Milliseconds spent in it, as the leaders counted.
    pub ms: u64,
}
