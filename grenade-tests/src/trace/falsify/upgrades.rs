//! Falsified records of upgrades, and of the window that goes with them.

use tidegate_proto::record::Timestamp;
use tidegate_proto::record::upgrade::{Pause, Phase, Upgrade};
use tidegate_proto::record::window::Window;
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Amount, Key, ServiceVersion, Value};

use super::super::rules::RECONCILIATION;
use super::{append, enters, first};
use crate::trace::{Put, Revision, Trace};

fn each_upgrade(revisions: &mut [Revision], change: fn(&mut Upgrade)) {
    for written in revisions.iter_mut().flat_map(|revision| &mut revision.writes) {
        if let Some(Put { value: Value::Upgrade(upgrade), .. }) = &mut written.put {
            change(&mut upgrade.body);
        }
    }
}

/// Every record of the upgrade up to the roll, changed.
fn each_upgrade_before_the_roll(trace: &mut Trace, change: fn(&mut Upgrade)) -> Option<()> {
    let at = first(trace, |w| enters(w, |phase| matches!(phase, Phase::Roll { .. })))?;
    each_upgrade(&mut trace.revisions[..=at], change);
    Some(())
}

pub(super) fn upgrade_goes_back(trace: &mut Trace) -> Option<()> {
    let at = first(trace, |w| enters(w, |phase| matches!(phase, Phase::Roll { .. })))?;
    each_upgrade(&mut trace.revisions[at..=at], |upgrade| upgrade.phase = Phase::Stage);
    Some(())
}

pub(super) fn pause_is_ignored(trace: &mut Trace) -> Option<()> {
    each_upgrade_before_the_roll(trace, |upgrade| {
        upgrade.paused = Some(Pause { who: "a person".to_owned(), why: "look".to_owned(), at: Timestamp(0) });
    })
}

pub(super) fn approval_is_missing(trace: &mut Trace) -> Option<()> {
    each_upgrade_before_the_roll(trace, |upgrade| {
        upgrade.spec.approvals.push(ApprovalPoint::Roll);
        upgrade.approvals.remove(&ApprovalPoint::Roll);
    })
}

/// Before the roll is entered, a reconciliation has raised the floor to the new version; the roll lowers it.
pub(super) fn reconciled_floor_is_lowered(trace: &mut Trace) -> Option<()> {
    let at = first(trace, |w| enters(w, |phase| matches!(phase, Phase::Roll { .. })))?;
    let revision = &trace.revisions[at];
    let mut raised = revision.writes.iter().find(|w| matches!(w.key, Key::Window(_)))?.clone();
    let Some(Put { value: Value::Window(window), .. }) = &mut raised.put else { return None };
    window.body.floor = window.body.ceiling;
    window.body.set_by = RECONCILIATION.parse().ok()?;
    let number = revision.number;
    trace.revisions.insert(at, Revision { number, writes: vec![raised] });
    Some(())
}

/// The migrations require a floor that no window has.
pub(super) fn migrate_floor_is_missing(trace: &mut Trace) -> Option<()> {
    let at = first(trace, |w| enters(w, |phase| *phase == Phase::Migrate))?;
    each_upgrade(&mut trace.revisions[at..=at], |upgrade| {
        let service = upgrade.spec.service.clone();
        if let Some(schema) = &mut upgrade.schema {
            schema.migrate_floors.insert(service, ServiceVersion::MAX);
        }
    });
    Some(())
}

/// The specs name zones as failure domains, each instance is in one of its own, and nothing else keeps two from being out.
pub(super) fn zones_are_asked_for(trace: &mut Trace) {
    each_upgrade(&mut trace.revisions, |upgrade| {
        upgrade.spec.failure_domain = Some(ZONE.to_owned());
        (upgrade.spec.min_in_service, upgrade.spec.max_unavailable) = (Amount::Count(0), Amount::Count(2));
    });
    for written in trace.revisions.iter_mut().flat_map(|revision| &mut revision.writes) {
        if let (Key::Inventory(_, node), Some(Put { value: Value::Inventory(inventory), .. })) =
            (&written.key, &mut written.put)
        {
            inventory.body.labels.insert(ZONE.to_owned(), node.to_string());
        }
    }
}

/// The label of a failure domain.
const ZONE: &str = "zone";

/// The window comes again at the end, and admits every version.
pub(super) fn window_admits_the_excluded(trace: &mut Trace) -> Option<()> {
    let mut writes = trace.revisions.iter().rev().flat_map(|revision| &revision.writes);
    let mut again = writes.find(|written| matches!(written.value(), Some(Value::Window(_))))?.clone();
    let Some(Put { value: Value::Window(window), .. }) = &mut again.put else { return None };
    window.body = Window::open(window.body.set_by.clone());
    append(trace, vec![again]);
    Some(())
}
