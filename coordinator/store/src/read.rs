//! Reading: one key, some keys in one transaction, or whole scopes in pages of one revision.

use crate::entry::{self, Entry, Snapshot};
use crate::error::StoreError;
use crate::process::spawn;
use crate::scope::{Range, Scope};
use crate::store::Reader;
use etcd_client::{GetOptions, GetResponse, KeyValue, Txn, TxnOp, TxnOpResponse};
use tidegate_proto::{Key, Prefix, Revision};

/// How many keys one page has. At 400 bytes a record this is 2 MiB; smaller pages cost 3–5 times as much in all.
const PAGE: i64 = 5_000;

/// How many times smaller a page is asked for again that was too large. The store makes each of them whole before it is
/// found too large, so few tries count for more than full pages.
const SMALLER: i64 = 8;

/// How often a read over several calls starts again because its revision was compacted meanwhile, before it returns an
/// error. Stores compact every few minutes; a read takes a second.
const FRESH_STARTS: usize = 10;

/// How many records are read in one go, at a few microseconds each.
const RECORDS_AT_ONCE: usize = 200;

/// How many keys one transaction reads: etcd's limit of operations.
const KEYS_AT_ONCE: usize = 128;

impl Reader {
    /// Reads one key, linearizably.
    ///
    /// # Errors
    /// Any of [`StoreError`]; a record that cannot be read is none, it is in the entry.
    pub async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        let attempt = format!("read {key}");
        let full = self.prefix().key(key);
        let answer = self.call(&attempt, || get(self, full.clone(), None)).await?;
        self.revision_of(&attempt, answer.header())?;
        let kv = answer.kvs().first();
        kv.map(|kv| entry::read(self.prefix(), kv).map_err(|_| self.malformed(&attempt, "another key came")))
            .transpose()
    }

    /// Reads some keys in one transaction, at one revision. Keys that do not exist are left out.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub async fn get_many(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        let attempt = format!("read {} keys", keys.len());
        let mut starts = 0;
        loop {
            starts += 1;
            match self.get_chunks(&attempt, keys).await {
                // Only a later chunk asks for a past revision, and history was cut meanwhile.
                Err(StoreError::Compacted { .. }) if starts < FRESH_STARTS => {}
                read => return read,
            }
        }
    }

    async fn get_chunks(&self, attempt: &str, keys: &[Key]) -> Result<Snapshot, StoreError> {
        let mut snapshot = Snapshot::default();
        let (mut rest, mut size) = (keys, KEYS_AT_ONCE);
        // Also without keys there is a revision to return, so there is always one transaction.
        loop {
            let (chunk, behind) = rest.split_at(rest.len().min(size));
            match self.get_chunk(attempt, chunk, &mut snapshot).await {
                Err(StoreError::TooLarge { .. }) if chunk.len() > 1 => size = chunk.len() / 2,
                Err(error) => return Err(error),
                Ok(()) if behind.is_empty() => return Ok(snapshot),
                Ok(()) => rest = behind,
            }
        }
    }

    async fn get_chunk(&self, attempt: &str, keys: &[Key], into: &mut Snapshot) -> Result<(), StoreError> {
        let at = into.revision;
        let reads: Vec<TxnOp> = keys
            .iter()
            .map(|key| TxnOp::get(self.prefix().key(key), Some(GetOptions::new().with_revision(at.0))))
            .collect();
        let answer = self
            .call(attempt, || {
                let (mut kv, txn) = (self.kv(), Txn::new().and_then(reads.clone()));
                async move { kv.txn(txn).await }
            })
            .await?;
        let revision = self.revision_of(attempt, answer.header())?;
        if !at.exists() {
            into.revision = revision;
        }
        for response in answer.op_responses() {
            if let TxnOpResponse::Get(got) = response {
                got.kvs().iter().for_each(|kv| into.take_in(self.prefix(), kv));
            }
        }
        Ok(())
    }

    /// Reads a scope whole, in pages of one revision; starts again where that revision is compacted meanwhile.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub async fn list(&self, scope: &Scope) -> Result<Snapshot, StoreError> {
        self.list_ranges(&[scope.range(self.prefix())]).await
    }

    /// Several ranges at one revision.
    pub(crate) async fn list_ranges(&self, ranges: &[Range]) -> Result<Snapshot, StoreError> {
        let mut starts = 0;
        loop {
            starts += 1;
            let mut snapshot = Snapshot::default();
            let listed = self.list_each(ranges, &mut snapshot).await;
            match listed {
                Ok(()) => return Ok(snapshot),
                Err(StoreError::Compacted { .. }) if starts < FRESH_STARTS => {
                    tracing::debug!(revision = %snapshot.revision, "compacted between two pages; listing again");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// While the records of one page are read, the next page is on its way: on another thread, because taking a page in
    /// from the connection is work too.
    async fn list_each(&self, ranges: &[Range], into: &mut Snapshot) -> Result<(), StoreError> {
        for range in ranges {
            let mut size = PAGE;
            let (mut page, revision) =
                self.page(range, range.start().into(), &mut size, at_revision(into.revision)).await?;
            if !into.revision.exists() {
                into.revision = revision;
            }
            let at = into.revision;
            while let Some(from) = next_page(&page) {
                let reading = spawn(take_in(self.prefix().clone(), page, std::mem::take(into)));
                let next = self.page(range, from, &mut size, at_revision(at));
                let (next, read) = tokio::join!(next, reading);
                // Never cancelled; its panic is passed on to the caller.
                *into = read.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()));
                (page, _) = next?;
            }
            *into = take_in(self.prefix().clone(), page, std::mem::take(into)).await;
        }
        Ok(())
    }

    /// The keys of a scope, without their records, in pages that may be of several revisions. What is no key of ours is
    /// left out.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub async fn keys(&self, scope: &Scope) -> Result<Vec<Key>, StoreError> {
        let range = scope.range(self.prefix());
        let (mut keys, mut size, mut from) = (Vec::new(), PAGE, Some(Vec::from(range.start())));
        while let Some(begin) = from {
            let (page, _) = self.page(&range, begin, &mut size, GetOptions::new().with_keys_only()).await?;
            keys.extend(page.kvs().iter().filter_map(|kv| self.prefix().parse(kv.key())?.ok()));
            from = next_page(&page);
        }
        Ok(keys)
    }

    /// One page of a range, and how far the store is; smaller pages from there on where this one is too large.
    async fn page(
        &self,
        range: &Range,
        from: Vec<u8>,
        size: &mut i64,
        wanted: GetOptions,
    ) -> Result<(GetResponse, Revision), StoreError> {
        let attempt = format!("list {}", range.start());
        loop {
            let options = wanted.clone().with_range(range.end()).with_limit(*size);
            match self.call(&attempt, || get(self, from.clone(), Some(options.clone()))).await {
                Err(StoreError::TooLarge { .. }) if *size > 1 => *size = (*size / SMALLER).max(1),
                Err(error) => return Err(error),
                Ok(page) => {
                    let revision = self.revision_of(&attempt, page.header())?;
                    return Ok((page, revision));
                }
            }
        }
    }
}

/// Reads the records of a page, and lets others go on now and then: the next page comes meanwhile.
async fn take_in(prefix: Prefix, page: GetResponse, mut into: Snapshot) -> Snapshot {
    for some in page.kvs().chunks(RECORDS_AT_ONCE) {
        some.iter().for_each(|kv| into.take_in(&prefix, kv));
        tokio::task::yield_now().await;
    }
    into
}

fn at_revision(revision: Revision) -> GetOptions {
    GetOptions::new().with_revision(revision.0)
}

fn next_page(page: &GetResponse) -> Option<Vec<u8>> {
    let last = page.kvs().last().filter(|_| page.more())?;
    // The least key behind the last one.
    Some([last.key(), b"\0"].concat())
}

async fn get(
    store: &Reader,
    key: impl Into<Vec<u8>>,
    options: Option<GetOptions>,
) -> Result<GetResponse, etcd_client::Error> {
    store.kv().get(key, options).await
}

impl Reader {
    /// A key as it was at a revision (none given: as it is), with its raw bytes.
    pub(crate) async fn get_raw(
        &self,
        key: &str,
        at: Option<Revision>,
    ) -> Result<(Option<KeyValue>, Revision), StoreError> {
        let attempt = format!("read {key} back");
        let options = GetOptions::new().with_revision(at.unwrap_or_default().0);
        let mut answer = self.call(&attempt, || get(self, key, Some(options.clone()))).await?;
        let revision = self.revision_of(&attempt, answer.header())?;
        Ok((answer.take_kvs().pop(), revision))
    }
}
