//! The compares of a transaction, with etcd's exact meaning over ranges and over keys that do not exist.
//!
//! A compare over a range holds if it holds for every live key in it; it sees neither deletes nor lapsed leases.
//! Over an empty range the zero key is compared, except by value: a compare by value of nothing is always false.

use std::cmp::Ordering;

use etcd_client::proto::{PbCompare, PbCompareTarget, PbKeyValue, PbTargetUnion};

use crate::{
    kv::{KeyRange, Kv},
    mutant,
};

/// Whether a compare holds now.
pub(crate) fn holds(kv: &Kv, compare: &PbCompare) -> bool {
    let range = KeyRange::new(&compare.key, &compare.range_end);
    let mut live = kv.live(&range).peekable();
    if live.peek().is_none() {
        if mutant::is("compare-of-a-missing-key-holds") {
            return true;
        }
        let by_value = compare.target == PbCompareTarget::Value as i32;
        return !by_value && holds_for(compare, &PbKeyValue::default());
    }
    live.all(|kv| holds_for(compare, kv))
}

fn holds_for(compare: &PbCompare, kv: &PbKeyValue) -> bool {
    let ordering = order(compare, kv);
    // The numbers are those of etcd's `CompareResult`; one that etcd does not know holds, as it does there.
    match compare.result {
        0 => ordering == Ordering::Equal,
        1 => ordering == Ordering::Greater,
        2 => ordering == Ordering::Less,
        3 => ordering != Ordering::Equal,
        _ => true,
    }
}

/// How the key's own attribute compares to the given one; an absent or foreign operand reads as zero or empty.
fn order(compare: &PbCompare, kv: &PbKeyValue) -> Ordering {
    let union = compare.target_union.as_ref();
    let Ok(target) = PbCompareTarget::try_from(compare.target) else { return Ordering::Equal };
    match target {
        PbCompareTarget::Version => kv.version.cmp(&match union {
            Some(PbTargetUnion::Version(version)) => *version,
            _ => 0,
        }),
        PbCompareTarget::Create => kv.create_revision.cmp(&match union {
            Some(PbTargetUnion::CreateRevision(revision)) => *revision,
            _ => 0,
        }),
        PbCompareTarget::Mod => kv.mod_revision.cmp(&match union {
            Some(PbTargetUnion::ModRevision(revision)) => *revision,
            _ => 0,
        }),
        PbCompareTarget::Lease => kv.lease.cmp(&match union {
            Some(PbTargetUnion::Lease(lease)) => *lease,
            _ => 0,
        }),
        PbCompareTarget::Value => kv.value.as_slice().cmp(match union {
            Some(PbTargetUnion::Value(value)) => value.as_slice(),
            _ => &[],
        }),
    }
}
