//! What is asked of a metadata group: the document, how it is exposed, what the update waits for, which failures it tolerates. Here are the
//! fields, their defaults, and the checks that need nothing but the request itself.

use crate::compute::{canonical, number};
use crate::spec::{CanaryStep, Flaw, Strategy, heat_steps};
use crate::{Amount, Digest, FailureName, NodeId, ServiceName, Span};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeSet;

number!(
    /// The place of a document in its group: counted by the group, never reused.
    MetadataGeneration,
    "generation of a metadata document"
);

/// The largest document, in bytes of its canonical form. With the pages of the largest update it fits into one transaction.
pub const MAX_DOCUMENT_BYTES: usize = 256 * 1024;

/// The most instances that an update by batches, or a list of members, may have: list, batches and document fit into one
/// transaction.
pub const MAX_MEMBERS: usize = 5_000;

/// The most kinds of failure that may be expected.
pub const MAX_EXPECTED: usize = 50;

/// The kind of failure of an instance that signalled nothing in time.
pub const TIMEOUT: &str = "timeout";

/// The kind of failure that has no other name.
pub const UNNAMED: &str = "failed";

/// Another document for a group.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateRequest {
    /// The document: an object.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Object"))]
    pub document: Json,
    /// How it is exposed. Absent = immediate (Heat).
    #[serde(default)]
    pub pattern: Pattern,
    /// With `rolling`: the size of each batch. Absent = 1 (Heat).
    pub batch: Option<Amount>,
    /// With `canary`: the size of each batch. Absent = 1, 1 %, 5 %, 20 %, rest (Heat).
    pub steps: Option<Vec<CanaryStep>>,
    /// How long the instances of a batch may take to signal success or failure. Absent = 5m.
    pub timeout: Option<Span>,
    /// How long a batch is watched at the least, before the next one. Absent = 0s.
    pub pause: Option<Span>,
    /// How many instances may fail before all are returned. Absent = 0.
    pub tolerate: Option<Amount>,
    /// Kinds of failure that do not count.
    #[serde(default)]
    pub expected: BTreeSet<FailureName>,
    /// Who belongs to the group: the instances of this service. Absent (with `instances`) = as before.
    pub service: Option<ServiceName>,
    /// Who belongs to the group: these.
    pub instances: Option<BTreeSet<NodeId>>,
}

/// How a document is exposed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Batch by batch, of equal size.
    Rolling,
    /// Batch by batch, each larger than the one before.
    Canary,
    /// To all instances at once, without waiting.
    #[default]
    Immediate,
}

/// What the update waits for, and which failures it tolerates.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateTerms {
    /// How long the instances of a batch may take to signal success or failure.
    pub timeout: Span,
    /// How long a batch is watched at the least.
    #[serde(default)]
    pub pause: Span,
    /// How many instances may fail, of those that were drawn; a share is rounded down.
    pub tolerate: Amount,
    /// Kinds of failure that do not count.
    #[serde(default)]
    pub expected: BTreeSet<FailureName>,
}

/// The digest of a document, by its canonical form.
pub fn document_digest(document: &Json) -> Digest {
    Digest::of(canonical(document).as_bytes())
}

impl UpdateRequest {
    /// How instances are grouped into batches.
    pub fn strategy(&self) -> Strategy {
        match self.pattern {
            Pattern::Immediate => Strategy::Immediate,
            Pattern::Rolling => Strategy::Rolling { batch: self.batch.unwrap_or(Amount::Count(1)) },
            Pattern::Canary => Strategy::Canary { steps: self.steps.clone().unwrap_or_else(heat_steps) },
        }
    }

    /// What the update waits for, and which failures it tolerates.
    pub fn terms(&self) -> UpdateTerms {
        UpdateTerms {
            timeout: self.timeout.unwrap_or(Span::from_secs(300)),
            pause: self.pause.unwrap_or_default(),
            tolerate: self.tolerate.unwrap_or(Amount::Count(0)),
            expected: self.expected.clone(),
        }
    }

    /// The digest of the document: another with this one says the same.
    pub fn digest(&self) -> Digest {
        document_digest(&self.document)
    }

    /// How many bytes the document has as it is stored; [`MAX_DOCUMENT_BYTES`] are allowed.
    pub fn document_bytes(&self) -> usize {
        canonical(&self.document).len()
    }

    /// Everything that is wrong with it by itself, but its size; empty = valid.
    pub fn flaws(&self) -> Vec<Flaw> {
        let mut flaws = self.strategy().flaws();
        let mut flaw = |field, what: String| flaws.push(Flaw { field, what });
        if !self.document.is_object() {
            flaw("document", "is no object: {\"name\": value, …} is allowed".to_owned());
        }
        let only = |given: bool, with: Pattern| given && self.pattern != with;
        if only(self.batch.is_some(), Pattern::Rolling) {
            flaw("batch", "is given, and only the pattern rolling has batches of one size".to_owned());
        }
        if only(self.steps.is_some(), Pattern::Canary) {
            flaw("steps", "is given, and only the pattern canary has steps".to_owned());
        }
        if self.pattern == Pattern::Immediate {
            let waits = [
                ("timeout", self.timeout.is_some()),
                ("pause", self.pause.is_some()),
                ("tolerate", self.tolerate.is_some()),
                ("expected", !self.expected.is_empty()),
            ];
            for (field, _) in waits.into_iter().filter(|(_, given)| *given) {
                flaw(field, "is given, and the pattern immediate does not wait".to_owned());
            }
        }
        if self.timeout.is_some_and(|timeout| timeout.as_millis() == 0) {
            flaw("timeout", "is 0, so every instance would be too late: 1ms or more is allowed".to_owned());
        }
        if self.expected.len() > MAX_EXPECTED {
            let count = self.expected.len();
            flaw("expected", format!("names {count} kinds of failure, at most {MAX_EXPECTED} are allowed"));
        }
        match &self.instances {
            Some(_) if self.service.is_some() => {
                flaw("instances", "is given beside service: one of them says who belongs".to_owned())
            }
            Some(named) if named.is_empty() || named.len() > MAX_MEMBERS => {
                let count = named.len();
                flaw("instances", format!("names {count} instances: 1 to {MAX_MEMBERS} are allowed"))
            }
            _ => {}
        }
        flaws
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(change: Json) -> UpdateRequest {
        let mut value = json!({"document": {"a": 1}});
        value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_is_absent_is_what_heat_has() {
        assert_eq!(request(json!({})).strategy(), Strategy::Immediate);
        assert_eq!(request(json!({"pattern": "rolling"})).strategy(), Strategy::default());
        let canary = serde_json::to_value(request(json!({"pattern": "canary"})).strategy()).unwrap();
        assert_eq!(canary, json!({"canary": {"steps": [1, "1%", "5%", "20%", "rest"]}}));
        let terms = request(json!({"pattern": "rolling"})).terms();
        assert_eq!((terms.timeout, terms.tolerate), (Span::from_secs(300), Amount::Count(0)));
    }

    #[test]
    fn every_flaw_is_named_by_its_field() {
        let cases = [
            (json!({"document": []}), "document"),
            (json!({"pattern": "rolling", "batch": 0}), "strategy.rolling.batch"),
            (json!({"pattern": "canary", "steps": []}), "strategy.canary.steps"),
            (json!({"pattern": "canary", "batch": 2}), "batch"),
            (json!({"steps": [1]}), "steps"),
            (json!({"timeout": "5m"}), "timeout"),
            (json!({"tolerate": 1}), "tolerate"),
            (json!({"pattern": "rolling", "timeout": "0s"}), "timeout"),
            (json!({"instances": []}), "instances"),
            (json!({"instances": ["a"], "service": "s"}), "instances"),
        ];
        for (change, field) in cases {
            let flaws = request(change.clone()).flaws();
            assert_eq!(flaws.iter().map(|flaw| flaw.field).collect::<Vec<_>>(), [field], "{change:.80}");
        }
        assert_eq!(request(json!({"pattern": "rolling", "batch": "10%", "tolerate": "5%"})).flaws(), []);
    }

    #[test]
    fn value_out_of_range_is_refused() {
        for bad in [
            json!({"pattern": "blue-green"}),
            json!({"pattern": "rolling", "batch": -1}),
            json!({"pattern": "rolling", "batch": "101%"}),
            json!({"pattern": "rolling", "batch": 1.5}),
            json!({"pattern": "canary", "steps": ["half"]}),
            json!({"timeout": "-1s"}),
            json!({"expected": ["a/b"]}),
            json!({"instances": ["../etc"]}),
            json!({"patern": "rolling"}),
        ] {
            let mut value = json!({"document": {}});
            value.as_object_mut().unwrap().extend(bad.as_object().unwrap().clone());
            assert!(serde_json::from_value::<UpdateRequest>(value).is_err(), "{bad} was taken");
        }
    }
}
