//! The latest reasons for which an upgrade does not move, for people (`etcdctl get` included).

use super::{Body, Timestamp};
use serde::{Deserialize, Serialize};

/// What an upgrade waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Waiting {
    /// Each reason, most telling first; at most a hundred.
    pub reasons: Vec<WaitingFor>,
    /// How many more there are.
    #[serde(default)]
    pub more: u64,
    /// When they were last found.
    pub at: Timestamp,
}

impl Body for Waiting {
    const SCHEMA: u32 = 1;
}

/// One reason, as a machine and as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitingFor {
    /// The kind of reason, in kebab-case.
    pub kind: String,
    /// The state that blocks, as a sentence.
    #[serde(alias = "what")]
    pub blocked_on: String,
    /// Who or what can end the wait.
    #[serde(alias = "who")]
    pub owner: String,
    /// The command that helps; absent = none does.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "command")]
    pub next_step: Option<String>,
    /// What happens without any command, and when; absent = nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "deadline")]
    pub timeout: Option<String>,
    /// Since when a reason of this kind blocks, by the clock of the leader that found it first; across leaders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}
