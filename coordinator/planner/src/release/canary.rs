//! Which release a compute starts with, and which signals about a canary count.
//!
//! # Invariants
//! Within one canary a compute has one place among all: a rising fraction only adds computes, a falling one only
//! removes some. Each canary of each stream has places of its own.

use crate::fleet::share::{salted, unsalted};
use crate::fleet::{Fleet, SignalCount};
use tidegate_proto::key::SignalSubject;
use tidegate_proto::record::stream::{Head, Stream};
use tidegate_proto::{ComputeId, StreamName, mutant};

/// The place of a compute in a canary: 0 to 999,999, by the first eight bytes (big-endian) of the sha256 of
/// `canary/<stream>/<revision>/<compute>`, scaled down; of `canary/<compute>` for a canary that began before places
/// were salted, so that its share stays as it was.
pub fn place(name: &StreamName, canary: &Head, compute: &ComputeId) -> u32 {
    match canary.salted && !mutant::is("canary-is-not-salted") {
        true => salted(name, canary.release.revision, compute),
        false => unsalted(compute),
    }
}

/// Whether a compute is within the share of a canary.
pub fn is_within(name: &StreamName, canary: &Head, compute: &ComputeId) -> bool {
    canary.fraction.is_some_and(|fraction| place(name, canary, compute) < fraction.millionths())
}

/// The stored signals about the canary of a stream that count: those of computes within its share. The success of a
/// compute that is pinned does not count either; its failure does, because a pin is what a person gives to a compute
/// that signalled failure.
pub fn counted(fleet: &Fleet, name: &StreamName, stream: &Stream) -> SignalCount {
    let Some(canary) = stream.canary.as_deref() else { return SignalCount::default() };
    let everything = mutant::is("stored-signals-outside-the-fraction-count");
    let mut count = SignalCount::default();
    for (compute, signal) in fleet.signals_of(&SignalSubject::Release(name.clone(), canary.release.revision))
    {
        let within = everything || signal.places.are_within(canary);
        let pinned = || stream.pins.contains_key(compute);
        count.successes += usize::from(within && signal.success && !pinned());
        count.failures += usize::from(within && !signal.success);
    }
    count
}

/// What a compute starts with, and by which rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start<'a> {
    /// The release.
    pub head: &'a Head,
    /// Why that one.
    pub by: StartRule,
}

/// By which rule a compute starts with its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum StartRule {
    /// It is pinned to it.
    Pinned,
    /// It is among the canary's share.
    Canary,
    /// It is what is deployed.
    Deployed,
}

impl StartRule {
    /// The word for it.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// What a compute starts with; none while nothing was deployed yet.
pub fn start<'a>(name: &StreamName, stream: &'a Stream, compute: &ComputeId) -> Option<Start<'a>> {
    if let Some(head) = stream.pins.get(compute).and_then(|pin| stream.head(pin.revision)) {
        return Some(Start { head, by: StartRule::Pinned });
    }
    if let Some(head) = stream.canary.as_deref().filter(|head| is_within(name, head, compute)) {
        return Some(Start { head, by: StartRule::Canary });
    }
    stream.deployed.as_deref().map(|head| Start { head, by: StartRule::Deployed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tidegate_proto::{Digest, Fraction};

    fn compute(n: usize) -> ComputeId {
        format!("compute-{n}").parse().unwrap()
    }

    fn canary(revision: u64, salted: bool) -> Head {
        let digest = Digest::of(b"");
        let release = serde_json::json!({
            "revision": revision, "version": 1, "tag": "t", "branch": "compute", "manifest": digest,
            "digest": digest, "status": "canary", "by": "ci", "created_at": 0
        });
        Head { salted, ..Head::new(serde_json::from_value(release).unwrap()) }
    }

    /// Those of 10,000 computes that are within a share.
    fn within(stream: &str, revision: u64, salted: bool, share: f64) -> BTreeSet<usize> {
        let head = Head { fraction: Some(Fraction::new(share).unwrap()), ..canary(revision, salted) };
        (0..10_000).filter(|n| is_within(&stream.parse().unwrap(), &head, &compute(*n))).collect()
    }

    #[test]
    fn rising_share_of_any_canary_only_adds() {
        for (revision, salted) in [(2, false), (2, true), (3, true), (900, true)] {
            let mut smaller = BTreeSet::new();
            for share in [0.01, 0.05, 0.2, 0.5, 1.0] {
                let larger = within("compute", revision, salted, share);
                assert!(smaller.is_subset(&larger), "{share} lost a compute");
                // Binomial with n = 10,000: five standard deviations are at most 250.
                assert!((larger.len() as f64 - share * 10_000.0).abs() < 250.0, "{share}: {}", larger.len());
                smaller = larger;
            }
            assert_eq!(smaller.len(), 10_000);
        }
    }

    #[test]
    fn each_canary_of_each_stream_has_a_share_of_its_own() {
        let first = within("compute", 2, true, 0.1);
        for other in [within("compute", 3, true, 0.1), within("proxy", 2, true, 0.1)] {
            // Independent shares of a tenth have a hundredth in common: 100 of 10,000, within five deviations.
            let both = first.intersection(&other).count();
            assert!(both < 150, "{both} computes are in both");
        }
    }

    #[test]
    fn place_of_a_compute_is_fixed() {
        // Two versions of the coordinator must agree on it: it never changes.
        let places = |salted: bool| {
            ["compute-1", "compute-2", "ep-cool-darkness-123456"]
                .map(|id| place(&"compute".parse().unwrap(), &canary(2, salted), &id.parse().unwrap()))
        };
        assert_eq!(places(false), [156_976, 3_177, 443_892], "a canary that began before places were salted");
        assert_eq!(places(true), [877_083, 543_001, 552_425]);
    }
}
