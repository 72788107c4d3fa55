//! What is posted to create a compute release, and the digest by which two of them are the same.

use crate::{
    Branch, Digest, Fraction, GroupLabel, ReleaseTag, ReleaseVersion, ServiceName, ServiceVersion, Span,
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A compute release, as it is asked for. Unknown fields are refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// The version of the image.
    pub version: ReleaseVersion,
    /// Its tag.
    pub tag: ReleaseTag,
    /// Settings, extensions and whatever else belongs to the image: a JSON object.
    #[serde(default = "empty")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Object"))]
    pub manifest: Json,
    /// The branch that it was cut from; absent = the stream's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Branch>,
    /// The lowest version of each storage service that it can work with.
    #[serde(default)]
    pub requires: BTreeMap<ServiceName, ServiceVersion>,
    /// Whether a compatibility run must have passed.
    #[serde(default)]
    pub evidence: EvidenceRule,
    /// Goes out to a share of starts first; absent = as the stream's settings say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// The pull request that it was built for, where streams are grouped by that: its number, or its branch.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::pull_request::maybe"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::PullRequest>"))]
    pub pull_request: Option<GroupLabel>,
    /// The group that it belongs to, where streams are grouped by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupLabel>,
}

fn empty() -> Json {
    Json::Object(serde_json::Map::new())
}

/// Whether a release, or a whole stream, demands a passed compatibility run with the storage that is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceRule {
    /// It does not.
    #[default]
    None,
    /// It does.
    Required,
}

/// How a release is tried on a share of starts before it is deployed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Canary {
    /// Of how many starts.
    pub fraction: Fraction,
    /// How many computes must have signalled success before it is deployed without a person; absent = a person promotes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promote_after: Option<u32>,
    /// How many computes may signal failure; one more, and it is withdrawn.
    #[serde(default)]
    pub tolerate: u32,
    /// By when it must have succeeded, counted from its beginning; absent = it waits. Unmeasured is not success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
}

impl ReleaseRequest {
    /// The digest of the canonical body: equal for two requests that ask for the same, however they were written.
    /// What is absent and what was given its default are the same; the manifest's order of keys does not matter.
    pub fn digest(&self, branch: &Branch) -> Digest {
        let body = Self { branch: Some(branch.clone()), pull_request: None, group: None, ..self.clone() };
        let json = serde_json::to_value(body).expect("a request has string keys only, so it is always JSON");
        Digest::of(canonical(&json).as_bytes())
    }

    /// The digest of the canonical manifest.
    pub fn manifest_digest(&self) -> Digest {
        Digest::of(canonical(&self.manifest).as_bytes())
    }
}

/// A JSON value in its one form: no spaces, keys in order.
pub fn canonical(value: &Json) -> String {
    fn sorted(value: &Json) -> Json {
        match value {
            Json::Object(map) => {
                let ordered: BTreeMap<&String, &Json> = map.iter().collect();
                Json::Object(ordered.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
            }
            Json::Array(items) => Json::Array(items.iter().map(sorted).collect()),
            other => other.clone(),
        }
    }
    sorted(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn digest(request: Json) -> Digest {
        let request: ReleaseRequest = serde_json::from_value(request).unwrap();
        request.digest(&"main".parse().unwrap())
    }

    #[test]
    fn equal_requests_have_equal_digests() {
        let plain = digest(json!({"version": 9057, "tag": "release-9057"}));
        let spelt = json!({
            "tag": "release-9057", "version": 9057, "manifest": {}, "requires": {}, "evidence": "none", "branch": "main",
        });
        assert_eq!(digest(spelt), plain);
        let manifest = |manifest: Json| digest(json!({"version": 1, "tag": "t", "manifest": manifest}));
        let one: Json = serde_json::from_str(r#"{"a": {"x": "1", "y": "2"}, "b": []}"#).unwrap();
        let other: Json = serde_json::from_str(r#"{"b": [], "a": {"y": "2", "x": "1"}}"#).unwrap();
        assert_eq!(manifest(one.clone()), manifest(other));
        assert_ne!(manifest(one), manifest(json!({"a": {"x": "1", "y": "3"}, "b": []})));
    }

    #[test]
    fn every_part_of_the_body_counts() {
        let body = json!({"version": 9057, "tag": "release-9057"});
        let changes = [
            json!({"version": 9058}),
            json!({"tag": "release-9058"}),
            json!({"manifest": {"x": "1"}}),
            json!({"requires": {"pageserver": 8100}}),
            json!({"evidence": "required"}),
            json!({"canary": {"fraction": 0.1}}),
        ];
        for change in changes {
            let mut changed = body.clone();
            changed.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            assert_ne!(digest(changed), digest(body.clone()), "{change}");
        }
        assert!(
            serde_json::from_value::<ReleaseRequest>(json!({"version": 1, "tag": "t", "manifst": {}}))
                .is_err()
        );
    }
}
