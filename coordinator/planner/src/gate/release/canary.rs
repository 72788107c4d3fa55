//! Whether a canary has succeeded: by the signals of its computes, within its deadline.

use super::ReleaseGate;
use crate::fleet::SignalCount;
use crate::gate::{CanaryCount, Reason};
use tidegate_proto::Span;
use tidegate_proto::compute::Canary;

/// What the signals of computes say about a canary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It is to be deployed.
    Succeeded,
    /// It is to be withdrawn, for this reason.
    Failed(String),
    /// Neither yet.
    Open(Reason),
}

/// Judges a canary that has gone on for `canary_ms`.
pub(crate) fn judge(canary: &Canary, count: SignalCount, canary_ms: u64) -> Judgement {
    if count.failures > canary.tolerate as usize {
        return Judgement::Failed(format!(
            "{} computes signalled failure and {} are tolerated",
            count.failures, canary.tolerate
        ));
    }
    if canary.promote_after.is_some_and(|enough| count.successes >= enough as usize) {
        return Judgement::Succeeded;
    }
    match canary.deadline {
        Some(deadline) if canary_ms >= deadline.as_millis() => Judgement::Failed(format!(
            "{} computes signalled success within {}, and unmeasured is not success",
            count.successes,
            Span::from_millis(deadline.as_millis())
        )),
        deadline => {
            let count = CanaryCount {
                successes: count.successes,
                needed: canary.promote_after,
                failures: count.failures,
                tolerated: canary.tolerate,
            };
            Judgement::Open(ReleaseGate::CanaryOpen { count, deadline }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_proto::Fraction;

    #[test]
    fn unmeasured_is_not_success() {
        let canary = Canary {
            fraction: Fraction::ALL,
            promote_after: Some(3),
            tolerate: 1,
            deadline: Some(Span::from_secs(60)),
        };
        let judged = |successes, failures, ms| judge(&canary, SignalCount { successes, failures }, ms);
        assert!(matches!(judged(0, 0, 59_999), Judgement::Open(_)));
        assert!(matches!(judged(2, 1, 0), Judgement::Open(_)));
        assert_eq!(judged(3, 1, 0), Judgement::Succeeded);
        assert!(matches!(judged(3, 2, 0), Judgement::Failed(_)), "more failures than tolerated");
        assert!(matches!(judged(2, 0, 60_000), Judgement::Failed(_)), "the deadline");
        let by_hand = Canary { promote_after: None, deadline: None, ..canary };
        let judged = judge(&by_hand, SignalCount { successes: 9_999, failures: 0 }, u64::MAX);
        assert!(matches!(judged, Judgement::Open(_)));
    }
}
