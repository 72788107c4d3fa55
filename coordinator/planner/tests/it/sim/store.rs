//! The store: carries commits out as etcd does, all preconditions first, then all writes at one new revision.

use std::collections::{BTreeMap, BTreeSet};
use tidegate_planner::Fleet;
use tidegate_proto::commit::{Commit, MAX_COMMIT_OPERATIONS, MAX_PLANNED_PRECONDITIONS, Precondition, Write};
use tidegate_proto::key::Kind;
use tidegate_proto::record::Malformed;
use tidegate_proto::{Key, Revision, Value};

#[derive(Clone, Default)]
pub(crate) struct Store {
    pub revision: i64,
    pub keys: BTreeMap<Key, (Value, i64, i64)>,
    fleet: Fleet,
    pub unchecked: bool,
}

impl Store {
    fn holds(&self, precondition: &Precondition) -> bool {
        let modified = |key: &Key| self.keys.get(key).map_or(0, |(_, modified, _)| *modified);
        match precondition {
            Precondition::At(key, revision) => modified(key) == revision.0,
            Precondition::CreatedAt(key, revision) => {
                self.keys.get(key).map_or(0, |(_, _, created)| *created) == revision.0
            }
            Precondition::NonePutAfter(kind, revision) => {
                self.of(*kind, None).all(|(modified, _)| modified <= revision.0)
            }
            Precondition::NonePutAfterWithin(kind, owner, revision) => {
                self.of(*kind, Some(owner)).all(|(modified, _)| modified <= revision.0)
            }
            Precondition::NoneCreatedAfter(kind, revision) => {
                self.of(*kind, None).all(|(_, created)| created <= revision.0)
            }
            Precondition::NoneCreatedAfterWithin(kind, owner, revision) => {
                self.of(*kind, Some(owner)).all(|(_, created)| created <= revision.0)
            }
        }
    }

    /// When each key of a kind was put last and created, of one owner or of all.
    fn of(&self, kind: Kind, owner: Option<&str>) -> impl Iterator<Item = (i64, i64)> {
        let is_of = move |key: &Key| {
            key.kind() == kind && (owner.is_none() || key.to_string().split('/').nth(1) == owner)
        };
        let keys = self.keys.iter().filter(move |(key, _)| is_of(key));
        keys.map(|(_, (_, modified, created))| (*modified, *created))
    }

    /// Whether it was carried out.
    pub(crate) fn commit(&mut self, commit: &Commit) -> bool {
        assert!(
            commit.writes.len() <= MAX_COMMIT_OPERATIONS && commit.when.len() <= MAX_PLANNED_PRECONDITIONS,
            "a transaction has at most 128 operations a side, and the fence takes two of them"
        );
        let mut seen = BTreeSet::new();
        for write in &commit.writes {
            let (Write::Put(key, _) | Write::Delete(key)) = write;
            assert!(seen.insert(key.clone()), "{key} is written twice in one transaction");
        }
        if !commit.when.iter().all(|p| self.holds(p)) {
            return false;
        }
        self.revision += 1;
        self.fleet.set_revision(Revision(self.revision));
        for write in &commit.writes {
            match write {
                Write::Put(key, value) => {
                    assert_eq!(key.kind(), value.kind(), "{key} holds a record of another kind");
                    let decoded = self.written(key, value);
                    let created = self.keys.get(key).map_or(self.revision, |(_, _, created)| *created);
                    self.fleet.put(key.clone(), Ok(decoded.clone()), Revision(self.revision));
                    self.keys.insert(key.clone(), (decoded, self.revision, created));
                }
                Write::Delete(key) => {
                    self.fleet.delete(key);
                    self.keys.remove(key);
                }
            }
        }
        true
    }

    /// The value as it is read again: through its bytes, unless a model that makes millions of writes is in a hurry.
    fn written(&self, key: &Key, value: &Value) -> Value {
        if self.unchecked {
            return value.clone();
        }
        let decoded = Value::decode(key, &value.encode()).expect("what is written can be read");
        assert_eq!(&decoded, value, "{key} is read as it was written");
        decoded
    }

    /// Drops the fleet; it must be rebuilt before it is read.
    pub(crate) fn forget_fleet(&mut self) {
        self.fleet = Fleet::new();
    }

    /// Rebuilds the fleet from the keys.
    pub(crate) fn rebuild(&mut self) {
        let records =
            self.keys.iter().map(|(key, (value, at, _))| (key.clone(), Ok(value.clone()), Revision(*at)));
        self.fleet = Fleet::load(records, Revision(self.revision));
    }

    /// A record is damaged.
    pub(crate) fn spoil(&mut self, key: &Key) {
        let at = self.keys.get(key).map_or(self.revision, |(_, at, _)| *at);
        self.fleet.put(key.clone(), Err(Malformed::Encoding), Revision(at));
    }

    pub(crate) fn put(&mut self, key: Key, value: impl Into<Value>) -> i64 {
        assert!(self.commit(&Commit::new().put(key, value)));
        self.revision
    }

    pub(crate) fn fleet(&self) -> &Fleet {
        &self.fleet
    }
}
