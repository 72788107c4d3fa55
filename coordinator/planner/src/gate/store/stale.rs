//! How old a view may be on which a step rests that takes an instance out of rotation or moves an upgrade on. A watch may hang
//! while writes still reach the store: what its view lacks may be that other instances went out. A view that shows a write of
//! this leader has all that was written before that was sent, so where the last such write is too old, another one goes first.
//!
//! A commit that brought no answer may still be on its way. Where it takes instances out, it compares the budget, which is
//! written again before anything else is taken out: then it changes nothing.

use super::StoreGate;
use crate::fleet::{Fleet, ServiceFleet};
use crate::gate::Reason;
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition, Write};
use tidegate_proto::record::budget::Budget;
use tidegate_proto::{Key, Revision, ServiceName, Value, mutant};

/// The oldest view by which an instance is taken out of rotation, in milliseconds.
pub const OLDEST_VIEW_MS: u64 = 1_000;

/// The service whose instances a commit takes out of rotation, or stops while they are out. Such a commit uses the budget, or
/// repeats an order for an instance that may be in rotation again. An order that an agent declines there does not count.
pub fn taken_of(commit: &Commit) -> Option<&ServiceName> {
    commit.writes.iter().find_map(|write| match write {
        Write::Put(Key::Budget(service), Value::Budget(budget)) if budget.body.taken > 0 => Some(service),
        Write::Put(Key::Directive(service, _), Value::Directive(order)) => {
            (order.body.disposition.takes_out() && !order.body.presumes_out).then_some(service)
        }
        _ => None,
    })
}

/// The service of the upgrade that a commit moves to another phase, wave or step.
fn moved_by<'a>(fleet: &'a Fleet, commit: &Commit) -> Option<&'a ServiceName> {
    commit.writes.iter().find_map(|write| match write {
        Write::Put(Key::Upgrade(id), Value::Upgrade(next)) => {
            let upgrade = fleet.upgrade(id).filter(|upgrade| upgrade.phase != next.body.phase)?;
            Some(&upgrade.record.body.spec.service)
        }
        _ => None,
    })
}

/// Whether a step of the leader rests on a recent view: it takes an instance out, or moves an upgrade on.
pub(crate) fn needs_recent_view(fleet: &Fleet, commit: &Commit) -> bool {
    taken_of(commit).is_some() || moved_by(fleet, commit).is_some()
}

/// The service whose budget is written again before a step of the leader may be carried out that was planned from this fleet.
/// None where the view is recent, or the step needs no recent one.
pub(crate) fn before_step<'a>(
    fleet: &'a Fleet,
    moment: &Moment,
    commit: &'a Commit,
) -> Option<&'a ServiceName> {
    before_taking(moment, commit).or_else(|| moved_by(fleet, commit).filter(|_| is_old(moment)))
}

/// The same of what a person asks for: they decide how an upgrade moves on.
pub fn before_taking<'a>(moment: &Moment, commit: &'a Commit) -> Option<&'a ServiceName> {
    taken_of(commit).filter(|service| is_old(moment) || moment.unanswered.contains(*service))
}

fn is_old(moment: &Moment) -> bool {
    moment.view.age_ms > OLDEST_VIEW_MS && !mutant::is("stale-view-acts")
}

/// Writes the budget of a service again, and uses nothing of it.
pub fn confirmation(fleet: &Fleet, moment: &Moment, service: &ServiceName) -> Commit {
    let at = fleet.service(service).map_or(Revision::ABSENT, ServiceFleet::budget_at);
    let key = Key::Budget(service.clone());
    let nothing = Budget { term: moment.leader.term.clone(), taken: 0 };
    Commit::new().when(Precondition::At(key.clone(), at)).put(key, nothing)
}

/// The reason that this coordinator sees its own writes late; none where it does not.
pub(crate) fn shown_late(moment: &Moment) -> Option<Reason> {
    let after_ms = moment.view.shown_after_ms;
    (after_ms > OLDEST_VIEW_MS).then(|| StoreGate::ShownLate { after_ms }.into())
}
