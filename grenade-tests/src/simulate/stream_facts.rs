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
    /// Nodes in whose place an agent that lied said that a task was done.
    pub false_results: BTreeSet<usize>,
    /// Revisions that went out while storage that they need said another version than it is.
    pub misled: BTreeSet<(String, u64)>,
    /// Computes that were pinned to a revision while storage that it needs said another version than it is.
    pub misled_pins: BTreeSet<(String, String, u64)>,
    /// Another store took the place of the one that ordered what is there: images say nothing any more.
    pub lost: bool,
}

/// Whether computes start with a release of a stream, did so, or can be rolled back to it. One that was superseded while
/// it waited is nothing to go back to: its image counts for its pins only.
fn in_use(stream: &Stream, head: &Head) -> bool {
    let release = &head.release;
    match release.status {
        ReleaseStatus::Deployed | ReleaseStatus::Canary => true,
        ReleaseStatus::Superseded => {
            let went_out = release.deployed_at.is_some() || head.canary_ms > 0;
            went_out || stream.pins.values().any(|pin| pin.revision == release.revision)
        }
        _ => false,
    }
}

impl Facts {
    /// An image was removed from a node: nothing that starts or is kept to go back to has its tag.
    pub(super) fn image_removed(&mut self, now: u64, node: &str, tag: &str) {
        if self.streams.lost {
            return;
        }
        let found = self.streams.now.iter().find_map(|(name, stream)| {
            let mut of_tag = stream.heads().filter(|head| head.release.tag.as_str() == tag);
            let head = of_tag.find(|head| in_use(stream, head))?;
            Some(format!("revision {} of {name} is {}", head.release.revision, head.release.status))
        });
        if let Some(found) = found {
            self.breach(now, 7, format!("{node} removed image {tag}, and {found}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn superseded(deployed_at: Option<u64>, canary_ms: u64) -> Stream {
        let digest = "0".repeat(64);
        let release = json!({
            "revision": 3, "version": 1, "tag": "release-1", "branch": "b", "manifest": digest,
            "digest": digest, "rollback_of": 1, "status": "superseded", "by": "op", "created_at": 0,
            "deployed_at": deployed_at,
        });
        let head = json!({"release": release, "canary_ms": canary_ms});
        serde_json::from_value(json!({"kept": [head]})).unwrap()
    }

    /// The rules that the removal of its image breaks.
    fn rules(stream: Stream) -> Vec<u8> {
        let mut judged = Facts::default();
        judged.streams.now.insert("compute".to_owned(), stream);
        judged.image_removed(0, "n02", "release-1");
        judged.breaches.iter().map(|breach| breach.rule).collect()
    }

    #[test]
    fn image_of_a_release_overtaken_while_it_waited_may_go() {
        assert!(rules(superseded(None, 0)).is_empty(), "nothing can go back to it");
        assert_eq!(rules(superseded(Some(0), 0)), [7], "it was deployed");
        assert_eq!(rules(superseded(None, 1)), [7], "it was in canary");
        let mut pinned = superseded(None, 0);
        let pin = json!({"revision": 3, "who": "op", "why": "it stays", "at": 0});
        pinned.pins.insert("ep-4".parse().unwrap(), serde_json::from_value(pin).unwrap());
        assert_eq!(rules(pinned), [7], "a compute is pinned to it");
    }
}
