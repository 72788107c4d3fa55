//! No wait without a reason that names an instance, a service, a session or a person, and who can end it.

use super::names::Names;
use super::typed::judge_advice;
use super::world::World;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::wire::v1::Reason;

/// What there is beside instances and services that can end a wait: there is one of each that it can be.
const PARTS: [&str; 7] =
    ["person", "operator", "session", "database", "the store", "coordinator", "gate job"];

/// What is said of a wait.
pub(super) struct Waiting<'a> {
    owner: &'a str,
    blocked_on: &'a str,
    next_step: Option<&'a str>,
}

impl<'a> From<&'a Reason> for Waiting<'a> {
    fn from(reason: &'a Reason) -> Self {
        let next_step = reason.next_step.as_deref();
        Self { owner: &reason.owner, blocked_on: &reason.blocked_on, next_step }
    }
}

impl<'a> From<&'a WaitingFor> for Waiting<'a> {
    fn from(reason: &'a WaitingFor) -> Self {
        let next_step = reason.next_step.as_deref();
        Self { owner: &reason.owner, blocked_on: &reason.blocked_on, next_step }
    }
}

/// What an upgrade or a release waits for, who can end that, and how.
pub(super) fn judge_waiting(world: &World, what: &str, waiting: &Waiting<'_>) {
    let Waiting { owner, blocked_on, next_step } = waiting;
    judge_advice(world, what, *next_step);
    if !names_who(owner, blocked_on, world.testbed.names()) {
        let text = format!("{what} waits, and no one is named: {blocked_on} ({owner})");
        world.testbed.state().facts.breach(world.testbed.now(), 0, text);
    }
}

/// What names an upgrade of these worlds, or a release, before its number: what that waits for can be asked.
const NUMBERED: [&str; 2] = ["upgrade u", "revision "];

/// Whether a reason says who or what can end the wait, and names it.
fn names_who(owner: &str, blocked_on: &str, names: &Names) -> bool {
    let named = names.nodes.iter().chain(&names.services).map(String::as_str);
    let text = format!("{owner}; {blocked_on}");
    let is_number = |rest: &str| rest.starts_with(|digit: char| digit.is_ascii_digit());
    let numbered = NUMBERED.iter().any(|word| text.split(word).skip(1).any(is_number));
    !owner.is_empty() && (numbered || named.chain(PARTS).any(|name| text.contains(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_names_who_or_what_can_end_the_wait() {
        let nodes = vec!["n00".to_owned()];
        let names = Names { services: vec!["pantry".to_owned()], nodes };
        let named = |owner: &str, blocked_on: &str| names_who(owner, blocked_on, &names);
        assert!(named("a person, who approves", "remove is not approved"));
        assert!(named("what runs there", "pantry/n00 does not report"));
        assert!(named("the rollback of that upgrade", "upgrade u0 rolls back the shared schema"));
        assert!(!named("the rollback of that upgrade", "an upgrade rolls back the shared schema"));
        assert!(!named("", "pantry/n00 does not report"), "who can end it is not said");
        assert!(!named("time", "it is not so far yet"));
        assert!(!named("the agents", "2 instances are in service and 2 must stay"), "which ones is not said");
    }
}
