//! Why nothing moves: a value for each reason, so that "not now" cannot be said without one. Reasons are sorted by the
//! gate that is closed, one file each, with the conditions that build them in files below it. A reason is one variant and
//! one arm of its file: what it is blocked on, who owns that, the next step, and the timeout.

pub mod budget;
mod description;
pub(crate) mod metadata;
pub(crate) mod person;
pub mod preflight;
pub mod release;
pub(crate) mod roll;
pub mod schema;
pub mod store;
pub(crate) mod task;
pub(crate) mod verdict;
pub mod version;

pub use crate::fleet::{Cause, Causes, Sample};
pub use budget::BudgetGate;
pub use description::Waits;
pub use metadata::MetadataGate;
pub use person::PersonGate;
pub use release::ReleaseGate;
pub use roll::RollGate;
pub use schema::{MissingForm, SchemaGate};
pub use store::{Inclusion, StoreGate, unreconciled};
pub use task::TaskGate;
pub use verdict::VerdictGate;
pub use version::VersionGate;

use serde::{Deserialize, Serialize};
use std::fmt;
use tidegate_proto::record::need::Hold;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::{ReleaseRevision, ReleaseTag, ServiceVersion, StreamName};

/// An instance's signal of failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalledFailure {
    /// The kind of failure.
    pub kind: String,
    /// What happened, where that was reported.
    pub why: String,
}

/// Which compute release needs a service not to fall back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "its fields are what it names")]
pub struct NeededBy {
    pub stream: StreamName,
    pub revision: ReleaseRevision,
    pub tag: ReleaseTag,
    pub hold: Hold,
    pub needs: ServiceVersion,
}

/// The signals of a canary's computes, and the required numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "its fields are what it names")]
pub struct CanaryCount {
    pub successes: usize,
    pub needed: Option<u32>,
    pub failures: usize,
    pub tolerated: u32,
}

/// What a gate answers: whether a step may happen, and why not.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) is_open: bool,
    pub(crate) reasons: Vec<Reason>,
}

impl Answer {
    pub(crate) fn open() -> Self {
        Self { is_open: true, reasons: Vec::new() }
    }

    /// Closed, and the reason is given elsewhere.
    pub(crate) fn closed() -> Self {
        Self { is_open: false, reasons: Vec::new() }
    }

    /// Closed where there are any of these.
    pub(crate) fn of_any<R: Into<Reason>>(nodes: Sample, reason: impl FnOnce(Sample) -> R) -> Self {
        match nodes.is_empty() {
            true => Self::open(),
            false => Self::from(reason(nodes).into()),
        }
    }

    /// Open where both are.
    pub(crate) fn and(&mut self, other: Self) {
        self.is_open &= other.is_open;
        self.reasons.extend(other.reasons);
    }
}

impl From<Reason> for Answer {
    fn from(reason: Reason) -> Self {
        Self { is_open: false, reasons: vec![reason] }
    }
}

macro_rules! gates {
    ($($gate:ident($reasons:ident)),* $(,)?) => {
        /// A reason for waiting.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(untagged)]
        #[expect(missing_docs, reason = "each gate is described in its file")]
        pub enum Reason {
            $($gate($reasons),)*
        }

        impl Reason {
            /// Its kind, in kebab-case, as metrics and JSON have it.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$gate(reason) => reason.into(),)*
                }
            }

            fn describe(&self, waits: Waits<'_>) -> description::Description {
                match self {
                    $(Self::$gate(reason) => reason.describe(waits),)*
                }
            }
        }

        $(impl From<$reasons> for Reason {
            fn from(reason: $reasons) -> Self {
                Self::$gate(reason)
            }
        })*
    };
}

gates! {
    Version(VersionGate),
    Store(StoreGate),
    Roll(RollGate),
    Budget(BudgetGate),
    Person(PersonGate),
    Schema(SchemaGate),
    Release(ReleaseGate),
    Task(TaskGate),
    Metadata(MetadataGate),
    Verdict(VerdictGate),
}

impl Reason {
    /// Whether it ends by an approval, by the floor of another service, or by what another upgrade does to a shared schema:
    /// no deadline of this upgrade counts meanwhile.
    pub(crate) fn is_owned_by_others(&self) -> bool {
        matches!(
            self,
            Self::Person(PersonGate::Approval { .. })
                | Self::Schema(
                    SchemaGate::MigrateFloor { .. }
                        | SchemaGate::SharedForm { .. }
                        | SchemaGate::SharedRollback { .. }
                )
        )
    }

    /// As `explain` shows it, and as the store keeps it; since when, the recorder knows.
    pub fn explained(&self, waits: Waits<'_>) -> WaitingFor {
        self.describe(waits).waiting_for(self.kind())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(Waits::Unnamed).blocked_on)
    }
}
