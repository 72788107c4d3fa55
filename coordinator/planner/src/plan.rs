//! One turn, decided: for every active upgrade either what is done next, or every reason for which nothing is.

mod action;
mod draft;
mod order;
mod step;

pub use action::{Action, Plan, PlannedCommit, SchemaJob};
pub(crate) use draft::Draft;

use crate::fleet::Fleet;
use crate::moment::Moment;

/// What happens next. The same fleet and moment give the same plan.
pub fn plan(fleet: &Fleet, moment: &Moment) -> Plan {
    let mut plan = Plan::default();
    let mut next_event = moment.next_event;
    for (id, upgrade) in fleet.active_upgrades() {
        let mut draft = Draft::new(fleet, moment, id, upgrade, next_event);
        step::step(&mut draft);
        next_event = draft.next_event();
        let (actions, reasons) = draft.finish();
        plan.actions.extend(actions);
        plan.waiting.insert(id.clone(), reasons);
    }
    for (name, _) in fleet.streams() {
        let turn = step::release::turn(fleet, moment, name, next_event);
        next_event += turn.events;
        plan.actions.extend(turn.actions);
        plan.releases
            .extend(turn.waiting.into_iter().map(|(revision, reasons)| ((name.clone(), revision), reasons)));
    }
    plan
}

/// What a turn decides about one release stream.
pub(crate) fn stream_turn(
    fleet: &Fleet,
    moment: &Moment,
    name: &tidegate_proto::StreamName,
) -> step::release::Turn {
    step::release::turn(fleet, moment, name, moment.next_event)
}
