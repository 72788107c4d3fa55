//! The hooks that a task may name: as they are written, and validated.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_proto::{HookName, Span};

/// The prefix of every variable that describes the task to its hook.
pub const OURS: &str = "TIDEGATE_";

/// How long a hook may be allowed to take.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A hook as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[derive(schemars::JsonSchema)]
pub struct Written {
    /// Program and arguments, with `{stream}`, `{revision}`, `{tag}`, `{task}`, `{node}`.
    pub argv: Vec<String>,
    /// Its environment, besides the agent's own and the variables of the task.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// How long it may take.
    #[serde(default = "ten_minutes")]
    pub timeout: Span,
}

/// An image of a gigabyte or two, over a slow line.
fn ten_minutes() -> Span {
    Span::from_secs(600)
}

/// A hook settled.
#[derive(Debug, Clone)]
pub struct TaskHook {
    /// Program and arguments; at least one.
    pub argv: Vec<String>,
    /// Its environment besides the agent's own and the variables of the task.
    pub env: BTreeMap<String, String>,
    /// How long it may take.
    pub timeout: Duration,
}

/// Settles what was written, and adds what makes no sense to `findings`.
pub fn settle(
    written: BTreeMap<HookName, Written>,
    findings: &mut Vec<String>,
) -> BTreeMap<HookName, TaskHook> {
    let mut hooks = BTreeMap::new();
    for (name, Written { argv, env, timeout }) in written {
        let mut find = |what: String| findings.push(format!("hook.{name}: {what}"));
        if argv.is_empty() {
            find("argv is empty: name the program to run".to_owned());
        }
        let limit = Duration::from(timeout);
        if limit < Duration::from_secs(1) || limit > LONGEST {
            find(format!("timeout is {timeout}: 1s to 24h is allowed"));
        }
        for variable in env.keys() {
            if variable.starts_with(OURS) {
                find(format!("env.{variable} is for the agent to set: choose another name"));
            } else if variable.is_empty() || variable.contains(['=', '\0']) {
                find(format!("env: {variable:?} is not the name of a variable"));
            }
        }
        hooks.insert(name, TaskHook { argv, env, timeout: limit });
    }
    hooks
}
