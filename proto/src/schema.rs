//! JSON Schemas of the words of this crate that are written as a text or a number: the same patterns and limits as their
//! parsers have.

use crate::compute::{ReleaseRevision, ReleaseVersion};
use crate::metadata::MetadataGeneration;
use crate::record::Timestamp;
use crate::spec::CanaryStep;
use crate::*;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// The schema of a file that people write, with what is said of the file.
pub fn of_file<T: JsonSchema>(title: &str, description: &str) -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let mut schema = settings.for_deserialize().into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.insert("description".to_owned(), description.into());
    schema.to_value()
}

/// A JSON object of whatever content.
pub enum Object {}

/// A sha256, or the word that there is none.
pub enum PinnedDigest {}

/// A pull request as it is given: its number, or its branch.
pub enum PullRequest {}

macro_rules! schemas {
    ($($schema:literal: [$($type:ty),+] = $json:tt;)*) => {$($(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($json)
            }
        }
    )+)*};
}

schemas! {
    "Name": [
        ServiceName, NodeId, StreamName, Branch, ComputeId, HookName, GroupLabel, GroupName, FailureName
    ] = {"title": "name", "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"};
    "Tag": [ReleaseTag] = {"title": "tag", "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._+-]{0,62}$"};
    "Span": [Span] = {"title": "duration", "type": "string", "pattern": "^[0-9]+ ?[a-zA-Z]", "description": "Such as 500ms, 30s or 5m."};
    "ServiceVersion": [ServiceVersion] = {"title": "whole number", "type": "integer", "minimum": 1, "maximum": 2_147_483_647};
    "Revision": [ReleaseRevision] = {"type": "integer", "minimum": 1};
    "Version": [ReleaseVersion] = {"type": "integer", "minimum": 1};
    "Generation": [MetadataGeneration] = {"type": "integer", "minimum": 1};
    "Fraction": [Fraction] = {"type": "number", "exclusiveMinimum": 0, "maximum": 1};
    "Time": [Timestamp] = {"type": "integer", "description": "Milliseconds since the Unix epoch."};
    "Amount": [Amount] = {"title": "number or percentage",
        "description": "A number, or a share such as \"10%\".",
        "oneOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^([1-9][0-9]?|100)%$"}]
    };
    "CanaryStep": [CanaryStep] = {"title": "number, percentage or rest",
        "description": "A number, a share such as \"10%\", or rest: all that remain.",
        "oneOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "pattern": "^([1-9][0-9]?|100)%$"},
            {"const": "rest"}
        ]
    };
    "Digest": [Digest] = {"title": "sha256", "type": "string", "pattern": "^[0-9a-fA-F]{64}$", "description": "A sha256."};
    "PinnedDigest": [PinnedDigest] = {"title": "sha256, or absent",
        "type": "string",
        "pattern": "^([0-9a-fA-F]{64}|absent)$",
        "description": "A sha256, or absent: there is none to verify."
    };
    "Object": [Object] = {"type": "object"};
    "PullRequest": [PullRequest] = {
        "description": "A number, or the name of a branch such as feature/x.",
        "oneOf": [{"type": "integer", "minimum": 0}, {"type": "string", "minLength": 1, "maxLength": 255}]
    };
}
