//! Falsified orders.

use tidegate_proto::Value;

use super::super::{Put, Trace};
use super::{drains, first};

pub(super) fn directive_of_a_deposed_term(trace: &mut Trace) -> Option<()> {
    let at = first(trace, drains)?;
    let written = trace.revisions[at].writes.iter_mut().find(|written| drains(written))?;
    let Some(Put { value: Value::Directive(directive), .. }) = &mut written.put else { return None };
    directive.body.term = "deposed".parse().ok()?;
    Some(())
}

/// The second drain comes with the first.
pub(super) fn two_are_drained(trace: &mut Trace) -> Option<()> {
    let at = first(trace, drains)?;
    let drained = trace.revisions[at].writes.iter().find(|w| drains(w))?.key.clone();
    let mut later = trace.revisions[at + 1..].iter().flat_map(|revision| &revision.writes);
    let second = later.find(|w| drains(w) && w.key != drained)?.clone();
    trace.revisions[at].writes.push(second);
    Some(())
}
