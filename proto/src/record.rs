//! The envelope of every record: a schema number, a body, and the fields that this version does not know, which
//! it keeps when it writes the record again. Readers forgive, writers remember.
//!
//! A record is a JSON object of at most 1 MiB. What is not one is `Malformed`: it is reported with its key and
//! closes the gates that depend on it; it never ends a process.

use envelope::Envelope;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::marker::PhantomData;

pub mod active;
pub mod budget;
pub mod certificate;
pub mod decommission;
pub mod directive;
mod envelope;
pub mod event;
pub mod evidence;
pub mod exception;
pub mod gate;
pub mod group;
pub mod inventory;
pub mod leader;
pub mod maintenance;
pub mod manifest;
pub mod need;
pub mod reconciliation;
pub mod release;
pub mod report;
pub mod schema;
pub mod signal;
pub mod stream;
pub mod task;
pub mod token;
pub mod upgrade;
pub mod waiting;
pub mod waves;
pub mod window;

/// The largest record, in bytes (etcd's own limit for a whole request is 1.5 MiB).
pub const MAX_RECORD_BYTES: usize = 1024 * 1024;

/// What can be the body of a record.
pub trait Body: Serialize + DeserializeOwned + Clone {
    /// The schema number that this version writes.
    const SCHEMA: u32;
    /// The largest record of this kind that is read, in bytes. Lower where agents write it: what one node's user may write
    /// must not fill a coordinator's memory.
    const MAX_BYTES: usize = MAX_RECORD_BYTES;
}

/// A body with its envelope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record<T> {
    /// What the record says.
    pub body: T,
    /// The schema number that it was written with.
    pub schema: u32,
    /// Mostly none: a hundred thousand records that are held and moved about have no room for an empty map each.
    unknown: Option<Box<Map<String, Value>>>,
}

/// Why bytes are not the record that their key promises.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Larger than a record of its kind may be; it was not parsed.
    #[error("is {bytes} bytes long, at most {allowed} are allowed")]
    Oversized {
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        allowed: usize,
    },
    /// Not UTF-8.
    #[error("is not UTF-8")]
    Encoding,
    /// Not a JSON object of the right shape.
    #[error("is malformed: {0}")]
    Shape(String),
    /// A newer version wrote it, in a shape that this one does not read.
    #[error("is malformed for this version, which does not know its schema number {schema}: {why}")]
    Newer {
        /// Its schema number.
        schema: u32,
        /// What is wrong with its shape.
        why: String,
    },
    /// A report that lives under no lease: it would outlive the agent that wrote it.
    #[error(
        "has no lease and is ignored: it would outlive its agent. Agents write reports under a lease; find out who wrote it, and remove the key"
    )]
    Unleased,
}

#[derive(Serialize)]
struct EnvelopeRef<'a, T> {
    schema: u32,
    #[serde(flatten)]
    body: &'a T,
    #[serde(flatten)]
    unknown: Option<&'a Map<String, Value>>,
}

/// The envelope of a record, read without its body.
#[derive(Deserialize)]
struct Numbered {
    schema: u32,
}

impl Numbered {
    fn read(text: &str) -> Option<u32> {
        let object = text.trim_start().starts_with('{').then_some(text)?;
        serde_json::from_str::<Self>(object).ok().map(|found| found.schema)
    }
}

impl<T: Body> Record<T> {
    /// A new record of this version's schema.
    pub fn new(body: T) -> Self {
        Self { body, schema: T::SCHEMA, unknown: None }
    }

    /// Reads a record; never panics, whatever the bytes are.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() > T::MAX_BYTES {
            return Err(Malformed::Oversized { bytes: bytes.len(), allowed: T::MAX_BYTES });
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed::Encoding)?;
        let mut json = serde_json::Deserializer::from_str(text);
        let read = Envelope(PhantomData).deserialize(&mut json);
        // What follows the object is no part of a record.
        let whole = read.and_then(|record| json.end().map(|()| record));
        whole.map_err(|e| match Numbered::read(text) {
            Some(schema) if schema > T::SCHEMA => Malformed::Newer { schema, why: e.to_string() },
            _ => Malformed::Shape(e.to_string()),
        })
    }

    /// The bytes to store: unknown fields as they were read, and a schema number that never falls.
    pub fn encode(&self) -> Vec<u8> {
        let schema = self.schema.max(T::SCHEMA);
        let envelope = EnvelopeRef { schema, body: &self.body, unknown: self.unknown.as_deref() };
        serde_json::to_vec(&envelope).expect("a record has string keys only, so it is always JSON")
    }

    /// The same record with another body: what a rewrite does.
    pub fn with(&self, body: T) -> Self {
        Self { body, ..self.clone() }
    }

    /// Whether a newer version wrote it: what it means may be more than this version can see.
    pub fn is_newer(&self) -> bool {
        self.schema > T::SCHEMA
    }
}

impl<T: Body> From<T> for Record<T> {
    fn from(body: T) -> Self {
        Self::new(body)
    }
}

/// Milliseconds since the Unix epoch: for people to read, never for a decision (clocks are not compared).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);
