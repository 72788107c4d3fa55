//! What happens in an upgrade beside it: a word, or a word with a value.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use tidegate_proto::Span;

use crate::gate::limits::MOST_INSTANCES;
use crate::load::whole::whole;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The operator pauses the upgrade for so long.
    Pause(Span),
    /// The operator rolls back, and begins another upgrade when that is done.
    RollBack,
    /// The coordinator is killed, and started again.
    KillCoordinator,
    /// The coordinator stands still for so long.
    StallCoordinator(Span),
    /// The agent of the node with this number is killed, and started again.
    KillAgent(#[schemars(range(min = 1, max = MOST_INSTANCES))] u32),
    /// The agent of the node with this number stands still for two seconds.
    StallAgent(#[schemars(range(min = 1, max = MOST_INSTANCES))] u32),
    /// The resources of the survival check are verified.
    Verify,
}

const PAUSE: &str = "pause";
const ROLL_BACK: &str = "roll-back";
const KILL_COORDINATOR: &str = "kill-coordinator";
const STALL_COORDINATOR: &str = "stall-coordinator";
const KILL_AGENT: &str = "kill-agent";
const STALL_AGENT: &str = "stall-agent";
const VERIFY: &str = "verify";
const WORDS: [&str; 7] =
    [PAUSE, ROLL_BACK, KILL_COORDINATOR, STALL_COORDINATOR, KILL_AGENT, STALL_AGENT, VERIFY];

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

/// The number of a node.
#[derive(DeriveDeserialize)]
struct Node(#[serde(deserialize_with = "whole::<_, _, 1, MOST_INSTANCES>")] u32);

struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one of the events ")?;
        f.write_str(&WORDS.join(", "))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Event, E> {
        match word {
            ROLL_BACK => Ok(Event::RollBack),
            KILL_COORDINATOR => Ok(Event::KillCoordinator),
            VERIFY => Ok(Event::Verify),
            PAUSE | STALL_COORDINATOR => Err(E::custom(format!("`{word}` needs a time: `{{{word}: 2s}}`"))),
            KILL_AGENT | STALL_AGENT => {
                Err(E::custom(format!("`{word}` needs the number of a node: `{{{word}: 1}}`")))
            }
            _ => Err(E::unknown_variant(word, &WORDS)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
        let one = "an event is one word, or one word with a value";
        let word: String = map.next_key()?.ok_or_else(|| A::Error::custom(one))?;
        let event = match word.as_str() {
            PAUSE => Event::Pause(map.next_value()?),
            STALL_COORDINATOR => Event::StallCoordinator(map.next_value()?),
            KILL_AGENT => Event::KillAgent(map.next_value::<Node>()?.0),
            STALL_AGENT => Event::StallAgent(map.next_value::<Node>()?.0),
            ROLL_BACK | KILL_COORDINATOR | VERIFY => {
                return Err(A::Error::custom(format!("`{word}` has no value: write `{word}` alone")));
            }
            _ => return Err(A::Error::unknown_variant(&word, &WORDS)),
        };
        match map.next_key::<String>()? {
            None => Ok(event),
            Some(second) => Err(A::Error::custom(format!("`{second}` beside `{word}`: {one}"))),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause(span) => write!(f, "the operator pauses for {span}"),
            Self::RollBack => f.write_str("the operator rolls back, and upgrades again"),
            Self::KillCoordinator => f.write_str("the coordinator is killed"),
            Self::StallCoordinator(span) => write!(f, "the coordinator stands still for {span}"),
            Self::KillAgent(node) => write!(f, "the agent of node-{node} is killed"),
            Self::StallAgent(node) => write!(f, "the agent of node-{node} stands still"),
            Self::Verify => f.write_str("the resources are verified"),
        }
    }
}
