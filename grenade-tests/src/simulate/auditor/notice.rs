//! What the judge takes in of each record that is written.

use crate::simulate::agent::IMPOSTOR;
use crate::simulate::ends;
use crate::simulate::judge::Facts;
use crate::simulate::late_failures::{self, failed_at, is_exempt};
use crate::simulate::slot::{At, Slot};
use crate::simulate::stream_audit::noticed;
use crate::simulate::testbed::{State, Testbed};
use crate::simulate::upgrade_id::place_of;
use crate::trace::Written;
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::upgrade::{Phase, PhaseName, Upgrade};
use tidegate_proto::record::window::Window;
use tidegate_proto::{InstanceId, Key, Revision, Value};

/// Takes in what was written; without a revision it is known already, and the current state is set back to it.
pub(super) fn notice(testbed: &Testbed, written: &Written, revision: Option<i64>) {
    let now = testbed.now();
    let mut state = testbed.state();
    let value = written.put.as_ref().map(|put| &put.value);
    let mut line = None;
    match (&written.key, value) {
        (Key::Window(service), Some(Value::Window(window))) => {
            line = Some(format!("window of {service}: {}", window.body));
            let place = testbed.names().service(service.as_str());
            place.into_iter().for_each(|place| bounded(&mut state.facts, place, &window.body, revision, now));
        }
        (Key::Directive(service, node), Some(Value::Directive(directive))) => {
            let at = place(testbed, service.as_str(), node.as_str());
            line = Some(format!("directive of {service}/{node}: {}", directive.body.disposition.word()));
            at.into_iter().for_each(|at| directed(testbed, &mut state, at, &directive.body, revision));
        }
        (Key::Upgrade(id), Some(Value::Upgrade(upgrade))) => {
            line = upgraded(testbed, &mut state, id.as_str(), &upgrade.body, revision);
        }
        (Key::Stream(name), Some(Value::Stream(stream))) => {
            noticed(testbed, &mut state, name.as_str(), &stream.body, revision);
        }
        (Key::Leader, value) => {
            line = Some(match value {
                Some(Value::Leader(leader)) => format!("{} leads", leader.body.address),
                _ => "no coordinator leads".to_owned(),
            });
        }
        (Key::Report(service, node), value) => {
            let at = place(testbed, service.as_str(), node.as_str());
            at.into_iter().for_each(|at| reported(&mut state.facts, at, written, now));
            // What a copy has was reported to another store.
            if let Some(at) = at.filter(|_| revision.is_some()) {
                moved_on(testbed, &mut state, at, value, now);
                obeyed(&mut state.facts, at, written, now);
            }
            line = value.is_none().then(|| format!("{service}/{node} falls silent"));
        }
        (Key::Inventory(service, node), Some(Value::Inventory(inventory))) => {
            let at = place(testbed, service.as_str(), node.as_str());
            at.into_iter().for_each(|at| admitted(&mut state, at, now));
            // What a copy has was admitted in another store.
            if let Some(at) = at.filter(|_| revision.is_some()) {
                let (by, release) = (&inventory.body.identity.nonce, inventory.body.release.clone());
                state.facts.admitted_by(at, by, release, now);
                state.facts.admits(at, inventory.body.version.get());
                state.facts.runs_without_window(at, inventory.body.version.get());
            }
        }
        (Key::Reconciliation, Some(Value::Reconciliation(word))) => {
            if let Some(revision) = revision {
                state.facts.services.iter_mut().for_each(|service| service.is_obeyed_again(now));
                state.facts.leaves_newcomers_out(now);
                state.facts.obeyed.reconciled(&word.body, Revision(revision), now);
            }
        }
        (Key::Exception(id, node), value) => {
            let exempt = matches!(value, Some(Value::Exception(found)) if is_exempt(&found.body));
            if let Some(node) = testbed.names().node(node.as_str()) {
                state.facts.late_failures.excepts(id.as_str(), node, exempt, now);
            }
        }
        (Key::Maintenance(node), value) => {
            if let Some(node) = testbed.names().node(node.as_str()) {
                state.facts.late_failures.cordons(node, value.is_some(), now);
            }
        }
        (Key::Decommission(service, node), Some(_)) => {
            let at = place(testbed, service.as_str(), node.as_str());
            at.into_iter().for_each(|at| state.facts.silent.decommissioned(at));
        }
        _ => {}
    }
    if let (Some(line), Some(revision)) = (line, revision) {
        state.log.log(now, &format!("[{revision}] {line}"));
    }
}

/// The window of a service was set.
fn bounded(facts: &mut Facts, place: usize, window: &Window, revision: Option<i64>, now: u64) {
    if let Some(service) = facts.services.get_mut(place) {
        let versions = window.floor.get()..=window.ceiling.get();
        // A person puts back a record that could not be read: nothing is committed by that.
        let is_put_back = !service.has_no_window && service.admitted() == versions;
        service.goes_by(window, now);
        // What a copy has was committed to another store.
        if revision.is_some() && !is_put_back {
            service.is_obeyed_again(now);
            facts.leaves_newcomers_out(now);
        }
    }
    facts.notes_unheard(place, now);
    if let Some(revision) = revision {
        facts.obeyed.window_set(place, Revision(revision), now);
    }
}

/// A directive of an instance was written.
fn directed(testbed: &Testbed, state: &mut State, at: At, directive: &Directive, revision: Option<i64>) {
    let (now, id, disposition) = (testbed.now(), directive.upgrade.as_str(), &directive.disposition);
    let is_carried_out = state.facts.is_carried_out((at, state.slots.get(&at)), disposition, now);
    state.facts.presumes_out(at, directive.presumes_out);
    state.facts.verified.directs(at, revision);
    state.facts.directs(at, disposition, now);
    if revision.is_none() {
        return;
    }
    let upgrade = place_of(id);
    // What is drained outside a window that the upgrade of another service has set is no step of that one.
    let is_of_it = upgrade.is_some_and(|place| state.facts.limits_of(at.0, place).is_some());
    let drains = is_of_it && *disposition == Disposition::Drain;
    state.facts.orders(at, disposition, upgrade);
    // Such as one that became unreadable, and is put back.
    if is_carried_out {
        state.facts.stopped(at);
    }
    if drains && ends::drains(&mut state.facts, testbed.names(), at, id, now) {
        testbed.changed().notify_one();
    }
    state.facts.moves.directs(id, at, disposition, now);
    if drains {
        late_failures::judge_drain(&mut state.facts, testbed.names(), id, now);
    }
}

/// The record of an upgrade was written; returns what to log of it.
fn upgraded(
    testbed: &Testbed,
    state: &mut State,
    id: &str,
    upgrade: &Upgrade,
    revision: Option<i64>,
) -> Option<String> {
    let (now, mut line) = (testbed.now(), None);
    let phase = upgrade.phase.name();
    let paused = upgrade.paused.is_some();
    let State { facts, slots, .. } = state;
    if let Some(service) = testbed.names().service(upgrade.spec.service.as_str()) {
        facts.late_failures.goes_to(id, service, upgrade.spec.to.get());
    }
    let changed = facts.phases.get(id).is_none_or(|(was, _)| *was != phase);
    if changed {
        facts.enters(id, phase, now);
        if phase == PhaseName::Roll {
            let service = upgrade.spec.service.as_str();
            facts.late.retain(|at| testbed.names().services[at.0] != service);
            // What rolled before a copy was made did so without the instances that came since.
            if revision.is_some() {
                facts.unbound.retain(|at| testbed.names().services[at.0] != service);
                let place = testbed.names().service(service);
                if let Some(rolls) = place.and_then(|place| facts.services.get_mut(place)) {
                    rolls.newcomers.clear();
                }
            }
        }
        testbed.changed().notify_one();
        line = Some(format!("{id}: {phase:?}"));
        if revision.is_some() {
            if phase == PhaseName::RolledBack {
                facts.rolled_back.insert(id.to_owned(), facts.silent.counted());
            }
            ends::judge(facts, slots, testbed.names(), upgrade, now);
            if matches!(phase, PhaseName::Remove | PhaseName::Completed) {
                late_failures::judge(facts, testbed.names(), id, now);
            }
        }
    }
    if let Phase::Roll { wave } = upgrade.phase
        && facts.waves.get(id).is_none_or(|(was, _)| *was != wave)
    {
        facts.waves.insert(id.to_string(), (wave, now));
    }
    let was_paused = facts.paused.contains_key(id);
    if paused && !was_paused {
        facts.paused.insert(id.to_owned(), now);
        line = Some(format!("{id}: paused"));
    } else if was_paused && !paused {
        facts.paused.remove(id);
        facts.late_failures.goes_on(id, now);
        line = line.or_else(|| Some(format!("{id}: not paused")));
    }
    line
}

/// An instance was admitted. One that runs what a rollback has undone, and that no store knew of before the end, is late.
fn admitted(state: &mut State, at: At, now: u64) {
    let State { facts, slots, .. } = state;
    let version = slots.get(&at).and_then(|slot| slot.alive(now)).map(|run| run.is.version);
    let undoing = facts.services.get(at.0).and_then(|service| service.undoing);
    let is_over = undoing.is_some_and(|(_, is_over)| is_over);
    if is_over && version.is_some_and(|version| facts.is_late(at, version, now)) {
        facts.late.insert(at);
    }
    facts.silent.admitted(at, now);
}

/// The report of an instance was written, or is gone.
fn reported(facts: &mut Facts, at: At, written: &Written, now: u64) {
    let Some(put) = &written.put else {
        facts.late_failures.reported(at, None, now);
        return facts.silent.lost(at, now, !written.gone);
    };
    facts.silent.reported(at, now);
    if let Value::Report(report) = &put.value {
        facts.late_failures.reported(at, failed_at(&report.body), now);
    }
}

/// The report of an instance says what its agent has obeyed, unless it was written before the lies in place of that ended. The
/// report of a second agent binds no other: that may never have seen the window.
fn obeyed(facts: &mut Facts, at: At, written: &Written, now: u64) {
    let value = written.put.as_ref().map(|put| &put.value);
    let is_lie = facts.byzantine.get(&at.1).is_some_and(|until| now <= *until);
    if let (Key::Report(service, node), Some(Value::Report(report))) = (&written.key, value)
        && !is_lie
    {
        match report.body.window.exists() {
            _ if report.body.identity.nonce == IMPOSTOR => {}
            true => drop(facts.bound.insert(at)),
            false => drop(facts.bound.remove(&at)),
        }
        facts.stands(at, &report.body, now);
        facts.obeyed.reported(at, InstanceId::new(service.clone(), node.clone()), &report.body);
    }
}

/// The report of an instance may show that its drain has ended.
fn moved_on(testbed: &Testbed, state: &mut State, at: At, value: Option<&Value>, now: u64) {
    let step = match value {
        Some(Value::Report(report)) => Some(&report.body.step),
        _ => None,
    };
    let ended = state.slots.get(&at).and_then(Slot::ends_at);
    state.facts.reports(now, at, step, ended, &testbed.names().instance(at));
}

fn place(testbed: &Testbed, service: &str, node: &str) -> Option<At> {
    Some((testbed.names().service(service)?, testbed.names().node(node)?))
}
