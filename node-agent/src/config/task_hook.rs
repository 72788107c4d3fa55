//! The hooks that a task may name: as they are written, and validated.

use super::findings::{Findings, Table};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_proto::{HookName, Span};

/// The prefix of every variable that describes the task to its hook.
pub const OURS: &str = "TIDEGATE_";

/// How long a hook may be allowed to take.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A hook as it is written.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
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
pub(super) fn settle(
    written: BTreeMap<HookName, Written>,
    findings: &mut Findings,
) -> BTreeMap<HookName, TaskHook> {
    let mut hooks = BTreeMap::new();
    for (name, Written { argv, env, timeout }) in written {
        let mut table = Table::of(findings, "hook", name.as_str());
        if argv.is_empty() {
            table.field(&["argv"], "argv is empty: name the program to run");
        }
        let limit = Duration::from(timeout);
        if limit < Duration::from_secs(1) || limit > LONGEST {
            table.field(&["timeout"], format!("timeout is {timeout}: 1s to 24h is allowed"));
        }
        for variable in env.keys() {
            if variable.starts_with(OURS) {
                let what = format!("env.{variable} is for the agent to set: choose another name");
                table.field(&["env", variable], what);
            } else if variable.is_empty() || variable.contains(['=', '\0']) {
                let what = format!("env: {variable:?} is not the name of a variable");
                table.field(&["env", variable], what);
            }
        }
        hooks.insert(name, TaskHook { argv, env, timeout: limit });
    }
    hooks
}
