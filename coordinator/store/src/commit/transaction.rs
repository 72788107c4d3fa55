//! A commit in the store's terms.

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};
use tidegate_proto::commit::MAX_COMMIT_OPERATIONS;
use tidegate_proto::{Commit, Key, Precondition, Prefix, Revision, Write, key::Kind, mutant};

/// How many bytes of a request each operation costs beside its key and record, at most.
const FRAME_BYTES: usize = 64;

/// A put, as it is sent.
pub(super) struct Put {
    pub(super) key: Key,
    pub(super) full: String,
    pub(super) bytes: Vec<u8>,
    /// The lease that it lives under; 0 = none.
    pub(super) lease: i64,
    /// The mod_revision that a precondition demands of this very key.
    pub(super) demanded: Option<Revision>,
}

/// A removal, as it is sent.
pub(super) struct Removal {
    pub(super) full: String,
    pub(super) demanded: Option<Revision>,
}

/// A commit, as it is sent.
pub(super) struct Sent {
    compares: Vec<Compare>,
    compare_bytes: usize,
    /// Preconditions on single keys, by their place in the commit, with the key to show when they do not hold.
    single: Vec<(usize, String)>,
    pub(super) puts: Vec<Put>,
    pub(super) removals: Vec<Removal>,
}

impl Sent {
    pub(super) fn new(commit: &Commit, prefix: &Prefix, lease: Option<i64>) -> Self {
        let mut sent = Self {
            compares: Vec::with_capacity(commit.when.len()),
            compare_bytes: 0,
            single: Vec::new(),
            puts: Vec::new(),
            removals: Vec::new(),
        };
        for (place, precondition) in commit.when.iter().enumerate() {
            sent.compare(place, precondition, prefix);
        }
        for write in &commit.writes {
            match write {
                Write::Put(key, value) => sent.puts.push(Put {
                    full: prefix.key(key),
                    bytes: value.encode(),
                    lease: lease.filter(|_| is_leased(key)).unwrap_or(0),
                    demanded: demanded(commit, key),
                    key: key.clone(),
                }),
                Write::Delete(key) => {
                    sent.removals.push(Removal { full: prefix.key(key), demanded: demanded(commit, key) })
                }
            }
        }
        sent
    }

    fn compare(&mut self, place: usize, precondition: &Precondition, prefix: &Prefix) {
        let (start, compare) = match precondition {
            Precondition::At(key, revision) => {
                let full = prefix.key(key);
                self.single.push((place, full.clone()));
                (full.clone(), Compare::mod_revision(full, CompareOp::Equal, revision.0))
            }
            Precondition::CreatedAt(key, revision) => {
                let full = prefix.key(key);
                self.single.push((place, full.clone()));
                (full.clone(), Compare::create_revision(full, CompareOp::Equal, revision.0))
            }
            Precondition::NonePutAfter(kind, revision) => {
                Range::all_of(prefix, *kind).none_after(Compare::mod_revision, *revision)
            }
            Precondition::NonePutAfterWithin(kind, owner, revision) => {
                Range::all_within(prefix, *kind, owner).none_after(Compare::mod_revision, *revision)
            }
            Precondition::NoneCreatedAfter(kind, revision) => {
                Range::all_of(prefix, *kind).none_after(Compare::create_revision, *revision)
            }
            Precondition::NoneCreatedAfterWithin(kind, owner, revision) => {
                Range::all_within(prefix, *kind, owner).none_after(Compare::create_revision, *revision)
            }
        };
        self.compare_bytes += 2 * start.len() + FRAME_BYTES;
        self.compares.push(compare);
    }

    /// How many bytes it has, about and never less.
    pub(super) fn bytes(&self) -> usize {
        let puts: usize = self.puts.iter().map(|put| put.full.len() + put.bytes.len() + FRAME_BYTES).sum();
        let removals: usize = self.removals.iter().map(|removal| removal.full.len() + FRAME_BYTES).sum();
        let shown: usize = self.single.iter().map(|(_, key)| key.len() + FRAME_BYTES).sum();
        let written_once = self.written_once().map_or(0, |put| put.full.len() + FRAME_BYTES);
        self.compare_bytes + puts + removals + shown + written_once
    }

    /// A put of a key that no other commit ever writes.
    fn written_once(&self) -> Option<&Put> {
        let is_one = |put: &&Put| matches!(put.key.kind(), Kind::Term | Kind::Event);
        // No side of a transaction has more operations.
        self.puts.iter().find(is_one).filter(|_| self.single.len() < MAX_COMMIT_OPERATIONS)
    }

    /// Where a refused commit was carried out all the same: a proxy has sent it twice, and the answer is that to the second one.
    pub(super) fn arrived_before(&self, answer: &TxnResponse, floor: Revision) -> Option<Revision> {
        if mutant::is("first-arrival-is-not-asked") {
            return None;
        }
        let put = self.written_once()?;
        let Some(TxnOpResponse::Get(got)) = answer.op_responses().into_iter().nth(self.single.len()) else {
            return None;
        };
        let found = got.kvs().first().filter(|kv| kv.value() == put.bytes && kv.mod_revision() > floor.0)?;
        Some(Revision(found.mod_revision()))
    }

    /// The transaction. Where it is refused, it shows the revisions of the single keys that it compared, and what it would have
    /// written once.
    pub(super) fn txn(&self) -> Txn {
        let puts = self.puts.iter().map(|put| {
            let options = PutOptions::new().with_lease(put.lease);
            TxnOp::put(put.full.as_str(), put.bytes.as_slice(), Some(options))
        });
        let removals = self.removals.iter().map(|removal| TxnOp::delete(removal.full.as_str(), None));
        let shown = self
            .single
            .iter()
            .map(|(_, key)| TxnOp::get(key.as_str(), Some(GetOptions::new().with_keys_only())));
        let written_once = self.written_once().map(|put| TxnOp::get(put.full.as_str(), None));
        Txn::new()
            .when(self.compares.clone())
            .and_then(puts.chain(removals).collect::<Vec<_>>())
            .or_else(shown.chain(written_once).collect::<Vec<_>>())
    }

    /// The preconditions on single keys that an answer shows to be broken.
    pub(super) fn broken(&self, commit: &Commit, answer: &TxnResponse) -> Vec<Precondition> {
        let shown = answer.op_responses();
        let of_key = |response: &TxnOpResponse| match response {
            TxnOpResponse::Get(got) => {
                got.kvs().first().map_or((0, 0), |kv| (kv.mod_revision(), kv.create_revision()))
            }
            _ => (0, 0),
        };
        let places = self.single.iter().map(|(place, _)| *place);
        places
            .zip(shown.iter().map(of_key))
            .filter_map(|(place, (modified, created))| {
                let precondition = commit.when.get(place)?;
                let holds = match precondition {
                    Precondition::At(_, revision) => revision.0 == modified,
                    Precondition::CreatedAt(_, revision) => revision.0 == created,
                    Precondition::NonePutAfter(..)
                    | Precondition::NonePutAfterWithin(..)
                    | Precondition::NoneCreatedAfter(..)
                    | Precondition::NoneCreatedAfterWithin(..) => true,
                };
                (!holds).then(|| precondition.clone())
            })
            .collect()
    }
}

/// Keys that are compared at once.
struct Range {
    start: String,
    /// Whether they are all that begin so; else it is one key.
    is_prefix: bool,
}

impl Range {
    fn all_of(prefix: &Prefix, kind: Kind) -> Self {
        match kind.single() {
            Some(key) => Self { start: prefix.key(&key), is_prefix: false },
            None => Self { start: prefix.all_of(kind), is_prefix: true },
        }
    }

    fn all_within(prefix: &Prefix, kind: Kind, owner: &str) -> Self {
        Self { start: prefix.all_within(kind, owner), is_prefix: true }
    }

    /// Where it starts, and that none of its keys has a later revision: the one that a put changes, or the one that it was
    /// created at.
    fn none_after(
        self,
        revision_of: fn(String, CompareOp, i64) -> Compare,
        revision: Revision,
    ) -> (String, Compare) {
        let compare = revision_of(self.start.clone(), CompareOp::Less, revision.0.saturating_add(1));
        (self.start, if self.is_prefix { compare.with_prefix() } else { compare })
    }
}

/// The kinds that live under the lease of their writer.
fn is_leased(key: &Key) -> bool {
    match key.kind() {
        Kind::Report => true,
        Kind::Leader => !mutant::is("leader-key-is-not-leased"),
        _ => false,
    }
}

fn demanded(commit: &Commit, key: &Key) -> Option<Revision> {
    commit.when.iter().find_map(|precondition| match precondition {
        Precondition::At(of, revision) if of == key => Some(*revision),
        _ => None,
    })
}
