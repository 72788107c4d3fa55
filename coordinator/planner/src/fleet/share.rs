//! The place of a compute in a canary: a hash that is calculated once, when its signal is read.

use tidegate_proto::key::SignalSubject;
use tidegate_proto::record::stream::Head;
use tidegate_proto::{ComputeId, Digest, Fraction, ReleaseRevision, StreamName};

pub(crate) fn salted(name: &StreamName, revision: ReleaseRevision, compute: &ComputeId) -> u32 {
    place_of(&format!("canary/{name}/{revision}/{compute}"))
}

pub(crate) fn unsalted(compute: &ComputeId) -> u32 {
    place_of(&format!("canary/{compute}"))
}

fn place_of(text: &str) -> u32 {
    let hash = Digest::of(text.as_bytes());
    let first = u64::from_be_bytes(std::array::from_fn(|n| hash.as_bytes()[n]));
    ((u128::from(first) * u128::from(Fraction::ALL.millionths())) >> 64) as u32
}

/// The places of a compute in the canary that a signal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    salted: u32,
    unsalted: u32,
}

impl Places {
    /// Those of a compute.
    pub(crate) fn of(subject: &SignalSubject, compute: &ComputeId) -> Self {
        let SignalSubject::Release(name, revision) = subject;
        Self { salted: salted(name, *revision, compute), unsalted: unsalted(compute) }
    }

    pub(crate) fn are_within(self, canary: &Head) -> bool {
        let place = if canary.salted { self.salted } else { self.unsalted };
        canary.fraction.is_some_and(|fraction| place < fraction.millionths())
    }
}
