//! What is wrong with a transaction before it is looked at against the store: sizes, empty keys, keys written twice.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use etcd_client::proto::{
    PbDeleteRequest, PbPutRequest, PbRangeRequest, PbTxnOpRequest, PbTxnRequest, PbTxnRequestOp,
};

use crate::refusal::Refusal;

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
    deletes: Deletes,
}

/// The keys that deletes name, to be looked up: nested transactions may hold some ten thousand of them.
#[derive(Debug, Default)]
struct Deletes {
    keys: BTreeSet<Vec<u8>>,
    /// Intervals that do not touch, each from its start up to and without its end.
    spans: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Deletes {
    /// Adds a range, as a request names it.
    fn add(&mut self, key: &[u8], range_end: &[u8]) {
        match range_end {
            [] => {
                self.keys.insert(key.to_vec());
            }
            // etcd takes the zero byte literally here, as an end below every key, and so allows such a delete beside
            // any put. The operations are then carried out in their order.
            [0] => {}
            end => self.add_span(key.to_vec(), end.to_vec()),
        }
    }

    fn add_span(&mut self, mut start: Vec<u8>, mut end: Vec<u8>) {
        if end <= start {
            return;
        }
        if let Some((before, its_end)) = self.spans.range(..=start.clone()).next_back()
            && *its_end >= start
        {
            start.clone_from(before);
        }
        while let Some((touched, its_end)) = self.spans.range(start.clone()..=end.clone()).next() {
            let touched = touched.clone();
            end = end.max(its_end.clone());
            self.spans.remove(&touched);
        }
        self.spans.insert(start, end);
    }

    fn contains(&self, key: &[u8]) -> bool {
        let upwards = (Bound::Unbounded, Bound::Included(key));
        let span = || self.spans.range::<[u8], _>(upwards).next_back();
        self.keys.contains(key) || span().is_some_and(|(_, end)| key < end.as_slice())
    }

    fn extend(&mut self, other: Self) {
        self.keys.extend(other.keys);
        other.spans.into_iter().for_each(|(start, end)| self.add_span(start, end));
    }
}

impl Writes {
    fn of(ops: &[PbTxnRequestOp]) -> Result<Self, Refusal> {
        let mut writes = Self::default();
        for op in ops {
            if let Some(PbTxnOpRequest::RequestDeleteRange(delete)) = &op.request {
                writes.deletes.add(&delete.key, &delete.range_end);
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
        let deleted = self.deletes.contains(&key);
        if deleted || (self.puts.contains(&key) && !excused) {
            return Err(Refusal::DuplicateKey);
        }
        self.puts.insert(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Deletes;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn deletes_contain_what_each_of_them_does(
            ranges in prop::collection::vec((0..40u8, 0..40u8), 0..12),
            key in 0..40u8,
        ) {
            let mut deletes = Deletes::default();
            let mut halves = [Deletes::default(), Deletes::default()];
            for (n, (start, end)) in ranges.iter().enumerate() {
                // A single 0 byte means one key, as an empty end does.
                let end = if *end == 0 { Vec::new() } else { vec![*end] };
                deletes.add(&[*start], &end);
                halves[n % 2].add(&[*start], &end);
            }
            let [mut one, other] = halves;
            one.extend(other);
            let expected = ranges.iter().any(|(start, end)| match end {
                0 => key == *start,
                end => key >= *start && key < *end,
            });
            prop_assert_eq!((deletes.contains(&[key]), one.contains(&[key])), (expected, expected));
        }
    }
}
