//! The survival check as it is written: commands and HTTP steps.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::load::written::{Expect, Request};

/// Resources that must survive the upgrade. Each field is one command (program and arguments), or a list of commands and
/// HTTP steps. A command has the places of a version's command but those of a node, and `{url}` (the balancer's), and must
/// exit with 0. A step is sent to the balancer. What the steps of `create` keep is known to every later command and step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Survival {
    /// Makes them, before anything is upgraded.
    pub create: Vec<Part>,
    /// Verifies them: before, during and after the upgrade.
    pub verify: Vec<Part>,
    /// Verifies them while no instance runs, between the base's stop and the target's start: commands only, without
    /// `{url}`.
    #[serde(default)]
    pub down: Option<Vec<Part>>,
    /// Verifies them after an upgrade that completed. Default: as `verify`.
    #[serde(default)]
    pub verify_after: Option<Vec<Part>>,
    /// Removes them, at the end.
    #[serde(default)]
    pub destroy: Option<Vec<Part>>,
}

/// A part of a stage.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub enum Part {
    /// A word of the only command.
    Word(String),
    /// A command: program and arguments.
    Command(Vec<String>),
    /// An HTTP step.
    Step(Box<SurvivalStep>),
}

/// A request, and what its answer must be.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SurvivalStep {
    /// What is sent. Its variables are `{run}` (different in each run) and what earlier steps keep.
    pub request: Request,
    /// What the answer must be.
    #[serde(default)]
    pub expect: Expect,
    /// Variables that are taken from the answer, each by a JSON pointer.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Parts)
    }
}

impl Part {
    /// The word, where it is one.
    pub fn into_word(self) -> Option<String> {
        match self {
            Self::Word(word) => Some(word),
            Self::Command(_) | Self::Step(_) => None,
        }
    }
}

struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word of a command in quotes, a command as a list of words, or a step with `request`")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Part, E> {
        Ok(Part::Word(word.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, words: A) -> Result<Part, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(words)).map(Part::Command)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Part, A::Error> {
        SurvivalStep::deserialize(MapAccessDeserializer::new(fields)).map(|step| Part::Step(Box::new(step)))
    }
}
