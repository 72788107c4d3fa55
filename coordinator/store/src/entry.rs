//! What was read: keys with their records and revisions. A record that cannot be read is kept as such, with its
//! key; it hides nothing else.

use etcd_client::KeyValue;
use tidegate_proto::{Key, Prefix, Revision, Value, key::NotAKey, record::Malformed};

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
    /// Keys below the prefix that are none of ours.
    pub foreign: Vec<(String, NotAKey)>,
}

impl Snapshot {
    /// The entry of a key, looked for among all.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == *key)
    }

    pub(crate) fn take_in(&mut self, prefix: &Prefix, kv: &KeyValue) {
        match read(prefix, kv) {
            Ok(entry) => self.entries.push(entry),
            Err(foreign) => self.foreign.push(foreign),
        }
    }
}

/// Reads a key with its record, or says which key of the prefix is none of ours.
pub(crate) fn read(prefix: &Prefix, kv: &KeyValue) -> Result<Entry, (String, NotAKey)> {
    let key = read_key(prefix, kv.key())?;
    let value = Value::decode(&key, kv.value());
    Ok(Entry {
        value,
        key,
        bytes_len: kv.value().len(),
        mod_revision: Revision(kv.mod_revision()),
        create_revision: Revision(kv.create_revision()),
        lease: kv.lease(),
    })
}

/// Reads a key alone.
pub(crate) fn read_key(prefix: &Prefix, key: &[u8]) -> Result<Key, (String, NotAKey)> {
    let text = || String::from_utf8_lossy(key).into_owned();
    match prefix.parse(key) {
        Some(Ok(key)) => Ok(key),
        Some(Err(why)) => Err((text(), why)),
        // Asked for below the prefix and answered outside it: no etcd does that. Foreign all the same.
        None => Err((text(), "".parse::<Key>().expect_err("the empty text is no key"))),
    }
}
