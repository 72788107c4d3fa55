//! Report: what the store shows, kept as a fleet. Every coordinator keeps one, the leader plans from it, followers
//! answer from it. It is told by the store's watch and asks nothing; it never writes.
//!
//! # Invariants
//! * What it shows is whole: all of one revision or none of it.
//! * An unreadable record is kept as such and closes its gates; a key that is none of ours is told once.
//! * When the store goes backward, it says so and goes on showing that trouble until a person has acted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
use tidegate_planner::{Fleet, Stored};
use tidegate_proto::record::Malformed;
use tidegate_proto::record::leader::Leader;
use tidegate_proto::record::waiting::Waiting;
use tidegate_proto::{Key, Revision, UpgradeId, Value};
use tidegate_store::{Change, Entry, Scope, Seen, Snapshot, Store};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What is seen, besides the fleet itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sight {
    /// Up to where.
    pub revision: Revision,
    /// Why nothing may be decided from it; none = all is well.
    pub trouble: Option<Trouble>,
}

/// Why nothing may be decided from what is seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It has just begun.
    #[error("the store has not been read yet")]
    Unread,
    /// The store is away.
    #[error("the store is away ({0}); nothing is decided until it is back")]
    Away(String),
    /// The store is another than it was: a backup was restored, or it is blank.
    #[error(
        "the store was at revision {0} and is at {1} now: it was restored from a backup or replaced, and nothing acts until a person has looked at it and restarted the coordinators"
    )]
    Restored(Revision, Revision),
}

/// All that is kept.
#[derive(Debug, Default)]
pub struct Picture {
    /// The fleet.
    pub fleet: Fleet,
    /// What each upgrade was last said to wait for.
    pub waiting: BTreeMap<UpgradeId, Stored<Waiting>>,
    /// Who leads.
    pub leader: Option<Stored<Leader>>,
}

/// The store's state as this coordinator sees it.
#[derive(Debug)]
pub struct Mirror {
    picture: RwLock<Picture>,
    sight: watch::Sender<Sight>,
}

impl Mirror {
    /// A mirror that has seen nothing.
    pub fn new() -> Arc<Self> {
        let sight = Sight { trouble: Some(Trouble::Unread), ..Sight::default() };
        Arc::new(Self { picture: RwLock::default(), sight: watch::Sender::new(sight) })
    }

    /// What it shows. Held for a computation only, never over an await.
    pub fn picture(&self) -> RwLockReadGuard<'_, Picture> {
        self.picture.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it sees, and whether it may be trusted; changes whenever anything does.
    pub fn sight(&self) -> watch::Receiver<Sight> {
        self.sight.subscribe()
    }

    /// Why nothing may be decided now.
    pub fn trouble(&self) -> Option<Trouble> {
        self.sight.borrow().trouble.clone()
    }

    /// Waits until it shows `revision` or a later one and is well.
    pub async fn reaches(&self, revision: Revision) {
        let mut sight = self.sight();
        // The sender lives as long as this mirror, so the wait has no other end.
        let _ = sight.wait_for(|now| now.revision >= revision && now.trouble.is_none()).await;
    }

    /// The same, for at most `limit`; whether it did.
    pub async fn reaches_within(&self, revision: Revision, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.reaches(revision)).await.is_ok()
    }

    /// Keeps it true until cancelled.
    pub async fn follow(self: Arc<Self>, store: Store, cancel: CancellationToken) {
        let mut seen = store.watch(vec![Scope::All], cancel);
        let mut strangers = BTreeSet::new();
        while let Some(next) = seen.recv().await {
            self.take_in(next, &mut strangers);
        }
    }

    fn take_in(&self, seen: Seen, strangers: &mut BTreeSet<String>) {
        match seen {
            Seen::Listed(snapshot) => {
                for (key, why) in &snapshot.foreign {
                    tell_stranger(strangers, key, why);
                }
                let revision = snapshot.revision;
                let picture = Picture::of(snapshot);
                self.change(|kept| *kept = picture);
                self.sees(revision, true);
            }
            Seen::Changed { revision, changes } => {
                self.change(|picture| {
                    for change in changes {
                        match change {
                            Change::Put(entry) => picture.put(entry),
                            Change::Gone { key, .. } => picture.gone(&key),
                            Change::Foreign { key, why, .. } => tell_stranger(strangers, &key, &why),
                        }
                    }
                    picture.fleet.set_revision(revision);
                });
                self.sees(revision, false);
            }
            Seen::Progress { revision } => {
                self.change(|picture| picture.fleet.set_revision(revision));
                self.sees(revision, false);
            }
            Seen::Lost { why, .. } => self.in_trouble(Trouble::Away(why)),
            Seen::Restored { seen, found } => self.in_trouble(Trouble::Restored(seen, found)),
            Seen::Regained => self.sight.send_modify(|sight| {
                if matches!(sight.trouble, Some(Trouble::Away(_))) {
                    sight.trouble = None;
                }
            }),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Picture)) {
        change(&mut self.picture.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn sees(&self, revision: Revision, listed: bool) {
        self.sight.send_modify(|sight| {
            sight.revision = revision;
            let heals = listed && !matches!(sight.trouble, Some(Trouble::Restored(..)));
            if heals || matches!(sight.trouble, Some(Trouble::Away(_))) {
                sight.trouble = None;
            }
        });
    }

    fn in_trouble(&self, trouble: Trouble) {
        self.sight.send_modify(|sight| {
            if !matches!(sight.trouble, Some(Trouble::Restored(..))) {
                tracing::warn!(%trouble, "nothing is decided");
                sight.trouble = Some(trouble);
            }
        });
    }
}

/// A key with its record, or why it is none, and its mod_revision.
type OfTheFleet = (Key, Result<Value, Malformed>, Revision);

impl Picture {
    /// What a snapshot shows.
    pub fn of(snapshot: Snapshot) -> Self {
        let mut picture = Self::default();
        let of_the_fleet = snapshot.entries.into_iter().filter_map(|entry| picture.take_in(entry));
        let fleet = Fleet::load(of_the_fleet, snapshot.revision);
        Self { fleet, ..picture }
    }

    fn put(&mut self, entry: Entry) {
        if let Some((key, value, at)) = self.take_in(entry) {
            self.fleet.put(key, value, at);
        }
    }

    /// Keeps what is not the fleet's; gives back what is.
    fn take_in(&mut self, entry: Entry) -> Option<OfTheFleet> {
        if let Err(why) = &entry.value {
            tracing::warn!(key = %entry.key, %why, "a record cannot be read; gates that depend on it stay closed");
        }
        let at = entry.mod_revision;
        match (entry.key, entry.value) {
            (Key::Waiting(id), Ok(Value::Waiting(record))) => {
                drop(self.waiting.insert(id, Stored { record, at }))
            }
            (Key::Leader, Ok(Value::Leader(record))) => self.leader = Some(Stored { record, at }),
            (Key::Leader, Err(_)) => self.leader = None,
            (key, value) => return Some((key, value, at)),
        }
        None
    }

    fn gone(&mut self, key: &Key) {
        match key {
            Key::Waiting(id) => drop(self.waiting.remove(id)),
            Key::Leader => self.leader = None,
            key => self.fleet.delete(key),
        }
    }
}

fn tell_stranger(told: &mut BTreeSet<String>, key: &str, why: &impl std::fmt::Display) {
    // Bounded: whoever floods the prefix with foreign keys is told of often enough.
    if told.len() < 1000 && told.insert(key.to_owned()) {
        tracing::warn!(key, %why, "a key under the prefix is none of ours; it is left alone");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(revision: i64) -> Seen {
        Seen::Listed(Snapshot { revision: Revision(revision), ..Snapshot::default() })
    }

    fn mirror_that_saw(seen: impl IntoIterator<Item = Seen>) -> Arc<Mirror> {
        let mirror = Mirror::new();
        let mut strangers = BTreeSet::new();
        seen.into_iter().for_each(|seen| mirror.take_in(seen, &mut strangers));
        mirror
    }

    #[test]
    fn nothing_is_decided_before_the_first_look_and_while_the_store_is_away() {
        assert_eq!(mirror_that_saw([]).trouble(), Some(Trouble::Unread));
        let lost = || Seen::Lost { since: tokio::time::Instant::now(), why: "refused".to_owned() };
        assert_eq!(mirror_that_saw([listed(7), lost()]).trouble(), Some(Trouble::Away("refused".to_owned())));
        let back =
            mirror_that_saw([listed(7), lost(), Seen::Regained, Seen::Progress { revision: Revision(9) }]);
        assert_eq!((back.trouble(), back.sight().borrow().revision), (None, Revision(9)));
    }

    #[test]
    fn a_restored_store_is_not_forgotten_by_reading_it_again() {
        let restored = Seen::Restored { seen: Revision(90), found: Revision(12) };
        let lost = Seen::Lost { since: tokio::time::Instant::now(), why: "away".to_owned() };
        let mirror = mirror_that_saw([listed(90), restored, listed(12), lost, Seen::Regained, listed(13)]);
        assert_eq!(mirror.trouble(), Some(Trouble::Restored(Revision(90), Revision(12))));
    }

    #[test]
    fn a_change_heals_what_only_its_absence_was() {
        let lost = Seen::Lost { since: tokio::time::Instant::now(), why: "away".to_owned() };
        let changed = Seen::Changed { revision: Revision(8), changes: Vec::new() };
        assert_eq!(mirror_that_saw([listed(7), lost, changed]).trouble(), None);
    }
}
