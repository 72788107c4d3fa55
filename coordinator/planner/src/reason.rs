//! Why nothing moves: a value for each reason, so that "not now" cannot be said without one. Reasons are sorted by the
//! gate that is closed, one file each. A reason is one variant and one arm of its file: what it is blocked on, who owns
//! that, the next step, and the timeout.

mod budget;
mod causes;
mod gate;
mod metadata;
mod person;
mod release;
mod roll;
mod said;
mod schema;
mod store;
mod task;
mod version;

pub use budget::BudgetGate;
pub use causes::{Cause, Causes};
pub use gate::GateGate;
pub use metadata::MetadataGate;
pub use person::PersonGate;
pub use release::ReleaseGate;
pub use roll::RollGate;
pub use said::Waits;
pub use schema::SchemaGate;
pub use store::StoreGate;
pub use task::TaskGate;
pub use version::VersionGate;

use serde::{Deserialize, Serialize};
use std::fmt;
use tidegate_proto::record::need::Hold;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::{NodeId, ReleaseRevision, ReleaseTag, ServiceVersion, StreamName};

/// A few names out of many, and how many there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The first of them.
    pub first: Vec<NodeId>,
    /// How many in all.
    pub count: usize,
}

impl Sample {
    /// How many are named.
    pub const NAMED: usize = 5;

    /// A sample of `nodes`, of which there are `count`.
    pub fn of<'a>(nodes: impl Iterator<Item = &'a NodeId>, count: usize) -> Self {
        Self { first: nodes.take(Self::NAMED).cloned().collect(), count }
    }

    /// A sample of nodes that have to be counted.
    pub fn counted<'a>(nodes: impl Iterator<Item = &'a NodeId>) -> Self {
        let mut sample = Self::default();
        for node in nodes {
            if sample.count < Self::NAMED {
                sample.first.push(node.clone());
            }
            sample.count += 1;
        }
        sample
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// What an instance told of its failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The kind of failure.
    pub kind: String,
    /// What happened, where that was told.
    pub why: String,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.first.iter().map(NodeId::as_str).collect();
        f.write_str(&names.join(", "))?;
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
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

/// What computes have told of a canary, and what is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "its fields are what it names")]
pub struct CanaryCount {
    pub successes: usize,
    pub needed: Option<u32>,
    pub failures: usize,
    pub tolerated: u32,
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

            fn said(&self, waits: Waits<'_>) -> said::Said {
                match self {
                    $(Self::$gate(reason) => reason.said(waits),)*
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
    Gate(GateGate),
}

impl Reason {
    /// How many witnesses against a restored store are named.
    pub const WITNESSES: usize = 5;

    /// As `explain` shows it, and as the store keeps it; since when, the recorder knows.
    pub fn explained(&self, waits: Waits<'_>) -> WaitingFor {
        self.said(waits).waiting_for(self.kind())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said(Waits::Unnamed).blocked_on)
    }
}
