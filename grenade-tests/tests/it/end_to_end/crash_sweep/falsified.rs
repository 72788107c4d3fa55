//! A history that was good, made bad in one place at a time: whoever judges it must notice each.

use grenade_tests::trace::{Put, Revision, Trace, Written};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Step;
use tidegate_proto::record::upgrade::{Pause, Phase, Upgrade};
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Key, Value};

/// Asserts that each lie about a completed upgrade is found out, by the rule that it breaks.
pub fn is_caught(good: &Trace) {
    let lies: [(&str, u8, fn(&mut Trace)); 12] = [
        ("the floor is not raised with the end of the roll", 1, floor_is_lost),
        ("the certificate is not stored", 1, certificate_is_lost),
        ("an instance has not acknowledged the floor", 1, floor_is_not_acknowledged),
        ("version 1 is admitted after the end", 2, old_node_is_admitted),
        ("two are taken out at once", 4, two_are_drained),
        ("nobody is counted who is taken out", 4, budget_is_lost),
        ("the upgrade goes back to an earlier phase", 9, upgrade_goes_back),
        ("it is completed while one does not serve", 12, one_does_not_serve),
        ("the leader is gone while there are orders", 0, leader_is_lost),
        ("an instance is back after its lease without an admission", 3, report_is_back_unadmitted),
        ("a paused upgrade begins to roll", 0, pause_is_ignored),
        ("the roll begins without the approval that was asked for", 0, approval_is_missing),
    ];
    for (lie, rule, tell) in lies {
        let mut trace = good.clone();
        tell(&mut trace);
        let rules: Vec<u8> = trace.breaches().iter().map(|broken| broken.rule).collect();
        assert!(rules.contains(&rule), "{lie}: found {rules:?}, expected {rule}");
    }
    assert!(good.needless_drains().is_empty(), "{:?}", good.needless_drains());
    let mut trace = good.clone();
    one_is_drained_again(&mut trace);
    assert!(!trace.needless_drains().is_empty(), "an instance at the new version is drained: not found out");
    println!("falsified histories: {} told, {} found out", lies.len() + 1, lies.len() + 1);
}

/// The first revision with such a write.
fn first(trace: &Trace, is: impl Fn(&Written) -> bool) -> usize {
    trace.revisions.iter().position(|revision| revision.writes.iter().any(&is)).expect("every upgrade has it")
}

fn value(written: &Written) -> Option<&Value> {
    written.put.as_ref().map(|put| &put.value)
}

fn enters(written: &Written, is: impl Fn(&Phase) -> bool) -> bool {
    matches!(value(written), Some(Value::Upgrade(upgrade)) if is(&upgrade.body.phase))
}

fn drains(written: &Written) -> bool {
    matches!(value(written), Some(Value::Directive(d)) if d.body.disposition == Disposition::Drain)
}

fn lose(trace: &mut Trace, at: usize, is: impl Fn(&Key) -> bool) {
    let writes = &mut trace.revisions[at].writes;
    let before = writes.len();
    writes.retain(|written| !is(&written.key));
    assert!(writes.len() < before, "there was something to lose");
}

/// The last report before a place in the history, changed.
fn last_report(trace: &mut Trace, at: usize, change: fn(&mut tidegate_proto::record::report::Report)) {
    let writes = trace.revisions[..at].iter_mut().rev().flat_map(|revision| &mut revision.writes);
    let mut values = writes.filter_map(|written| written.put.as_mut()).map(|put| &mut put.value);
    let report = values.find_map(|value| match value {
        Value::Report(report) => Some(report),
        _ => None,
    });
    change(&mut report.expect("instances report").body);
}

fn floor_is_lost(trace: &mut Trace) {
    let at = first(trace, |w| enters(w, |phase| *phase == Phase::Remove));
    lose(trace, at, |key| matches!(key, Key::Window(_)));
}

fn certificate_is_lost(trace: &mut Trace) {
    let at = first(trace, |w| matches!(w.key, Key::Certificate(..)));
    lose(trace, at, |key| matches!(key, Key::Certificate(..)));
}

fn floor_is_not_acknowledged(trace: &mut Trace) {
    let at = first(trace, |w| enters(w, |phase| matches!(phase, Phase::Contract { .. })));
    last_report(trace, at, |report| report.window.0 -= 1);
}

fn one_does_not_serve(trace: &mut Trace) {
    let at = first(trace, |w| enters(w, |phase| *phase == Phase::Completed));
    last_report(trace, at, |report| report.step = Step::Verifying);
}

/// The first admission that there was, of version 1, comes again.
fn old_node_is_admitted(trace: &mut Trace) {
    let at = first(trace, |w| matches!(w.key, Key::Inventory(..)));
    let again = trace.revisions[at].writes.clone();
    let number = trace.revisions.last().map_or(0, |last| last.number) + 1;
    trace.revisions.push(Revision { number, writes: again });
}

/// The second drain comes with the first.
fn two_are_drained(trace: &mut Trace) {
    let at = first(trace, drains);
    let mut later = trace.revisions[at + 1..].iter().flat_map(|revision| &revision.writes);
    let second = later.find(|w| drains(w)).expect("more than one is drained").clone();
    trace.revisions[at].writes.push(second);
}

/// The first drain comes again at the end of the roll, when its instance serves at the new version.
fn one_is_drained_again(trace: &mut Trace) {
    let at = first(trace, drains);
    let again = trace.revisions[at].writes.iter().find(|w| drains(w)).expect("it drains").clone();
    let end = first(trace, |w| enters(w, |phase| *phase == Phase::Remove));
    let number = trace.revisions[end].number;
    trace.revisions.insert(end, Revision { number, writes: vec![again] });
}

fn budget_is_lost(trace: &mut Trace) {
    let at = first(trace, drains);
    lose(trace, at, |key| matches!(key, Key::Budget(_)));
}

fn upgrade_goes_back(trace: &mut Trace) {
    let at = first(trace, |w| enters(w, |phase| matches!(phase, Phase::Roll { .. })));
    for written in &mut trace.revisions[at].writes {
        if let Some(Put { value: Value::Upgrade(upgrade), .. }) = &mut written.put {
            upgrade.body.phase = Phase::Stage;
        }
    }
}

fn leader_is_lost(trace: &mut Trace) {
    let at = first(trace, drains);
    trace.revisions[at - 1].writes.push(Written { key: Key::Leader, put: None, gone: true });
}

/// The last report lapses with its lease, and is there again.
fn report_is_back_unadmitted(trace: &mut Trace) {
    let mut writes = trace.revisions.iter().rev().flat_map(|revision| &revision.writes);
    let report =
        writes.find(|w| matches!(value(w), Some(Value::Report(_)))).expect("instances report").clone();
    let lapsed = Written { key: report.key.clone(), put: None, gone: true };
    for written in [lapsed, report] {
        let number = trace.revisions.last().map_or(0, |last| last.number) + 1;
        trace.revisions.push(Revision { number, writes: vec![written] });
    }
}

/// Every record of the upgrade up to the roll, changed.
fn each_upgrade_before_the_roll(trace: &mut Trace, change: fn(&mut Upgrade)) {
    let at = first(trace, |w| enters(w, |phase| matches!(phase, Phase::Roll { .. })));
    for written in trace.revisions[..=at].iter_mut().flat_map(|revision| &mut revision.writes) {
        if let Some(Put { value: Value::Upgrade(upgrade), .. }) = &mut written.put {
            change(&mut upgrade.body);
        }
    }
}

fn pause_is_ignored(trace: &mut Trace) {
    each_upgrade_before_the_roll(trace, |upgrade| {
        upgrade.paused = Some(Pause { who: "a person".to_owned(), why: "look".to_owned(), at: Timestamp(0) });
    });
}

fn approval_is_missing(trace: &mut Trace) {
    each_upgrade_before_the_roll(trace, |upgrade| {
        upgrade.spec.approvals.push(ApprovalPoint::Roll);
        upgrade.approvals.remove(&ApprovalPoint::Roll);
    });
}
