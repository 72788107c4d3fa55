//! What may be done to a store, drawn at random from few keys, few leases and revisions around the present.

use etcd_client::{SortOrder, SortTarget};
use proptest::{collection::vec, option, prelude::*};

/// A key and a range end, as etcd writes them.
#[derive(Debug, Clone)]
pub(super) struct Range {
    pub key: &'static str,
    pub end: &'static str,
}

#[derive(Debug, Clone)]
pub(super) struct Put {
    pub key: &'static str,
    pub value: u8,
    pub lease: i64,
    pub prev: bool,
    pub keep_value: bool,
    pub keep_lease: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Get {
    pub range: Range,
    /// A draw that the side turns into a revision around the present.
    pub revision: Option<u8>,
    pub sort: Option<(SortTarget, SortOrder)>,
    pub limit: i64,
    pub keys_only: bool,
    pub count_only: bool,
    pub min_mod: Option<u8>,
    pub max_create: Option<u8>,
}

#[derive(Debug, Clone)]
pub(super) struct Compare {
    pub range: Range,
    /// 0 version, 1 create revision, 2 mod revision, 3 value, 4 lease.
    pub target: u8,
    /// 0 equal, 1 greater, 2 less, 3 not equal.
    pub is: u8,
    pub operand: u8,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Put(Put),
    Get(Get),
    Delete(Range, bool),
    Txn(Txn),
}

#[derive(Debug, Clone)]
pub(super) struct Txn {
    pub compares: Vec<Compare>,
    pub then: Vec<Step>,
    pub otherwise: Vec<Step>,
}

#[derive(Debug, Clone)]
pub(super) struct Watch {
    pub range: Range,
    pub start: Option<u8>,
    pub prev: bool,
    pub puts: bool,
    pub deletes: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Operation {
    Step(Step),
    Compact(u8),
    Grant(i64),
    Revoke(i64),
    TimeToLive(i64),
    Leases,
    Watch(Watch),
    /// Ask every watch for all that it has so far.
    Drain,
    /// Drain, end every watch, and close and open a store that is on disk.
    Restart,
}

const KEYS: [&str; 6] = ["a", "aa", "ab", "b", "c", "d"];

fn key() -> impl Strategy<Value = &'static str> {
    prop_oneof![40 => prop::sample::select(&KEYS[..]), 1 => Just("")]
}

fn range() -> impl Strategy<Value = Range> {
    let end = prop_oneof![3 => Just(""), 1 => Just("\0"), 5 => prop::sample::select(&KEYS[..])];
    (key(), end).prop_map(|(key, end)| Range { key, end })
}

/// 0 is none, 3 is a lease that is never granted.
fn lease() -> impl Strategy<Value = i64> {
    prop_oneof![6 => Just(0), 3 => 1i64..3, 1 => Just(3i64)]
}

fn put() -> impl Strategy<Value = Put> {
    let rarely = || prop::bool::weighted(0.12);
    (key(), 0u8..4, lease(), any::<bool>(), rarely(), rarely()).prop_map(
        |(key, value, lease, prev, keep_value, keep_lease)| {
            // Usually a valid combination; now and then an invalid one.
            let value = if keep_value && value > 0 { 0 } else { value };
            let lease = if keep_lease && lease != 2 { 0 } else { lease };
            Put { key, value, lease, prev, keep_value, keep_lease }
        },
    )
}

fn sort() -> impl Strategy<Value = Option<(SortTarget, SortOrder)>> {
    let target = prop::sample::select(vec![
        SortTarget::Key,
        SortTarget::Version,
        SortTarget::Create,
        SortTarget::Mod,
        SortTarget::Value,
    ]);
    let order = prop::sample::select(vec![SortOrder::None, SortOrder::Ascend, SortOrder::Descend]);
    option::weighted(0.4, (target, order))
}

fn get() -> impl Strategy<Value = Get> {
    let revision = || option::weighted(0.35, any::<u8>());
    let filter = || option::weighted(0.1, any::<u8>());
    (range(), revision(), sort(), 0i64..5, any::<bool>(), prop::bool::weighted(0.1), filter(), filter())
        .prop_map(|(range, revision, sort, limit, keys_only, count_only, min_mod, max_create)| Get {
            range,
            revision,
            sort,
            limit,
            keys_only,
            count_only,
            min_mod,
            max_create,
        })
}

fn compare() -> impl Strategy<Value = Compare> {
    (range(), 0u8..5, 0u8..4, any::<u8>()).prop_map(|(range, target, is, operand)| Compare {
        range,
        target,
        is,
        operand,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let leaf = prop_oneof![
        4 => put().prop_map(Step::Put),
        3 => get().prop_map(Step::Get),
        2 => (range(), any::<bool>()).prop_map(|(range, prev)| Step::Delete(range, prev)),
    ];
    leaf.prop_recursive(2, 12, 3, |inner| {
        (vec(compare(), 0..3), vec(inner.clone(), 0..4), vec(inner, 0..3))
            .prop_map(|(compares, then, otherwise)| Step::Txn(Txn { compares, then, otherwise }))
    })
}

impl Step {
    fn deletes_without_end(&self) -> bool {
        match self {
            Self::Delete(range, _) => range.end == "\0",
            Self::Txn(txn) => txn.then.iter().chain(&txn.otherwise).any(Self::deletes_without_end),
            Self::Put(_) | Self::Get(_) => false,
        }
    }

    fn keep_nothing(&mut self) {
        match self {
            Self::Put(put) => (put.keep_value, put.keep_lease) = (false, false),
            Self::Txn(txn) => {
                txn.then.iter_mut().chain(&mut txn.otherwise).for_each(Self::keep_nothing);
            }
            Self::Get(_) | Self::Delete(..) => {}
        }
    }
}

/// etcd ends with a panic when a transaction deletes a key by a range without end and then puts it with the value or
/// lease that it had; such a transaction is not drawn.
fn survivable(mut step: Step) -> Step {
    if matches!(step, Step::Txn(_)) && step.deletes_without_end() {
        step.keep_nothing();
    }
    step
}

pub(super) fn operation() -> impl Strategy<Value = Operation> {
    let watch =
        (range(), option::of(any::<u8>()), any::<bool>(), 0u8..6).prop_map(|(range, start, prev, kinds)| {
            Operation::Watch(Watch { range, start, prev, puts: kinds != 0, deletes: kinds != 1 })
        });
    prop_oneof![
        24 => step().prop_map(|step| Operation::Step(survivable(step))),
        1 => any::<u8>().prop_map(Operation::Compact),
        2 => (1i64..3).prop_map(Operation::Grant),
        1 => (1i64..4).prop_map(Operation::Revoke),
        1 => (1i64..4).prop_map(Operation::TimeToLive),
        1 => Just(Operation::Leases),
        2 => watch,
        1 => Just(Operation::Restart),
    ]
}
