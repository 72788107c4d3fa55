//! Which superseded releases are kept, and why each: nothing is collected that anything still holds.

use super::returning;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::stream::{Head, Stream};
use tidegate_proto::{ComputeId, ReleaseRevision, Span};

/// Why a release is kept.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Keep {
    /// It is what new computes start with.
    Deployed,
    /// It is in canary.
    Canary,
    /// It waits to go out.
    Pending,
    /// It is among the latest that are kept in any case.
    MinimumAvailable {
        /// How many those are, counting the deployed one.
        count: u32,
    },
    /// It failed, and nothing came after it: a person may have it tried again.
    Latest,
    /// It is a rollback that failed, and holds back what was created before it.
    HoldsBack {
        /// The first of those.
        first: ReleaseRevision,
    },
    /// It was superseded less than the rollback window ago.
    RollbackWindow {
        /// For so long.
        left: Span,
    },
    /// It is what the stream's manual strategy names.
    Manual,
    /// Computes are pinned to it.
    Pinned {
        /// The first of them.
        first: ComputeId,
        /// How many.
        count: usize,
    },
    /// Computes run its tag.
    Running {
        /// How many, as last reported.
        count: u64,
    },
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deployed => f.write_str("it is deployed"),
            Self::Canary => f.write_str("it is in canary"),
            Self::Pending => f.write_str("it waits to go out"),
            Self::MinimumAvailable { count } => {
                write!(f, "it is among the {count} that are kept in any case")
            }
            Self::Latest => f.write_str("it failed, is the latest, and may be tried again"),
            Self::HoldsBack { first } => {
                write!(f, "it is a rollback that failed, and holds back revision {first}")
            }
            Self::RollbackWindow { left } => write!(f, "it can be gone back to for another {left}"),
            Self::Manual => f.write_str("the stream's manual strategy names it"),
            Self::Pinned { first, count: 1 } => write!(f, "{first} is pinned to it"),
            Self::Pinned { first, count } => write!(f, "{first} and {} more are pinned to it", count - 1),
            Self::Running { count } => write!(f, "{count} computes run its tag"),
        }
    }
}

/// Every release that anything may still happen to, with all that keeps it. One without a reason is to be collected.
pub fn kept(stream: &Stream) -> BTreeMap<ReleaseRevision, Vec<Keep>> {
    let enough = latest_available(stream);
    stream.heads().map(|head| (head.release.revision, reasons(stream, head, &enough))).collect()
}

fn reasons(stream: &Stream, head: &Head, enough: &BTreeSet<ReleaseRevision>) -> Vec<Keep> {
    let (release, settings) = (&head.release, &stream.settings);
    let mut reasons = Vec::new();
    match release.status {
        ReleaseStatus::Deployed => reasons.push(Keep::Deployed),
        ReleaseStatus::Canary => reasons.push(Keep::Canary),
        ReleaseStatus::Pending => reasons.push(Keep::Pending),
        ReleaseStatus::Superseded if enough.contains(&release.revision) => {
            reasons.push(Keep::MinimumAvailable { count: settings.minimum_available });
        }
        ReleaseStatus::Error if stream.latest.as_ref().is_some_and(|l| l.revision == release.revision) => {
            reasons.push(Keep::Latest);
        }
        _ => {}
    }
    reasons.extend(returning::held_by(stream, head).map(|first| Keep::HoldsBack { first }));
    let left = settings.rollback_window.as_millis().saturating_sub(head.superseded_ms);
    if release.status == ReleaseStatus::Superseded && left > 0 {
        reasons.push(Keep::RollbackWindow { left: Span::from_millis(left) });
    }
    if settings.strategy.manual.as_ref() == Some(&release.tag) {
        reasons.push(Keep::Manual);
    }
    let mut pinned = stream.pins.iter().filter(|(_, pin)| pin.revision == release.revision).map(|(id, _)| id);
    if let Some(first) = pinned.next() {
        reasons.push(Keep::Pinned { first: first.clone(), count: pinned.count() + 1 });
    }
    if let Some(running) = stream.running.get(&release.tag).filter(|running| running.count > 0) {
        reasons.push(Keep::Running { count: running.count });
    }
    reasons
}

/// The latest that were deployed once, as many as are kept in any case beside the deployed one.
fn latest_available(stream: &Stream) -> BTreeSet<ReleaseRevision> {
    let beside = stream.settings.minimum_available.saturating_sub(1) as usize;
    let once_deployed =
        |head: &&Head| head.release.status == ReleaseStatus::Superseded && head.release.deployed_at.is_some();
    stream.kept.iter().rev().filter(once_deployed).take(beside).map(|head| head.release.revision).collect()
}
