//! What is seen of release streams from outside: which image is where, and which release a compute is shown.

use super::judge::Facts;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus};
use tidegate_proto::record::stream::{Head, Stream};

/// The streams, as the auditor sees them.
#[derive(Debug, Default)]
pub(super) struct StreamFacts {
    /// The current record of each stream.
    pub now: BTreeMap<String, Stream>,
    /// What each revision that was ever seen is.
    pub releases: BTreeMap<(String, u64), ComputeRelease>,
    /// Tags that a person had go out, whatever was prewarmed.
    pub promoted: BTreeSet<String>,
    /// Revisions that went out while storage that they need said another version than it is.
    pub misled: BTreeSet<(String, u64)>,
    /// Computes that were pinned to a revision while storage that it needs said another version than it is.
    pub misled_pins: BTreeSet<(String, String, u64)>,
    /// Another store took the place of the one that ordered what is there: images say nothing any more.
    pub lost: bool,
}

fn in_use(status: ReleaseStatus) -> bool {
    matches!(status, ReleaseStatus::Deployed | ReleaseStatus::Canary | ReleaseStatus::Superseded)
}

impl Facts {
    /// An image was removed from a node: nothing that starts or is kept to go back to has its tag.
    pub(super) fn image_removed(&mut self, now: u64, node: &str, tag: &str) {
        if self.streams.lost {
            return;
        }
        let bears = |head: &&Head| head.release.tag.as_str() == tag && in_use(head.release.status);
        let found = self.streams.now.iter().find_map(|(name, stream)| {
            let head = stream.heads().find(bears)?;
            Some(format!("revision {} of {name} is {}", head.release.revision, head.release.status))
        });
        if let Some(found) = found {
            self.breach(now, 7, format!("{node} removed image {tag}, and {found}"));
        }
    }
}
