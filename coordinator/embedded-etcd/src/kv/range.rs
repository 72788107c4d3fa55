//! Answers a range request: which keys, at which revision, filtered, ordered and cut off as etcd does it.

use std::{cmp::Ordering, sync::Arc};

use etcd_client::proto::{PbKeyValue, PbRangeRequest, PbRangeResponse, PbResponseHeader};

use super::{History, KeyRange, Kv};
use crate::refusal::Refusal;

/// By what, and which way, the answer is ordered. The numbers are those of etcd's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    None,
    Ascending,
    Descending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Key,
    Version,
    Create,
    Mod,
    Value,
}

impl Target {
    fn of(request: &PbRangeRequest) -> Self {
        match request.sort_target {
            1 => Self::Version,
            2 => Self::Create,
            3 => Self::Mod,
            4 => Self::Value,
            _ => Self::Key,
        }
    }

    fn compare(self, left: &PbKeyValue, right: &PbKeyValue) -> Ordering {
        match self {
            Self::Key => left.key.cmp(&right.key),
            Self::Version => left.version.cmp(&right.version),
            Self::Create => left.create_revision.cmp(&right.create_revision),
            Self::Mod => left.mod_revision.cmp(&right.mod_revision),
            Self::Value => left.value.cmp(&right.value),
        }
    }
}

impl Order {
    /// etcd orders upwards where a target other than the key is named without an order.
    fn of(request: &PbRangeRequest, target: Target) -> Self {
        match request.sort_order {
            1 => Self::Ascending,
            2 => Self::Descending,
            _ if target != Target::Key => Self::Ascending,
            _ => Self::None,
        }
    }
}

impl Kv {
    /// Answers a range request; the header holds only the revision that was current, `current`, which within a
    /// transaction that has written is one above the last committed one.
    pub(crate) fn range(&self, request: &PbRangeRequest, current: i64) -> Result<PbRangeResponse, Refusal> {
        let revision = self.revision_to_read(request.revision, current)?;
        let range = KeyRange::new(&request.key, &request.range_end);
        let (mut found, count) = self.collect(request, &range, revision);
        found.retain(|kv| passes(request, kv));
        sort(request, &mut found);

        let limit = usize::try_from(request.limit).unwrap_or(0);
        let more = limit > 0 && found.len() > limit;
        if more {
            found.truncate(limit);
        }
        Ok(PbRangeResponse {
            header: Some(PbResponseHeader { revision: current, ..PbResponseHeader::default() }),
            kvs: found.into_iter().map(|kv| copy(kv, request.keys_only)).collect(),
            more,
            count,
        })
    }

    fn revision_to_read(&self, asked: i64, current: i64) -> Result<i64, Refusal> {
        if asked > current {
            return Err(Refusal::FutureRevision);
        }
        let revision = if asked <= 0 { current } else { asked };
        if revision < self.compacted { Err(Refusal::Compacted) } else { Ok(revision) }
    }

    /// The keys to look at, and how many there are in the whole range. One more than the limit is collected, which
    /// shows that there are more; filters and orders need them all.
    fn collect<'a>(
        &'a self,
        request: &PbRangeRequest,
        range: &'a KeyRange,
        revision: i64,
    ) -> (Vec<&'a Arc<PbKeyValue>>, i64) {
        let whole = request.limit <= 0 || (1..=2).contains(&request.sort_order) || is_filtered(request);
        let wanted = if request.count_only {
            0
        } else if whole {
            usize::MAX
        } else {
            usize::try_from(request.limit).unwrap_or(usize::MAX).saturating_add(1)
        };
        let mut found = Vec::new();
        let mut count = 0;
        for kv in self.histories(range).filter_map(|history: &History| history.at(revision)) {
            count += 1;
            if found.len() < wanted {
                found.push(kv);
            }
        }
        (found, count)
    }
}

fn is_filtered(request: &PbRangeRequest) -> bool {
    request.min_mod_revision != 0
        || request.max_mod_revision != 0
        || request.min_create_revision != 0
        || request.max_create_revision != 0
}

fn passes(request: &PbRangeRequest, kv: &PbKeyValue) -> bool {
    let within = |value: i64, min: i64, max: i64| (min == 0 || value >= min) && (max == 0 || value <= max);
    within(kv.mod_revision, request.min_mod_revision, request.max_mod_revision)
        && within(kv.create_revision, request.min_create_revision, request.max_create_revision)
}

fn sort(request: &PbRangeRequest, found: &mut [&Arc<PbKeyValue>]) {
    let target = Target::of(request);
    match Order::of(request, target) {
        Order::None => {}
        Order::Ascending => found.sort_by(|a, b| target.compare(a, b)),
        Order::Descending => found.sort_by(|a, b| target.compare(b, a)),
    }
}

fn copy(kv: &Arc<PbKeyValue>, keys_only: bool) -> PbKeyValue {
    if keys_only {
        return PbKeyValue {
            key: kv.key.clone(),
            value: Vec::new(),
            create_revision: kv.create_revision,
            mod_revision: kv.mod_revision,
            version: kv.version,
            lease: kv.lease,
        };
    }
    kv.as_ref().clone()
}
