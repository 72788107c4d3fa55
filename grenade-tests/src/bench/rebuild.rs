//! Building the fleet again from a real etcd, beside the plain read of the same keys by the same client: what decoding
//! and indexing cost on top of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use etcd_client::{Client, GetOptions, Txn, TxnOp};
use tidegate_planner::Fleet;
use tidegate_proto::key::Prefix;
use tidegate_proto::record::report::Report;
use tidegate_proto::{Revision, Value};
use tidegate_store::{Endpoints, Scope, Store};

use crate::bench::figure::Figure;
use crate::bench::fleet;
use crate::bench::median::median;
use crate::world::{World, etcd};

/// How many keys, about: two records an instance and a directive for each.
const KEYS: usize = 100_000;
/// As many keys in one page as the store itself reads.
const PAGE: i64 = 5_000;
/// How many writes one transaction takes: etcd's limit of operations.
const WRITES: usize = 128;
/// How often each side reads, in turn; the median counts.
const ROUNDS: usize = 7;

/// Measures.
///
/// # Errors
/// When etcd cannot be started, filled or read.
pub async fn measure(dir: &Path) -> anyhow::Result<Vec<Figure>> {
    let room = tempfile::Builder::new().prefix("rebuild").tempdir_in(dir)?;
    let world = World::alone(room.path())?;
    let etcd = etcd::start(&world, 1).await?;
    let prefix: Prefix = "/tidegate".parse().context("the prefix")?;
    let store = Store::connect(&Endpoints::plain(etcd.endpoints()), prefix.clone()).await?;
    let mut plain = Client::connect(etcd.endpoints(), None).await?;
    let keys = fill(&mut plain, &prefix).await?;
    let (mut rebuilt, mut listed, mut read) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        read.push(read_plainly(&mut plain, &prefix, keys).await?);
        let (list, whole) = rebuild(&store, keys).await?;
        listed.push(list);
        rebuilt.push(whole);
    }
    let (rebuilt, listed, read) = (median(&rebuilt), median(&listed), median(&read));
    let how = format!("{rebuilt:.0} ms over {read:.0} ms, {keys} keys, medians of {ROUNDS} reads in turn");
    let list = "the store's list, records decoded, over the same";
    Ok(vec![
        Figure::limited("rebuild from etcd over the plain paged read", rebuilt / read, "x", 1.5, how),
        Figure::unlimited("of which reading and decoding", listed / read, "x", list),
    ])
}

/// Writes the records as a fleet would have: what a report says of other records is what etcd has of them.
async fn fill(client: &mut Client, prefix: &Prefix) -> anyhow::Result<usize> {
    let mut records = fleet::records(KEYS / 3);
    let mut written: BTreeMap<Revision, Revision> = BTreeMap::new();
    for chunk in records.chunks_mut(WRITES) {
        for (_, value, _) in chunk.iter_mut() {
            if let Value::Report(record) = value {
                let Report { generation, admission, .. } = &mut record.body;
                for named in [generation, admission] {
                    *named =
                        *written.get(named).context("a report names a record that is not written yet")?;
                }
            }
        }
        let puts: Vec<TxnOp> =
            chunk.iter().map(|(key, value, _)| TxnOp::put(prefix.key(key), value.encode(), None)).collect();
        let done = client.txn(Txn::new().and_then(puts)).await.context("could not fill etcd")?;
        let revision = Revision(done.header().context("an answer without a header")?.revision());
        written.extend(chunk.iter().map(|(_, _, at)| (*at, revision)));
    }
    Ok(records.len())
}

/// Milliseconds for the bytes alone, in pages of one revision.
async fn read_plainly(client: &mut Client, prefix: &Prefix, keys: usize) -> anyhow::Result<f64> {
    let began = Instant::now();
    let start = prefix.all();
    // Every byte of a prefix is ASCII, so the next one is no overflow.
    let mut end = start.clone().into_bytes();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    let (mut from, mut revision, mut bytes, mut seen) = (start.into_bytes(), 0, 0, 0);
    loop {
        let options = GetOptions::new().with_range(end.clone()).with_limit(PAGE).with_revision(revision);
        let page = client.get(from, Some(options)).await.context("could not read a page")?;
        revision = page.header().map_or(revision, |header| header.revision());
        seen += page.kvs().len();
        bytes += page.kvs().iter().map(|kv| kv.value().len()).sum::<usize>();
        match page.kvs().last().filter(|_| page.more()) {
            Some(last) => from = [last.key(), b"\0"].concat(),
            None => break,
        }
    }
    let ms = began.elapsed().as_secs_f64() * 1e3;
    ensure!(seen == keys && bytes > 0, "the plain read found {seen} of {keys} keys");
    Ok(ms)
}

/// Milliseconds until every record is decoded, and until the fleet is built.
async fn rebuild(store: &Store, keys: usize) -> anyhow::Result<(f64, f64)> {
    let began = Instant::now();
    let snapshot = store.list(&Scope::All).await?;
    let listed = began.elapsed().as_secs_f64() * 1e3;
    let seen = snapshot.entries.len();
    let records = snapshot.entries.into_iter().map(|entry| (entry.key, entry.value, entry.mod_revision));
    let fleet = Fleet::load(records, snapshot.revision);
    let ms = began.elapsed().as_secs_f64() * 1e3;
    let found = fleet.service(&fleet::service()).map_or(0, |service| service.len());
    ensure!(seen == keys && found == KEYS / 3, "the fleet has {found} instances of {}", KEYS / 3);
    ensure!(fleet.unreadable().next().is_none(), "a record could not be read");
    ensure!(fleet.contradicted_by().next().is_none(), "an agent contradicts the store");
    Ok((listed, ms))
}
