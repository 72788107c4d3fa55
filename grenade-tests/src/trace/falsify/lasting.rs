//! Falsified records that are written once, or change in one way only.

use std::collections::BTreeSet;

use tidegate_proto::key::{EventSeq, Subject};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::exception::Exception;
use tidegate_proto::record::task::{Outcome, Task, TaskRelease, TaskResult};
use tidegate_proto::record::token::{Credential, Revoked, Role, Token};
use tidegate_proto::record::upgrade::Decision;
use tidegate_proto::{Key, ReleaseRevision, Value};

use super::super::{Put, Trace, Written};
use super::{PERSON, append, event, next};

fn put(trace: &Trace, key: Key, value: Value) -> Written {
    Written { key, put: Some(Put { value, created: next(trace), lease: 0 }), gone: false }
}

/// The last page of waves comes again at the end, with its first member in another wave.
pub(super) fn wave_is_changed(trace: &mut Trace) -> Option<()> {
    let mut writes = trace.revisions.iter().rev().flat_map(|revision| &revision.writes);
    let mut again = writes.find(|written| matches!(written.value(), Some(Value::Waves(_))))?.clone();
    if let Some(Put { value: Value::Waves(page), .. }) = &mut again.put {
        page.body.members.first_mut()?.1 += 1;
    }
    append(trace, vec![again]);
    Some(())
}

/// The schema's record comes again at the end, and requires nothing.
pub(super) fn required_version_is_forgotten(trace: &mut Trace) -> Option<()> {
    let mut writes = trace.revisions.iter().rev().flat_map(|revision| &revision.writes);
    let mut again = writes.find(|written| matches!(written.value(), Some(Value::Schema(_))))?.clone();
    if let Some(Put { value: Value::Schema(schema), .. }) = &mut again.put {
        schema.body.contracted.clear();
    }
    append(trace, vec![again]);
    Some(())
}

/// An instance is skipped by a person, and nothing else is written.
pub(super) fn instance_is_skipped_alone(trace: &mut Trace) -> Option<()> {
    let decision =
        Decision { who: PERSON.to_owned(), why: "so".to_owned(), accepts: BTreeSet::new(), at: Timestamp(1) };
    let skipped = Exception { failure: None, skipped: Some(decision) };
    let written = put(trace, Key::Exception("u-1".parse().ok()?, "n1".parse().ok()?), skipped.into());
    append(trace, vec![written]);
    Some(())
}

/// A task is ordered, claimed, and ends well; then it has failed.
pub(super) fn task_ends_twice(trace: &mut Trace) -> Option<()> {
    let (node, id): (tidegate_proto::NodeId, tidegate_proto::TaskId) =
        ("n1".parse().ok()?, "t-1".parse().ok()?);
    let release = TaskRelease {
        stream: "computes".parse().ok()?,
        revision: ReleaseRevision::new(1).ok()?,
        tag: "release-1".parse().ok()?,
    };
    let task = Task { hook: "warm".parse().ok()?, release, at: Timestamp(1), settled: None };
    let ordered = put(trace, Key::Task(node.clone(), id.clone()), task.into());
    append(trace, vec![ordered]);
    for outcome in [Outcome::Claimed, Outcome::Succeeded, Outcome::Failed { why: "so".to_owned() }] {
        let result = TaskResult::new(outcome, Timestamp(2));
        let written = put(trace, Key::TaskResult(node.clone(), id.clone()), result.into());
        append(trace, vec![written]);
    }
    Some(())
}

/// A token is made, revoked, and good again.
pub(super) fn revoked_token_is_good(trace: &mut Trace) -> Option<()> {
    let key = Key::Token("t-1".parse().ok()?);
    let good = Token {
        name: "ci".parse().ok()?,
        role: Role::Read,
        credential: Credential::Certificate("ci.example".parse().ok()?),
        by: PERSON.to_owned(),
        at: Timestamp(1),
        expires: None,
        revoked: None,
    };
    let revoked = Revoked { by: PERSON.to_owned(), why: "left".to_owned(), at: Timestamp(2) };
    let revoked = Token { revoked: Some(revoked), ..good.clone() };
    for (number, token) in (0..).zip([good.clone(), revoked, good]) {
        let seq = EventSeq { term: 1, number };
        let event = put(trace, Key::Event(Subject::Fleet, seq), event().into());
        let token = put(trace, key.clone(), token.into());
        append(trace, vec![event, token]);
    }
    Some(())
}
