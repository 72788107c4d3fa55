//! Transactions: which side is taken, whether it can be carried out whole, and carrying it out.
//!
//! # Invariants
//! * All compares, those of nested transactions too, are decided against the state before the transaction.
//! * Every reason to refuse is looked for before the first change: a transaction is applied whole or not at all.
//! * All changes of one transaction are one revision; reads within it see the writes before them.

pub(crate) mod check;

use etcd_client::proto::{
    PbDeleteRequest, PbDeleteResponse, PbPutRequest, PbPutResponse, PbResponseHeader, PbResponseOp,
    PbTxnOpRequest, PbTxnOpResponse, PbTxnRequest, PbTxnRequestOp, PbTxnResponse,
};

use crate::{
    compare,
    kv::{Draft, KeyRange, Kv},
    lease::Leases,
    mutant,
    refusal::Refusal,
};

/// Keys and leases, while one revision is being made on them.
pub(crate) struct Writer<'a> {
    pub(crate) kv: &'a mut Kv,
    pub(crate) leases: &'a mut Leases,
    pub(crate) draft: Draft,
}

/// Which side each transaction took, in the order in which they are met.
struct Path<'a> {
    succeeded: bool,
    ops: &'a [PbTxnRequestOp],
    nested: Vec<Path<'a>>,
}

impl<'a> Path<'a> {
    fn decide(kv: &Kv, request: &'a PbTxnRequest) -> Self {
        let count = if mutant::is("first-compare-alone-counts") { 1 } else { usize::MAX };
        let succeeded = request.compare.iter().take(count).all(|compare| compare::holds(kv, compare));
        let ops = if succeeded { &request.success } else { &request.failure };
        let nested = ops.iter().filter_map(|op| match &op.request {
            Some(PbTxnOpRequest::RequestTxn(nested)) => Some(Self::decide(kv, nested)),
            _ => None,
        });
        Self { succeeded, ops, nested: nested.collect() }
    }
}

impl<'a> Writer<'a> {
    pub(crate) fn new(kv: &'a mut Kv, leases: &'a mut Leases) -> Self {
        Self { kv, leases, draft: Draft::default() }
    }

    /// The revision that a read sees now: one above the committed one as soon as something was written.
    fn current(&self) -> i64 {
        self.kv.revision() + i64::from(!self.draft.is_empty())
    }

    /// Carries a checked transaction out; the answer's header holds only the revision.
    pub(crate) fn txn(&mut self, request: &PbTxnRequest) -> Result<PbTxnResponse, Refusal> {
        let path = Path::decide(self.kv, request);
        self.check_puts(&path)?;
        self.check_ranges(&path)?;
        let mut response = self.apply(&path)?;
        response.header = self.header();
        Ok(response)
    }

    /// Whether a put on its own can be carried out: its lease exists, and so does what it asks to keep.
    pub(crate) fn check_put(&self, request: &PbPutRequest) -> Result<(), Refusal> {
        self.check_lease(request)?;
        self.check_kept(request)
    }

    fn check_lease(&self, request: &PbPutRequest) -> Result<(), Refusal> {
        let unknown = request.lease != 0 && !self.leases.contains(request.lease);
        if unknown { Err(Refusal::LeaseNotFound) } else { Ok(()) }
    }

    fn check_kept(&self, request: &PbPutRequest) -> Result<(), Refusal> {
        let keeps = request.ignore_value || request.ignore_lease;
        if keeps && self.kv.latest(&request.key).is_none() { Err(Refusal::KeyNotFound) } else { Ok(()) }
    }

    /// As [`Writer::check_put`] for every put of a transaction, in the order in which etcd looks there.
    fn check_puts(&self, path: &Path<'_>) -> Result<(), Refusal> {
        let mut nested = path.nested.iter();
        for op in path.ops {
            match &op.request {
                Some(PbTxnOpRequest::RequestPut(put)) => {
                    self.check_kept(put)?;
                    self.check_lease(put)?;
                }
                Some(PbTxnOpRequest::RequestTxn(_)) => {
                    nested.next().map_or(Ok(()), |p| self.check_puts(p))?
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_ranges(&self, path: &Path<'_>) -> Result<(), Refusal> {
        let mut nested = path.nested.iter();
        for op in path.ops {
            match &op.request {
                Some(PbTxnOpRequest::RequestRange(range)) => self.check_revision(range.revision)?,
                Some(PbTxnOpRequest::RequestTxn(_)) => {
                    nested.next().map_or(Ok(()), |path| self.check_ranges(path))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_revision(&self, revision: i64) -> Result<(), Refusal> {
        match revision {
            0 => Ok(()),
            asked if asked > self.kv.revision() => Err(Refusal::FutureRevision),
            asked if asked < self.kv.compacted() => Err(Refusal::Compacted),
            _ => Ok(()),
        }
    }

    fn apply(&mut self, path: &Path<'_>) -> Result<PbTxnResponse, Refusal> {
        let mut nested = path.nested.iter();
        let mut responses = Vec::with_capacity(path.ops.len());
        for op in path.ops {
            let response = match &op.request {
                Some(PbTxnOpRequest::RequestRange(range)) => {
                    Some(PbTxnOpResponse::ResponseRange(self.kv.range(range, self.current())?))
                }
                Some(PbTxnOpRequest::RequestPut(put)) => {
                    Some(PbTxnOpResponse::ResponsePut(self.put(put.clone())))
                }
                Some(PbTxnOpRequest::RequestDeleteRange(delete)) => {
                    Some(PbTxnOpResponse::ResponseDeleteRange(self.delete(delete)))
                }
                Some(PbTxnOpRequest::RequestTxn(_)) => match nested.next() {
                    Some(path) => Some(PbTxnOpResponse::ResponseTxn(self.apply(path)?)),
                    None => None,
                },
                None => None,
            };
            responses.push(PbResponseOp { response });
        }
        Ok(PbTxnResponse { header: Some(PbResponseHeader::default()), succeeded: path.succeeded, responses })
    }

    /// Carries a put out that [`Writer::check_put`] let pass.
    pub(crate) fn put(&mut self, request: PbPutRequest) -> PbPutResponse {
        let before = self.kv.latest(&request.key).cloned();
        let kept = before.as_deref();
        let value = match kept {
            Some(kept) if request.ignore_value => kept.value.clone(),
            _ => request.value,
        };
        let lease = match kept {
            Some(kept) if request.ignore_lease => kept.lease,
            _ => request.lease,
        };
        let former = kept.map_or(0, |kept| kept.lease);
        let former = if mutant::is("key-stays-on-its-former-lease") { 0 } else { former };
        self.leases.move_key(&request.key, former, lease);
        self.kv.put(&mut self.draft, request.key, value, lease);
        let prev_kv = if request.prev_kv { before.as_deref().cloned() } else { None };
        PbPutResponse { header: self.header(), prev_kv }
    }

    /// Deletes the keys of a range.
    pub(crate) fn delete(&mut self, request: &PbDeleteRequest) -> PbDeleteResponse {
        let gone = self.kv.delete(&mut self.draft, &KeyRange::new(&request.key, &request.range_end));
        for kv in &gone {
            self.leases.move_key(&kv.key, kv.lease, 0);
        }
        let prev_kvs =
            if request.prev_kv { gone.iter().map(|kv| kv.as_ref().clone()).collect() } else { Vec::new() };
        PbDeleteResponse { header: self.header(), deleted: gone.len() as i64, prev_kvs }
    }

    fn header(&self) -> Option<PbResponseHeader> {
        Some(PbResponseHeader { revision: self.current(), ..PbResponseHeader::default() })
    }
}
