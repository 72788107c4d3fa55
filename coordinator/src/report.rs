//! Report: the store's content, kept as a fleet. Every coordinator keeps one, the leader plans from it, followers
//! answer from it. The store's watch updates it; it sends no queries and never writes.
//!
//! # Invariants
//! * Its snapshot is whole: all of one revision or none of it.
//! * An unreadable record is kept as such and closes its gates; a key that is none of ours is left alone. Both are logged,
//!   at a limited rate.
//! * When the store goes backward, the fleet remembers that until an operator has reconciled it: no decision uses it. A
//!   store that was not seen before is not used for decisions until the agents that may contradict it have reported.

mod complaints;

use complaints::Complaints;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
use tidegate_planner::{Fleet, Stored};
use tidegate_proto::key::Kind;
use tidegate_proto::record::Malformed;
use tidegate_proto::record::leader::Leader;
use tidegate_proto::record::stream::Stream;
use tidegate_proto::record::task::MAX_RESULTS_OF_NODE;
use tidegate_proto::record::waiting::Waiting;
use tidegate_proto::{Key, Revision, UpgradeId, Value, mutant};
use tidegate_store::{Change, Entry, Reader, Scope, Seen, Snapshot};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long agents are heard before anything is decided from a store on which something is under way and that was not
/// seen before: it may be a backup of one that went on, and they come back within their longest wait between two tries to
/// connect (2 s), and report.
pub const REPORT_GRACE: Duration = Duration::from_secs(3);

/// What is seen, besides the fleet itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncStatus {
    /// Up to where.
    pub revision: Revision,
    /// Why nothing may be decided from it; none = all is well.
    pub trouble: Option<Trouble>,
    /// How often the store was found behind what was seen of it.
    pub falls: u64,
}

/// Why nothing may be decided from what is seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It has not been read since this coordinator began; with the reason, where it is away.
    #[error("the store has not been read yet{}", in_brackets(.0.as_deref()))]
    Unread(Option<String>),
    /// The store is away.
    #[error("the store is away ({0}); nothing is decided until it is back")]
    Away(String),
}

fn in_brackets(why: Option<&str>) -> String {
    why.map(|why| format!(" ({why})")).unwrap_or_default()
}

/// All that is kept.
#[derive(Debug, Default)]
pub struct View {
    pub fleet: Fleet,
    /// What each upgrade was last said to wait for.
    pub waiting: BTreeMap<UpgradeId, Stored<Waiting>>,
    /// Who leads.
    pub leader: Option<Stored<Leader>>,
    /// Until when agents are heard before anything is decided; none = nothing was under way, and the store did not fall.
    report_grace_until: Option<Instant>,
    complaints: Complaints,
}

/// The store's state as this coordinator sees it.
#[derive(Debug)]
pub struct Mirror {
    view: RwLock<View>,
    sync_status: watch::Sender<SyncStatus>,
    report_grace: Duration,
}

impl Mirror {
    /// A mirror that has seen nothing.
    pub fn new() -> Arc<Self> {
        Self::with_report_grace(REPORT_GRACE)
    }

    /// The same, with this time for agents to report before anything is decided from a store that was not seen before and
    /// on which something is under way, or that fell back.
    pub fn with_report_grace(report_grace: Duration) -> Arc<Self> {
        let sync_status = SyncStatus { trouble: Some(Trouble::Unread(None)), ..SyncStatus::default() };
        Arc::new(Self { view: RwLock::default(), sync_status: watch::Sender::new(sync_status), report_grace })
    }

    /// What it shows. Held for a computation only, never over an await.
    pub fn view(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it sees, and whether it may be trusted; changes whenever anything does.
    pub fn sync_status(&self) -> watch::Receiver<SyncStatus> {
        self.sync_status.subscribe()
    }

    /// Why nothing may be decided now.
    pub fn trouble(&self) -> Option<Trouble> {
        self.sync_status.borrow().trouble.clone()
    }

    /// How often the store was found behind what was seen of it.
    pub fn falls(&self) -> u64 {
        self.sync_status.borrow().falls
    }

    /// Waits until the store is found behind what was seen of it once more than so often.
    pub async fn falls_beyond(&self, falls: u64) {
        let mut sync_status = self.sync_status();
        // The sender lives as long as this mirror, so the wait has no other end.
        let _ = sync_status.wait_for(|now| now.falls > falls).await;
    }

    /// Waits until it shows `revision` or a later one and is well.
    pub async fn reaches(&self, revision: Revision) {
        let mut sync_status = self.sync_status();
        // The sender lives as long as this mirror, so the wait has no other end.
        let _ = sync_status.wait_for(|now| now.revision >= revision && now.trouble.is_none()).await;
    }

    /// The same, for at most `limit`; whether it did.
    pub async fn reaches_within(&self, revision: Revision, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.reaches(revision)).await.is_ok()
    }

    /// Keeps it true until cancelled.
    pub async fn follow(self: Arc<Self>, store: Reader, cancel: CancellationToken) {
        let mut seen = store.watch(vec![Scope::All], cancel);
        while let Some(next) = seen.recv().await {
            self.take_in(next);
        }
    }

    fn take_in(&self, seen: Seen) {
        match seen {
            Seen::Listed(snapshot) => {
                let revision = snapshot.revision;
                let fresh = matches!(self.sync_status.borrow().trouble, Some(Trouble::Unread(_)));
                let view = View::of(snapshot);
                let report_grace = if fresh { self.report_grace } else { Duration::ZERO };
                self.change(|kept| *kept = view.after(kept, report_grace));
                self.sync_status.send_modify(|seen| (seen.revision, seen.trouble) = (revision, None));
            }
            Seen::Changed { revision, changes } => {
                self.change(|view| {
                    for change in changes {
                        match change {
                            Change::Put(entry) => view.put(entry),
                            Change::Gone { key, .. } => view.gone(&key),
                            Change::Foreign { key, why, .. } => view.complaints.log(&key, &why, STRANGER),
                        }
                    }
                    view.fleet.set_revision(revision);
                });
                self.sees(revision);
            }
            Seen::Progress { revision } => {
                self.change(|view| view.fleet.set_revision(revision));
                self.sees(revision);
            }
            Seen::Lost { why, .. } => self.went_away(why),
            Seen::Restored { seen, found } => {
                tracing::error!(%seen, %found, "the store fell back behind what was seen of it: nothing is decided");
                if !mutant::is("fall-of-the-store-is-forgotten") {
                    self.change(|view| {
                        view.fleet.fell_back(seen, found);
                        view.report_grace_until = Some(Instant::now() + self.report_grace);
                    });
                }
                self.sync_status.send_modify(|sync_status| sync_status.falls += 1);
            }
            Seen::Regained => self.sync_status.send_modify(|sync_status| {
                if matches!(sync_status.trouble, Some(Trouble::Away(_))) {
                    sync_status.trouble = None;
                }
            }),
        }
    }

    fn change(&self, change: impl FnOnce(&mut View)) {
        change(&mut self.view.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// After an outage that is one change of those that were missed, and no decision rests on the first of them alone.
    fn sees(&self, revision: Revision) {
        self.sync_status.send_modify(|sync_status| sync_status.revision = revision);
    }

    /// A store that was never read stays unread: there is no former state to answer from.
    fn went_away(&self, why: String) {
        self.sync_status.send_modify(|sync_status| {
            let trouble = match sync_status.trouble {
                Some(Trouble::Unread(_)) => Trouble::Unread(Some(why)),
                _ => Trouble::Away(why),
            };
            tracing::warn!(%trouble, "nothing is decided");
            sync_status.trouble = Some(trouble);
        });
    }
}

/// A key with its record, or why it is none, and its mod_revision.
type OfTheFleet = (Key, Result<Value, Malformed>, Revision);

impl View {
    /// What a snapshot shows.
    pub fn of(snapshot: Snapshot) -> Self {
        let mut view = Self::default();
        for (key, why) in &snapshot.foreign {
            view.complaints.log(key, why, STRANGER);
        }
        for (node, count) in snapshot.results.iter().filter(|(_, count)| **count > MAX_RESULTS_OF_NODE) {
            tracing::warn!(%node, count, "more results than the {MAX_RESULTS_OF_NODE} of one node that are read");
        }
        let of_the_fleet = snapshot.entries.into_iter().filter_map(|entry| view.take_in(entry));
        let fleet = Fleet::load(of_the_fleet, snapshot.revision);
        Self { fleet, ..view }
    }

    /// This view, where `former` was seen before; where nothing was, agents have `report_grace` to report.
    fn after(mut self, former: &Self, report_grace: Duration) -> Self {
        let reconciled = self.fleet.reconciliation().map_or(Revision::ABSENT, |by| by.at);
        // Where it was reconciled before this coordinator found the fall, the revisions alone do not show that.
        let stands = |(seen, found): &(Revision, Revision)| {
            reconciled <= *found && !self.fleet.was_reconciled_since(&former.fleet, *seen)
        };
        if let Some((seen, found)) = former.fleet.fall().filter(stands) {
            self.fleet.fell_back(seen, found);
        }
        let hears = !report_grace.is_zero() && self.may_act();
        self.report_grace_until =
            if hears { Some(Instant::now() + report_grace) } else { former.report_grace_until };
        self
    }

    /// Whether something is under way: an upgrade is active, a compute release waits or is in canary, or the document of a
    /// metadata group is updated.
    fn may_act(&self) -> bool {
        let moves = |stream: &Stream| !stream.pending.is_empty() || stream.canary.is_some();
        self.fleet.active_upgrades().next().is_some()
            || self.fleet.streams().any(|(_, stream)| moves(stream))
            || self.fleet.groups().any(|(_, group)| group.update.is_some())
    }

    /// How much longer, in milliseconds, agents are heard before anything is decided from this.
    pub fn report_grace_left_ms(&self) -> u64 {
        let left =
            self.report_grace_until.map_or(Duration::ZERO, |until| until.duration_since(Instant::now()));
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    fn put(&mut self, entry: Entry) {
        if let Some((key, value, at)) = self.take_in(entry) {
            self.fleet.put(key, value, at);
        }
    }

    /// Keeps what is not the fleet's; gives back what is.
    fn take_in(&mut self, mut entry: Entry) -> Option<OfTheFleet> {
        if entry.lease == 0 && entry.key.kind() == Kind::Report && entry.value.is_ok() {
            entry.value = Err(Malformed::Unleased);
        }
        if let Err(why) = &entry.value {
            self.complaints.log(
                &entry.key,
                why,
                "a record cannot be read; gates that depend on it stay closed",
            );
        }
        let at = entry.mod_revision;
        match (entry.key, entry.value) {
            (Key::Waiting(id), Ok(Value::Waiting(record))) => {
                // Of those that cannot be read, the fleet keeps this one, too.
                self.fleet.delete(&Key::Waiting(id.clone()));
                self.waiting.insert(id, Stored { record, at });
            }
            (Key::Leader, Ok(Value::Leader(record))) => self.leader = Some(Stored { record, at }),
            (Key::Leader, Err(_)) => self.leader = None,
            (key, value) => return Some((key, value, at)),
        }
        None
    }

    fn gone(&mut self, key: &Key) {
        match key {
            Key::Waiting(id) => {
                self.waiting.remove(id);
                self.fleet.delete(key);
            }
            Key::Leader => self.leader = None,
            Key::Report(..) if mutant::is("lapsed-report-is-kept") => {}
            key => self.fleet.delete(key),
        }
    }
}

/// What is said of a key below the prefix that is no key of Tidegate.
const STRANGER: &str = "a key under the prefix is none of ours; it is left alone";

#[cfg(test)]
mod tests;
