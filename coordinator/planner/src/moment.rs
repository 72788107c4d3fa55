//! What a turn knows besides the fleet: who leads, how long things have been waiting, what databases show. Time is
//! an argument; nothing below this asks a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::{EventSeq, Subject};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::event::Event;
use tidegate_proto::record::upgrade::{SchemaBinding, Upgrade};
use tidegate_proto::{
    GroupName, InstanceId, Key, Revision, ServiceName, ServiceVersion, StreamName, TermId, UpgradeId,
};

/// The leadership under which a turn is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leading {
    /// Its random id.
    pub term: TermId,
    /// The create revision of the leader's key.
    pub revision: Revision,
}

/// How long an upgrade has waited: what the record says plus what this leader has counted since it saw the record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Elapsed {
    /// Milliseconds without progress.
    pub stalled_ms: u64,
    /// Milliseconds in this phase.
    pub phase_ms: u64,
}

/// How old the view is from which a turn is planned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ViewAge {
    /// Milliseconds since this leader sent the last of its writes that the view shows: all that was written before that is in
    /// the view.
    pub age_ms: u64,
    /// How many milliseconds passed until this leader saw that write.
    pub shown_after_ms: u64,
}

/// For which decision a database was looked at: the step at which its upgrade was, how many approvals it had, and how
/// often it was resumed. What was seen for another one is an old look, and nothing new begins on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LookedFor {
    step: String,
    approvals: usize,
    resumed: u32,
}

impl LookedFor {
    /// The decision before which an upgrade is now.
    pub fn of(upgrade: &Upgrade) -> Self {
        Self { step: upgrade.phase.step(), approvals: upgrade.approvals.len(), resumed: upgrade.resumed }
    }
}

/// Whether the contract of an upgrade's own migrations has begun, by the database's history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ContractBegun {
    /// It has not, or contract has nothing to do.
    #[default]
    No,
    /// Of migrations that another owner had expanded, or whose expand no undo takes back.
    OfOthers,
    /// Of a migration that this upgrade had expanded.
    Own,
}

/// A contract that came after the migrations of an upgrade, by the database's history: it has removed what only the versions
/// before it need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaterContract {
    /// The migration.
    pub migration: String,
    /// The first version that knows it; none where the coordinator does not have its file.
    pub version: Option<ServiceVersion>,
    /// The upgrade that began it; none = a person, or not recorded.
    pub by: Option<UpgradeId>,
}

impl fmt::Display for LaterContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "migration {} (", self.migration)?;
        match self.version {
            Some(version) => write!(f, "version {version}, ")?,
            None => f.write_str("its file is not on this coordinator, ")?,
        }
        match &self.by {
            Some(by) => write!(f, "upgrade {by})"),
            None => f.write_str("by hand)"),
        }
    }
}

/// What the schema worker has seen in the database of an upgrade.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaFacts {
    /// The decision for which this was seen; none = not seen for any, or the last attempt did not succeed.
    pub looked_for: Option<LookedFor>,
    /// How long the leader had led when the look at it ended, in milliseconds.
    pub looked_ms: u64,
    /// Every expand step is done, and no undo has begun.
    pub expanded: bool,
    /// Every migrate step was done, whatever rows have come since.
    pub filled: bool,
    /// Every migrate step is done, and no row is left; false where the next decision does not need the rows, which are
    /// not counted then.
    pub migrated: bool,
    /// Whether migrate of a migration of the upgrade's own has begun, by the database's history.
    pub migrate_begun: bool,
    /// Every contract step is done.
    pub contracted: bool,
    /// Whether any contract step has begun.
    pub contract_begun: ContractBegun,
    /// The upgrades that began to contract migrations of this one.
    pub contracted_by: Vec<UpgradeId>,
    /// Contracts that came after the migrations of this upgrade.
    pub later: Vec<LaterContract>,
    /// The lowest version that may run of the service whose upgrades change the schema. The history shows which contracts have
    /// begun; each removes what lower versions use.
    pub requires: Option<ServiceVersion>,
    /// The same of each service that shares the schema, where the spec of a refused start says it.
    pub requires_of_sharing: BTreeMap<ServiceName, ServiceVersion>,
    /// A migration at or below `from` that the database does not show expanded and filled, with the command that finishes
    /// it: the versions on both sides of the upgrade use it.
    pub unfinished: Option<String>,
    /// The database holds nothing that Tidegate ever did.
    pub unclaimed: bool,
    /// Expand was undone, or was never begun.
    pub clean: bool,
    /// What an undo leaves in place, in words: irreversible steps, and what another owner expanded.
    pub left: Vec<String>,
    /// What forbids to begin, with the command that helps: it is found before the upgrade is bound to its schema.
    pub obstacles: Vec<String>,
    /// Why the database cannot list its sessions, where it cannot: contract then needs an approval that accepts that.
    pub sessions_unknown: Option<String>,
    /// The job that runs now, in a word, with its progress.
    pub running: Option<String>,
    /// What the database was found to be, where the upgrade is not bound to it yet.
    pub found: Option<SchemaBinding>,
    /// Whether every migrate step was done where a job looked before it began, and it runs or did not succeed since. It begins
    /// only where the database shows what its phase builds on. None = there is another look since, or its own one failed.
    pub filled_before_job: Option<bool>,
    /// Why the last attempt did not succeed; it is tried again.
    pub trouble: Option<String>,
    /// The last term that the database obeyed, with the number that it keeps for it.
    pub obeyed: Option<(TermId, Revision)>,
    /// The service of the start that was refused because of this database; none = it is the database of an upgrade.
    pub refused_start: Option<ServiceName>,
}

impl SchemaFacts {
    /// Whether the last attempt to look at the database has shown what it holds. A job that does not succeed has looked before
    /// it began.
    pub(crate) fn was_seen(&self) -> bool {
        self.looked_for.is_some() || self.unclaimed || self.filled_before_job.is_some()
    }

    /// The lowest version of each service that may run, by the contracts in the database of a refused start, as far as is
    /// known.
    pub(crate) fn required_by_contracts(&self) -> impl Iterator<Item = (&ServiceName, ServiceVersion)> {
        let own = self.refused_start.as_ref().zip(self.requires);
        own.into_iter().chain(self.requires_of_sharing.iter().map(|(service, requires)| (service, *requires)))
    }
}

/// One instant of planning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Who plans.
    pub leader: Leading,
    /// For the `at` of records that people read; never for a decision.
    pub wall: Timestamp,
    /// By active upgrade.
    pub elapsed: BTreeMap<UpgradeId, Elapsed>,
    /// The number of the next event of this term.
    pub next_event: u64,
    /// By release stream: milliseconds since this leader saw its current record, which the record's counts lack.
    pub uncounted: BTreeMap<StreamName, u64>,
    /// The same by metadata group.
    pub group_uncounted: BTreeMap<GroupName, u64>,
    /// By instance whose agent has declined its last directive: milliseconds since this leader saw that it did.
    pub declined_ms: BTreeMap<InstanceId, u64>,
    /// By service with instances that its upgrade has ordered back into rotation: milliseconds since this leader saw the last of
    /// these orders.
    pub recalled_ms: BTreeMap<ServiceName, u64>,
    /// How long this leader has led, in milliseconds.
    pub leading_ms: u64,
    /// By active upgrade that has a schema; absent = nothing seen yet.
    pub schemas: BTreeMap<UpgradeId, SchemaFacts>,
    /// How much longer, in milliseconds, agents are waited for that may contradict a store which this coordinator has
    /// not seen before; 0 = they were heard.
    pub report_grace_left_ms: u64,
    /// How old the view is.
    pub view: ViewAge,
    /// Services with a commit that takes instances out and was not answered: the store may still carry it out.
    pub unanswered: BTreeSet<ServiceName>,
}

impl Moment {
    /// Adds an event to a commit, the `number`th of this term: from what to what, who did it, and why.
    pub(crate) fn with_event(
        &self,
        commit: Commit,
        (subject, number): (Subject, u64),
        [from, to]: [String; 2],
        who: &str,
        because: &str,
    ) -> Commit {
        let key = Key::Event(subject, EventSeq { term: self.leader.revision.0, number });
        let event = Event { from, to, because: because.to_owned(), who: who.to_owned(), at: self.wall };
        commit.when(Precondition::At(key.clone(), Revision::ABSENT)).put(key, event)
    }
}
