//! Which release a compute starts with, and when a canary has succeeded or failed.
//!
//! # Invariants
//! A compute has one place among all, whatever the revision: a rising fraction only adds computes, a falling one only
//! removes some. Unmeasured is not success.

use crate::fleet::SignalCount;
use tidegate_proto::compute::Canary;
use tidegate_proto::record::stream::{Head, Stream};
use tidegate_proto::{ComputeId, Digest, Fraction, Span};

/// The place of a compute among all of them: 0 to 999,999, by the first eight bytes (big-endian) of the sha256 of
/// `canary/<compute>`, scaled down.
pub fn place(compute: &ComputeId) -> u32 {
    let hash = Digest::of(format!("canary/{compute}").as_bytes());
    let first = u64::from_be_bytes(std::array::from_fn(|n| hash.as_bytes()[n]));
    ((u128::from(first) * u128::from(Fraction::ALL.millionths())) >> 64) as u32
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        match self {
            Self::Pinned => "pinned",
            Self::Canary => "canary",
            Self::Deployed => "deployed",
        }
    }
}

/// What a compute starts with; none while nothing was deployed yet.
pub fn start<'a>(stream: &'a Stream, compute: &ComputeId) -> Option<Start<'a>> {
    if let Some(head) = stream.pins.get(compute).and_then(|pin| stream.head(pin.revision)) {
        return Some(Start { head, by: StartRule::Pinned });
    }
    let canary = stream
        .canary
        .as_deref()
        .filter(|head| head.fraction.is_some_and(|fraction| place(compute) < fraction.millionths()));
    if let Some(head) = canary {
        return Some(Start { head, by: StartRule::Canary });
    }
    stream.deployed.as_deref().map(|head| Start { head, by: StartRule::Deployed })
}

/// What the words of computes say about a canary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It is to be deployed.
    Succeeded,
    /// It is to be withdrawn, for this reason.
    Failed(String),
    /// Neither yet.
    Open,
}

/// Judges a canary that has gone on for `canary_ms`.
pub fn judge(canary: &Canary, count: SignalCount, canary_ms: u64) -> Judgement {
    if count.failures > canary.tolerate as usize {
        return Judgement::Failed(format!(
            "{} computes told of failure and {} are tolerated",
            count.failures, canary.tolerate
        ));
    }
    if canary.promote_after.is_some_and(|enough| count.successes >= enough as usize) {
        return Judgement::Succeeded;
    }
    match canary.deadline {
        Some(deadline) if canary_ms >= deadline.as_millis() => Judgement::Failed(format!(
            "{} computes told of success within {}, and unmeasured is not success",
            count.successes,
            Span::from_millis(deadline.as_millis())
        )),
        _ => Judgement::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute(n: usize) -> ComputeId {
        format!("compute-{n}").parse().unwrap()
    }

    #[test]
    fn a_share_of_computes_is_about_that_share_and_rising_only_adds() {
        let within = |share: f64| {
            let fraction = Fraction::new(share).unwrap();
            (0..10_000).filter(|n| place(&compute(*n)) < fraction.millionths()).collect::<Vec<_>>()
        };
        let mut smaller: Vec<usize> = Vec::new();
        for share in [0.01, 0.05, 0.2, 0.5, 1.0] {
            let larger = within(share);
            assert!(smaller.iter().all(|n| larger.contains(n)), "{share} lost somebody");
            // Binomial with n = 10,000: five standard deviations are at most 250.
            assert!((larger.len() as f64 - share * 10_000.0).abs() < 250.0, "{share}: {}", larger.len());
            smaller = larger;
        }
        assert_eq!(smaller.len(), 10_000);
    }

    #[test]
    fn the_place_of_a_compute_is_written_down() {
        // Two versions of the coordinator must agree on it: it never changes.
        assert_eq!(
            ["compute-1", "compute-2", "ep-cool-darkness-123456"].map(|id| place(&id.parse().unwrap())),
            [156_976, 3_177, 443_892]
        );
    }

    #[test]
    fn unmeasured_is_not_success() {
        let canary = Canary {
            fraction: Fraction::ALL,
            promote_after: Some(3),
            tolerate: 1,
            deadline: Some(Span::from_secs(60)),
        };
        let judged = |successes, failures, ms| judge(&canary, SignalCount { successes, failures }, ms);
        assert_eq!(judged(0, 0, 59_999), Judgement::Open);
        assert_eq!(judged(2, 1, 0), Judgement::Open);
        assert_eq!(judged(3, 1, 0), Judgement::Succeeded);
        assert!(matches!(judged(3, 2, 0), Judgement::Failed(_)), "more failures than tolerated");
        assert!(matches!(judged(2, 0, 60_000), Judgement::Failed(_)), "the deadline");
        let by_hand = Canary { promote_after: None, deadline: None, ..canary };
        assert_eq!(judge(&by_hand, SignalCount { successes: 9_999, failures: 0 }, u64::MAX), Judgement::Open);
    }
}
