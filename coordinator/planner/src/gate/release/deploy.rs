//! Whether a waiting release may be deployed, as far as its stream says: strategy, approval, one canary at a time, rollbacks
//! that wait, and what can be kept.
//!
//! # Invariants
//! * Manual has precedence over latest.
//! * While a rollback waits, and after it failed, no release that was created before it goes out by itself.

use super::ReleaseGate;
use crate::gate::Reason;
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus};
use tidegate_proto::record::stream::{ApprovalRule, Head, MAX_KEPT, Stream, StreamStrategy};
use tidegate_proto::{ReleaseRevision, StreamName, mutant};

/// Whether a waiting release is what the stream wants; if not, why.
pub fn wants(strategy: &StreamStrategy, head: &Head) -> Result<(), Reason> {
    match &strategy.manual {
        Some(tag) if *tag == head.release.tag => Ok(()),
        Some(tag) => Err(Reason::Release(ReleaseGate::Manual { tag: tag.clone() })),
        None if strategy.latest => Ok(()),
        None => Err(Reason::Release(ReleaseGate::NoStrategy)),
    }
}

/// Whether a release has the approval that its stream requires.
pub(crate) fn approved(name: &StreamName, stream: &Stream, release: &ComputeRelease) -> Result<(), Reason> {
    match stream.settings.approval == ApprovalRule::Required && release.approved.is_none() {
        true => Err(Reason::Release(ReleaseGate::ReleaseApproval {
            stream: name.clone(),
            revision: release.revision,
        })),
        false => Ok(()),
    }
}

/// Whether another release is in canary; a manual strategy does not wait for one with another tag.
pub(crate) fn is_canary_free(stream: &Stream) -> Result<(), Reason> {
    let manual = stream.settings.strategy.manual.as_ref();
    let is_wanted = |canary: &&Head| manual.is_none_or(|tag| *tag == canary.release.tag);
    match stream.canary.as_deref().filter(is_wanted) {
        Some(other) => Err(Reason::Release(ReleaseGate::CanaryBusy { revision: other.release.revision })),
        None => Ok(()),
    }
}

/// The rollback that holds a release back: the latest that was asked for after it and waits, or has failed.
pub fn holds_back(stream: &Stream, revision: ReleaseRevision) -> Option<Reason> {
    rollback_after(stream, revision).map(overtaken_by)
}

/// The same where that rollback waits: a person may promote a release over one that failed.
pub(crate) fn waiting_rollback(stream: &Stream, revision: ReleaseRevision) -> Option<Reason> {
    let back = rollback_after(stream, revision);
    back.filter(|back| back.status != ReleaseStatus::Error).map(overtaken_by)
}

fn rollback_after(stream: &Stream, revision: ReleaseRevision) -> Option<&ComputeRelease> {
    if mutant::is("failed-rollback-holds-nothing") {
        return None;
    }
    let failed = stream.kept.iter().filter(|head| head.release.status == ReleaseStatus::Error);
    let later = stream.pending.iter().chain(failed).filter(|head| head.returns());
    let back = later.max_by_key(|head| head.release.revision).map(|head| &head.release)?;
    (back.revision > revision).then_some(back)
}

fn overtaken_by(back: &ComputeRelease) -> Reason {
    let failed = back.status == ReleaseStatus::Error;
    ReleaseGate::RollsBack { revision: back.revision, failed }.into()
}

/// Whether what a release would supersede can be kept.
pub(crate) fn room_to_keep(stream: &Stream, revision: ReleaseRevision) -> Result<(), Reason> {
    let before = |head: &&Head| head.release.revision < revision;
    let moving = stream.pending.iter().chain(stream.canary.as_deref());
    let superseded = moving.filter(before).count() + usize::from(stream.deployed.is_some());
    let count = stream.kept.len();
    if count + superseded > MAX_KEPT {
        let collected = |head: &&Head| head.release.status == ReleaseStatus::Deprecated;
        let unremoved = stream.kept.iter().filter(collected).count();
        Err(Reason::Release(ReleaseGate::TooManyKept { count, unremoved }))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn manual_wins_over_latest() {
        let digest = "0".repeat(64);
        let release = serde_json::from_value(json!({
            "revision": 1, "version": 1, "tag": "a", "branch": "b", "manifest": digest, "digest": digest,
            "status": "pending", "by": "ci", "created_at": 0,
        }));
        let head = Head::new(release.unwrap());
        let strategy = |latest, manual: Option<&str>| StreamStrategy {
            latest,
            manual: manual.map(|tag| tag.parse().unwrap()),
        };
        assert_eq!(wants(&strategy(true, None), &head), Ok(()));
        assert_eq!(wants(&strategy(false, Some("a")), &head), Ok(()));
        let other = Err(Reason::Release(ReleaseGate::Manual { tag: "z".parse().unwrap() }));
        assert_eq!(wants(&strategy(true, Some("z")), &head), other);
        assert_eq!(wants(&strategy(false, None), &head), Err(Reason::Release(ReleaseGate::NoStrategy)));
    }
}
