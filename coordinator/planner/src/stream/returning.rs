//! Rollbacks that wait for an image: what they hold back.
//!
//! # Invariants
//! While a rollback waits, and after it failed, no release that was created before it goes out by itself.

use crate::reason::{Reason, ReleaseGate};
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::stream::{Head, Stream};
use tidegate_proto::{ReleaseRevision, mutant};

/// The rollback that holds a release back: the latest that was asked for after it and waits, or has failed.
pub fn holds_back(stream: &Stream, revision: ReleaseRevision) -> Option<Reason> {
    if mutant::is("failed-rollback-holds-nothing") {
        return None;
    }
    let failed = stream.kept.iter().filter(|head| head.release.status == ReleaseStatus::Error);
    let later = stream.pending.iter().chain(failed).filter(|head| head.returns());
    let back = later.max_by_key(|head| head.release.revision).map(|head| &head.release)?;
    (back.revision > revision).then(|| {
        Reason::Release(ReleaseGate::RollsBack {
            revision: back.revision,
            failed: back.status == ReleaseStatus::Error,
        })
    })
}

/// The first release that a failed rollback holds back.
pub fn held_by(stream: &Stream, failed: &Head) -> Option<ReleaseRevision> {
    let rollback = failed.returns() && failed.release.status == ReleaseStatus::Error;
    let moving = stream.pending.iter().chain(stream.canary.as_deref()).map(|head| head.release.revision);
    moving.filter(|revision| rollback && *revision < failed.release.revision).min()
}
