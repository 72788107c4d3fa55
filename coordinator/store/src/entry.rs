//! What was read: keys with their records and revisions. A record that cannot be read is kept as such, with its
//! key; it hides nothing else.

use etcd_client::KeyValue;
use std::collections::BTreeMap;
use tidegate_proto::record::task::MAX_RESULTS_OF_NODE;
use tidegate_proto::{Key, NodeId, Prefix, Revision, Value, key::NotAKey, record::Malformed};

/// A key and what it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The record, or why the bytes are none.
    pub value: Result<Value, Malformed>,
    /// How many bytes are stored.
    pub bytes_len: usize,
    /// The revision of its last put.
    pub mod_revision: Revision,
    /// The revision of its first put since it was absent.
    pub create_revision: Revision,
    /// The lease that it lives under; 0 = none.
    pub lease: i64,
}

/// Keys of one revision.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// The revision at which all of this was read.
    pub revision: Revision,
    /// What is there, in the order of the keys within each scope.
    pub entries: Vec<Entry>,
    /// Keys below the prefix that are none of ours; at most [`MAX_FOREIGN`].
    pub foreign: Vec<(String, NotAKey)>,
    /// How many results of each node there are; those beyond [`MAX_RESULTS_OF_NODE`] are not among the entries.
    pub results: BTreeMap<NodeId, usize>,
}

/// The most foreign keys that are kept of one reading.
pub const MAX_FOREIGN: usize = 1000;

/// How much of a foreign key is kept, in characters: keys may be as long as values.
const FOREIGN_CHARS: usize = 200;

impl Snapshot {
    /// The entry of a key, looked for among all.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == *key)
    }

    pub(crate) fn take_in(&mut self, prefix: &Prefix, kv: &KeyValue) {
        match read_key(prefix, kv.key()) {
            Ok(key) if self.is_beyond_its_node(&key) => {}
            Ok(key) => self.entries.push(entry(key, kv)),
            Err(foreign) if self.foreign.len() < MAX_FOREIGN => self.foreign.push(foreign),
            Err(_) => {}
        }
    }

    /// Whether a key is one more result than those of one node that are read. An agent's user may write any number of them.
    fn is_beyond_its_node(&mut self, key: &Key) -> bool {
        let Key::TaskResult(node, _) = key else { return false };
        let count = self.results.entry(node.clone()).or_default();
        *count += 1;
        *count > MAX_RESULTS_OF_NODE
    }
}

/// Reads a key with its record, or says which key of the prefix is none of ours.
pub(crate) fn read(prefix: &Prefix, kv: &KeyValue) -> Result<Entry, (String, NotAKey)> {
    Ok(entry(read_key(prefix, kv.key())?, kv))
}

fn entry(key: Key, kv: &KeyValue) -> Entry {
    Entry {
        value: Value::decode(&key, kv.value()),
        key,
        bytes_len: kv.value().len(),
        mod_revision: Revision(kv.mod_revision()),
        create_revision: Revision(kv.create_revision()),
        lease: kv.lease(),
    }
}

/// Reads a key alone.
pub(crate) fn read_key(prefix: &Prefix, key: &[u8]) -> Result<Key, (String, NotAKey)> {
    let text = || String::from_utf8_lossy(key).chars().take(FOREIGN_CHARS).collect();
    match prefix.parse(key) {
        Some(Ok(key)) => Ok(key),
        Some(Err(why)) => Err((text(), why)),
        // Asked for below the prefix and answered outside it: no etcd does that. Foreign all the same.
        None => Err((text(), "".parse::<Key>().expect_err("the empty text is no key"))),
    }
}
