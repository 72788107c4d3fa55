//! How a store lies in its redb file, and how it is read back.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | name | number: `layout` (1), `compacted`, `cluster`, `member`, `opened` |
//! | `settled` | key | the key-value message of each key that lived at the compacted revision |
//! | `revisions` | revision | the events of that revision, from the compacted one on |
//! | `leases` | lease id | its TTL in seconds |
//!
//! So a write is one row. The state now is `settled` with the revisions above the compacted one applied to it; a
//! compaction moves `settled` up and removes the revisions below. The keys themselves name their lease.

use std::path::Path;

use etcd_client::proto::{PbEvent, PbKeyValue};
use prost::Message;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::record::{LeaseChange, Record};
use crate::{
    error::OpenError,
    identity::Identity,
    kv::{Change, EVENT_DELETE, Kv, NEVER_COMPACTED, Revision},
};

/// Name of the file in the store's directory.
pub(crate) const FILE: &str = "store.redb";

/// The layout that this version writes, and the only one that it reads.
const LAYOUT: u64 = 1;

/// Memory that redb may use as a cache. Everything is held in our own memory, so that this serves writing alone.
pub(crate) const CACHE_BYTES: usize = 16 << 20;

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const SETTLED: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("settled");
const REVISIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("revisions");
const LEASES: TableDefinition<'_, i64, i64> = TableDefinition::new("leases");

/// The row of `revisions`.
#[derive(Clone, PartialEq, Message)]
struct Events {
    #[prost(message, repeated, tag = "1")]
    events: Vec<PbEvent>,
}

/// What a file holds.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) kv: Kv,
    /// Id and TTL in seconds of each lease.
    pub(crate) leases: Vec<(i64, i64)>,
    pub(crate) identity: Identity,
}

/// Opens the file, or makes it, and makes its name durable.
pub(crate) fn open(dir: &Path) -> Result<Database, OpenError> {
    let file = dir.join(FILE);
    let database = Database::builder()
        .set_cache_size(CACHE_BYTES)
        .create(&file)
        .map_err(|source| OpenError::Database { file, source: Box::new(source.into()) })?;
    std::fs::File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|source| OpenError::Directory { dir: dir.to_path_buf(), source })?;
    Ok(database)
}

/// Reads everything, after noting that the store was opened once more.
pub(crate) fn load(database: &Database, file: &Path) -> Result<Loaded, OpenError> {
    let failed =
        |source: redb::Error| OpenError::Database { file: file.to_path_buf(), source: Box::new(source) };
    let (layout, identity) = enter(database).map_err(failed)?;
    if layout != LAYOUT {
        return Err(OpenError::Layout { file: file.to_path_buf(), found: layout, known: LAYOUT });
    }
    let rows = read(database).map_err(failed)?;
    let unreadable = |what| OpenError::Unreadable { file: file.to_path_buf(), what };

    let mut settled = Vec::with_capacity(rows.settled.len());
    for bytes in rows.settled {
        settled.push(PbKeyValue::decode(bytes.as_slice()).map_err(|_| unreadable("a key".to_owned()))?);
    }
    let mut revisions = Vec::with_capacity(rows.revisions.len());
    for (number, bytes) in rows.revisions {
        revisions.push(decode(number, &bytes).ok_or_else(|| unreadable(format!("revision {number}")))?);
    }
    let compacted = rows.compacted.unwrap_or(NEVER_COMPACTED);
    Ok(Loaded { kv: Kv::restore(compacted, settled, revisions), leases: rows.leases, identity })
}

/// Counts the opening; a new file gets its layout number and identity here.
fn enter(database: &Database) -> Result<(u64, Identity), redb::Error> {
    let txn = database.begin_write()?;
    let (layout, identity) = {
        let mut meta = txn.open_table(META)?;
        txn.open_table(SETTLED)?;
        txn.open_table(REVISIONS)?;
        txn.open_table(LEASES)?;
        let layout = get_or_put(&mut meta, "layout", || LAYOUT)?;
        let cluster = get_or_put(&mut meta, "cluster", rand::random)?;
        let member = get_or_put(&mut meta, "member", rand::random)?;
        let term = get_or_put(&mut meta, "opened", || 0)? + 1;
        meta.insert("opened", term)?;
        (layout, Identity { cluster, member, term })
    };
    if layout == LAYOUT {
        txn.commit()?;
    } else {
        txn.abort()?;
    }
    Ok((layout, identity))
}

fn get_or_put(
    meta: &mut redb::Table<'_, &str, u64>,
    name: &str,
    make: impl FnOnce() -> u64,
) -> Result<u64, redb::Error> {
    if let Some(found) = meta.get(name)?.map(|value| value.value()) {
        return Ok(found);
    }
    let made = make();
    meta.insert(name, made)?;
    Ok(made)
}

#[derive(Debug)]
struct Rows {
    compacted: Option<i64>,
    settled: Vec<Vec<u8>>,
    revisions: Vec<(i64, Vec<u8>)>,
    leases: Vec<(i64, i64)>,
}

fn read(database: &Database) -> Result<Rows, redb::Error> {
    let txn = database.begin_read()?;
    let compacted = txn.open_table(META)?.get("compacted")?.map(|value| value.value() as i64);
    let mut rows = Rows { compacted, settled: Vec::new(), revisions: Vec::new(), leases: Vec::new() };
    for row in txn.open_table(SETTLED)?.iter()? {
        rows.settled.push(row?.1.value().to_vec());
    }
    for row in txn.open_table(REVISIONS)?.iter()? {
        let (number, events) = row?;
        rows.revisions.push((number.value() as i64, events.value().to_vec()));
    }
    for row in txn.open_table(LEASES)?.iter()? {
        let (id, ttl) = row?;
        rows.leases.push((id.value(), ttl.value()));
    }
    Ok(rows)
}

fn decode(number: i64, bytes: &[u8]) -> Option<Revision> {
    let events = Events::decode(bytes).ok()?.events;
    let changes = events.into_iter().map(|event| {
        let kv = event.kv?;
        Some(if event.r#type == EVENT_DELETE {
            Change::Delete { key: kv.key }
        } else {
            Change::Put(kv.into())
        })
    });
    Some(Revision { number, changes: changes.collect::<Option<_>>()? })
}

/// Writes changes as one durable transaction: it returns after the fsync.
pub(crate) fn write(database: &Database, batch: &[Record]) -> Result<(), redb::Error> {
    let txn = database.begin_write()?;
    {
        let mut revisions = txn.open_table(REVISIONS)?;
        let mut leases = txn.open_table(LEASES)?;
        for record in batch {
            if let Some(revision) = &record.revision {
                let events = revision.changes.iter().map(|change| change.event(revision.number)).collect();
                let bytes = Events { events }.encode_to_vec();
                revisions.insert(revision.number as u64, bytes.as_slice())?;
            }
            match &record.lease {
                Some(LeaseChange::Grant { id, ttl }) => drop(leases.insert(id, ttl)?),
                Some(LeaseChange::Revoke { id }) => drop(leases.remove(id)?),
                None => {}
            }
            if let Some((revision, settled)) = &record.compaction {
                revisions.retain_in(..*revision as u64, |_, _| false)?;
                let mut table = txn.open_table(SETTLED)?;
                for (key, state) in settled {
                    match state {
                        Some(kv) => drop(table.insert(key.as_slice(), kv.encode_to_vec().as_slice())?),
                        None => drop(table.remove(key.as_slice())?),
                    }
                }
                txn.open_table(META)?.insert("compacted", *revision as u64)?;
            }
        }
    }
    txn.commit()?;
    Ok(())
}
