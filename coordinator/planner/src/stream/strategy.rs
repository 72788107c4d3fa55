//! What a stream deploys automatically: the latest release, or a tag that a person named. Manual has precedence over latest.

use crate::gate::{Reason, ReleaseGate};
use tidegate_proto::record::stream::{Head, StreamStrategy};

/// Whether a waiting release is what the stream wants; if not, why.
pub fn wants(strategy: &StreamStrategy, head: &Head) -> Result<(), Reason> {
    match &strategy.manual {
        Some(tag) if *tag == head.release.tag => Ok(()),
        Some(tag) => Err(Reason::Release(ReleaseGate::Manual { tag: tag.clone() })),
        None if strategy.latest => Ok(()),
        None => Err(Reason::Release(ReleaseGate::NoStrategy)),
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
