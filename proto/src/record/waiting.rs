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
#[cfg_attr(feature = "wire", derive(schemars::JsonSchema))]
pub struct WaitingFor {
    /// The kind of reason, in kebab-case.
    pub kind: String,
    /// What is waited for, in a sentence.
    pub what: String,
    /// Who or what can end the wait.
    pub who: String,
    /// The command that helps, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What happens by itself, and after how long, where anything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// Since when something of this kind is waited for, by the clock of the leader that found it first; across leaders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}
