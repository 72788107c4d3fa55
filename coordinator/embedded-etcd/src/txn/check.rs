//! What is wrong with a transaction before it is looked at against the store: sizes, empty keys, keys written twice.

use std::collections::BTreeSet;

use etcd_client::proto::{
    PbDeleteRequest, PbPutRequest, PbRangeRequest, PbTxnOpRequest, PbTxnRequest, PbTxnRequestOp,
};

use crate::{kv::KeyRange, refusal::Refusal};

/// Most compares, and most operations on either side, of one transaction: etcd's default.
pub(crate) const MAX_TXN_OPS: usize = 128;

/// A range request needs a key.
pub(crate) fn range(request: &PbRangeRequest) -> Result<(), Refusal> {
    if request.key.is_empty() { Err(Refusal::EmptyKey) } else { Ok(()) }
}

/// A put needs a key, and either gives a value (or lease) or asks to keep the one that is there.
pub(crate) fn put(request: &PbPutRequest) -> Result<(), Refusal> {
    if request.key.is_empty() {
        return Err(Refusal::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(Refusal::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(Refusal::LeaseProvided);
    }
    Ok(())
}

/// A delete needs a key.
pub(crate) fn delete(request: &PbDeleteRequest) -> Result<(), Refusal> {
    if request.key.is_empty() { Err(Refusal::EmptyKey) } else { Ok(()) }
}

/// Everything that can be said of a transaction without the store.
pub(crate) fn txn(request: &PbTxnRequest) -> Result<(), Refusal> {
    sizes(request, MAX_TXN_OPS)?;
    Writes::of(&request.success)?;
    Writes::of(&request.failure)?;
    Ok(())
}

/// The longest of the three lists counts against the limit, and a nested transaction has what its parent left.
fn sizes(request: &PbTxnRequest, allowed: usize) -> Result<(), Refusal> {
    let longest = request.compare.len().max(request.success.len()).max(request.failure.len());
    let left = allowed.checked_sub(longest).ok_or(Refusal::TooManyOps)?;
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Refusal::EmptyKey);
    }
    for op in request.success.iter().chain(&request.failure) {
        match &op.request {
            Some(PbTxnOpRequest::RequestRange(request)) => range(request)?,
            Some(PbTxnOpRequest::RequestPut(request)) => put(request)?,
            Some(PbTxnOpRequest::RequestDeleteRange(request)) => delete(request)?,
            Some(PbTxnOpRequest::RequestTxn(request)) => sizes(request, left)?,
            None => return Err(Refusal::KeyNotFound),
        }
    }
    Ok(())
}

/// What one side of a transaction writes. No key may be put twice, nor put and deleted; the two sides of a nested
/// transaction exclude each other, so that both may put the same key.
#[derive(Debug, Default)]
struct Writes {
    puts: BTreeSet<Vec<u8>>,
    deletes: Vec<KeyRange>,
}

impl Writes {
    fn of(ops: &[PbTxnRequestOp]) -> Result<Self, Refusal> {
        let mut writes = Self::default();
        for op in ops {
            if let Some(PbTxnOpRequest::RequestDeleteRange(delete)) = &op.request {
                let range = KeyRange::new(&delete.key, &delete.range_end);
                // etcd takes the zero byte literally here, as an end below every key, and so lets such a delete
                // stand beside any put. The operations are then carried out in their order.
                if !range.is_unbounded() {
                    writes.deletes.push(range);
                }
            }
        }
        for op in ops {
            if let Some(PbTxnOpRequest::RequestTxn(nested)) = &op.request {
                writes.take_nested(nested)?;
            }
        }
        for op in ops {
            if let Some(PbTxnOpRequest::RequestPut(put)) = &op.request {
                writes.take_put(put.key.clone(), None)?;
            }
        }
        Ok(writes)
    }

    fn take_nested(&mut self, nested: &PbTxnRequest) -> Result<(), Refusal> {
        let then = Self::of(&nested.success)?;
        let otherwise = Self::of(&nested.failure)?;
        for key in &then.puts {
            self.take_put(key.clone(), None)?;
        }
        for key in otherwise.puts {
            self.take_put(key, Some(&then.puts))?;
        }
        self.deletes.extend(then.deletes);
        self.deletes.extend(otherwise.deletes);
        Ok(())
    }

    fn take_put(&mut self, key: Vec<u8>, exclusive: Option<&BTreeSet<Vec<u8>>>) -> Result<(), Refusal> {
        let excused = exclusive.is_some_and(|other_side| other_side.contains(&key));
        let deleted = self.deletes.iter().any(|range| range.contains(&key));
        if deleted || (self.puts.contains(&key) && !excused) {
            return Err(Refusal::DuplicateKey);
        }
        self.puts.insert(key);
        Ok(())
    }
}
