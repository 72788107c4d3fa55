//! How old a view may be by which an instance is taken out of rotation. A watch may hang while writes still reach the store:
//! what its view lacks may be that others went out. A view that shows a write of this leader has all that was written before
//! that was sent, so where the last such write is too old, another one goes first.

use super::StoreGate;
use crate::fleet::{Fleet, ServiceFleet};
use crate::gate::Reason;
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition, Write};
use tidegate_proto::record::budget::Budget;
use tidegate_proto::{Key, Revision, ServiceName, Value, mutant};

/// The oldest view by which an instance is taken out of rotation, in milliseconds.
pub const OLDEST_VIEW_MS: u64 = 1_000;

/// The service of an instance that a commit takes out of rotation, or keeps out for something else; none = of no one.
pub fn taken_out_by(commit: &Commit) -> Option<&ServiceName> {
    commit.writes.iter().find_map(|write| match write {
        Write::Put(Key::Directive(service, _), Value::Directive(order))
            if order.body.disposition.takes_out() =>
        {
            Some(service)
        }
        _ => None,
    })
}

/// What is written before a commit may be carried out that was planned from this fleet: a budget of which nothing is taken.
/// None where the view is recent, or the commit takes no instance out.
pub fn confirmation(fleet: &Fleet, moment: &Moment, commit: &Commit) -> Option<Commit> {
    if moment.view.age_ms <= OLDEST_VIEW_MS || mutant::is("stale-view-takes-out") {
        return None;
    }
    let service = taken_out_by(commit)?;
    let at = fleet.service(service).map_or(Revision::ABSENT, ServiceFleet::budget_at);
    let key = Key::Budget(service.clone());
    let nothing = Budget { term: moment.leader.term.clone(), taken: 0 };
    Some(Commit::new().when(Precondition::At(key.clone(), at)).put(key, nothing))
}

/// That the store is slow to show what is written to it; none where it is not.
pub(crate) fn shown_late(moment: &Moment) -> Option<Reason> {
    let after_ms = moment.view.shown_after_ms;
    (after_ms > OLDEST_VIEW_MS).then(|| StoreGate::ShownLate { after_ms }.into())
}
