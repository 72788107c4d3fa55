//! Falsified reports of agents.

use std::collections::BTreeSet;

use tidegate_proto::record::report::{Health, Report, Step};
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, NodeId, Value};

use super::super::{Put, Revision, Trace, Written};
use super::{append, enters, first};

/// The last report before a place in the history, changed.
pub(super) fn last_report(trace: &mut Trace, at: usize, change: fn(&mut Report)) -> Option<()> {
    let writes = trace.revisions[..at].iter_mut().rev().flat_map(|revision| &mut revision.writes);
    let mut values = writes.filter_map(|written| written.put.as_mut()).map(|put| &mut put.value);
    let report = values.find_map(|value| match value {
        Value::Report(report) => Some(report),
        _ => None,
    });
    change(&mut report?.body);
    Some(())
}

/// The last report that names a directive names the one before the first.
pub(super) fn agent_forgets(trace: &mut Trace) -> Option<()> {
    let names =
        |w: &Written| matches!(w.value(), Some(Value::Report(report)) if report.body.generation.0 > 1);
    let mut writes = trace.revisions.iter().rev().flat_map(|revision| &revision.writes);
    let mut again = writes.find(|written| names(written))?.clone();
    if let Some(Put { value: Value::Report(report), .. }) = &mut again.put {
        report.body.generation.0 = 1;
    }
    append(trace, vec![again]);
    Some(())
}

/// The last report goes, and is there again, on its former lease and under its former admission.
pub(super) fn report_is_back(trace: &mut Trace) -> Option<()> {
    let mut writes = trace.revisions.iter().rev().flat_map(|revision| &revision.writes);
    let report = writes.find(|w| matches!(w.value(), Some(Value::Report(_))))?.clone();
    append(trace, vec![Written { key: report.key.clone(), put: None, gone: true }]);
    append(trace, vec![report]);
    Some(())
}

/// The instance that reported last before such a phase was entered has only ever been verified.
pub(super) fn never_serves(trace: &mut Trace, is: fn(&Phase) -> bool) -> Option<()> {
    let at = first(trace, |w| enters(w, is))?;
    let mut writes = trace.revisions[..at].iter().rev().flat_map(|revision| &revision.writes);
    let key = writes.find(|w| matches!(w.value(), Some(Value::Report(_))))?.key.clone();
    let all = trace.revisions[..at].iter_mut().flat_map(|revision| &mut revision.writes);
    for written in all.filter(|written| written.key == key) {
        if let Some(Put { value: Value::Report(report), .. }) = &mut written.put {
            report.body.step = Step::Verifying;
        }
    }
    Some(())
}

/// These instances were never healthy.
pub(super) fn are_unhealthy(revisions: &mut [Revision], is: impl Fn(&NodeId) -> bool) {
    for written in revisions.iter_mut().flat_map(|revision| &mut revision.writes) {
        if let (Key::Report(_, node), Some(Put { value: Value::Report(report), .. })) =
            (&written.key, &mut written.put)
            && is(node)
        {
            report.body.health = Health::Unhealthy;
        }
    }
}

/// The instances of the first wave are not healthy before the second one begins.
pub(super) fn wave_passes_unverified(trace: &mut Trace) -> Option<()> {
    let at = first(trace, |w| enters(w, |phase| *phase == Phase::Roll { wave: 1 }))?;
    let mut writes = trace.revisions[..at].iter().rev().flat_map(|revision| &revision.writes);
    let page = writes.find_map(|written| match written.value() {
        Some(Value::Waves(page)) => Some(&page.body),
        _ => None,
    });
    let first_wave = page?.members.iter().filter(|(_, wave)| *wave == 0);
    let nodes: BTreeSet<NodeId> = first_wave.map(|(node, _)| node.clone()).collect();
    are_unhealthy(&mut trace.revisions[..at], |node| nodes.contains(node));
    Some(())
}
