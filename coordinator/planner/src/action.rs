//! What a turn decides, as data. An action that is carried out twice has the effect of one.

use crate::gate::Reason;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::key::Subject;
use tidegate_proto::{Commit, Digest, GroupName, ReleaseRevision, StreamName, UpgradeId};

/// What a turn plans, and why the rest waits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// In this order; the first failed action of a subject ends that subject's actions in this turn, and the next turn
    /// plans again.
    pub actions: Vec<Action>,
    /// Why each active upgrade does not move further.
    pub waiting: BTreeMap<UpgradeId, Vec<Reason>>,
    /// Why each waiting compute release, and each canary, does not move further.
    pub releases: BTreeMap<(StreamName, ReleaseRevision), Vec<Reason>>,
    /// Why each update of metadata does not move further.
    pub groups: BTreeMap<GroupName, Vec<Reason>>,
    /// How many event numbers were given, also to what is not in this plan.
    pub events: u64,
    /// On whose behalf something is not in this plan because the view is old: what is written instead shows how old.
    pub withheld: BTreeSet<Subject>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// A transaction of the store, with its preconditions and its event. The leadership adds the fence.
    Commit(PlannedCommit),
    /// Make sure that this job runs on the schema of an upgrade: one at a time; one that runs is not started again.
    Schema {
        /// Whose schema.
        upgrade: UpgradeId,
        /// Which job.
        job: SchemaJob,
    },
    /// Read every record again at one revision, look into the database, and make the certificate.
    Certify {
        /// For which upgrade.
        upgrade: UpgradeId,
    },
}

impl Action {
    /// On whose behalf it is done.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Commit(planned) => planned.subject.clone(),
            Self::Schema { upgrade, .. } | Self::Certify { upgrade } => Subject::Upgrade(upgrade.clone()),
        }
    }

    /// On which upgrade's schema it is work, where it is.
    pub fn schema_of(&self) -> Option<&UpgradeId> {
        match self {
            Self::Schema { upgrade, .. } | Self::Certify { upgrade } => Some(upgrade),
            Self::Commit(_) => None,
        }
    }
}

/// A transaction with what it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCommit {
    /// On whose behalf.
    pub subject: Subject,
    /// In a few words, for logs.
    pub what: String,
    /// What is written, and when.
    pub commit: Commit,
    /// Whether it rests on a recent view: then it is of no use later.
    pub by_recent_view: bool,
}

impl PlannedCommit {
    /// One that may be carried out later as well.
    pub(crate) fn new(subject: Subject, what: String, commit: Commit) -> Self {
        Self { subject, what, commit, by_recent_view: false }
    }
}

/// What can be done to a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum SchemaJob {
    /// See what it is and claim it, where the database did not answer when the upgrade was started.
    Bind,
    /// See how far it is.
    Look,
    /// Additive DDL and two-way sync triggers.
    Expand,
    /// Background fill.
    Migrate,
    /// Drop what only old code needed, on this certificate.
    Contract {
        /// Its digest, as stored in the upgrade.
        certificate: Digest,
    },
    /// Undo expand.
    Undo,
}

impl SchemaJob {
    /// The word for it.
    pub fn word(self) -> &'static str {
        self.into()
    }
}
