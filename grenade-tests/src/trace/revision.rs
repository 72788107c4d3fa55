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
