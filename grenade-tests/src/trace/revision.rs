//! The revisions of a history, with the records that each wrote.

use tidegate_proto::record::Timestamp;
use tidegate_proto::{Key, Value};

/// When an agent that lies in a simulation says that it was admitted.
pub const LIE: Timestamp = Timestamp(7);

/// One transaction of the history, or the end of a lease.
#[derive(Debug, Clone)]
pub struct Revision {
    /// Its number in the store.
    pub number: i64,
    /// What it wrote.
    pub writes: Vec<Written>,
}

/// One key that was written.
#[derive(Debug, Clone)]
pub struct Written {
    /// The key.
    pub key: Key,
    /// What it holds from then on; none where it is gone, or holds what cannot be read.
    pub put: Option<Put>,
    /// Whether the key is gone.
    pub gone: bool,
}

/// What a key holds.
#[derive(Debug, Clone)]
pub struct Put {
    /// The record.
    pub value: Value,
    /// The revision that made the key.
    pub created: i64,
    /// The lease that the key hangs on; 0 = none.
    pub lease: i64,
}

impl Revision {
    /// Whether it wrote an event of such a name.
    pub(super) fn names(&self, who: &str) -> bool {
        let is_it = |value: &Value| matches!(value, Value::Event(event) if event.body.who == who);
        self.writes.iter().filter_map(Written::value).any(is_it)
    }
}

impl Written {
    /// The record that the key holds from then on, where it can be read.
    pub(super) fn value(&self) -> Option<&Value> {
        self.put.as_ref().map(|put| &put.value)
    }
}

#[cfg(test)]
impl Written {
    /// What a revision writes under a key without its prefix, on no lease; without a text the key is gone.
    pub(super) fn of_text(key: &str, text: Option<&str>, revision: i64) -> Self {
        let path = format!("/tidegate/{key}");
        let key = tidegate_proto::Prefix::default().parse(path.as_bytes()).unwrap().unwrap();
        let value = text.map(|text| Value::decode(&key, text.as_bytes()).unwrap());
        let put = value.map(|value| Put { value, created: revision, lease: 0 });
        Self { key, gone: put.is_none(), put }
    }
}
