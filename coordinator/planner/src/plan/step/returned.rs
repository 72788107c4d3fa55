//! Instances that were decommissioned and report again. A report voids the tombstone; while it is there, an instance that
//! falls silent once more would count as gone, although it may serve: the tombstone is removed.

use crate::action::{Action, PlannedCommit};
use crate::fleet::{Fleet, ServiceFleet};
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::{EventSeq, Subject};
use tidegate_proto::record::event::Event;
use tidegate_proto::{InstanceId, Key, Revision, mutant};

/// How many tombstones one turn removes; the next turn goes on.
const AT_ONCE: usize = 20;

/// Removes tombstones, each with its event, numbered from `number`.
pub(in crate::plan) fn turn<'a>(
    fleet: &'a Fleet,
    moment: &'a Moment,
    number: u64,
) -> impl Iterator<Item = Action> + 'a {
    let returned = fleet.services().flat_map(of_service);
    let returned = returned.filter(|_| !mutant::is("tombstone-is-not-removed")).take(AT_ONCE);
    returned.zip(number..).map(|((id, compared), number)| {
        let what = format!("{id} is not decommissioned any longer");
        let key = Key::Event(Subject::Fleet, EventSeq { term: moment.leader.revision.0, number });
        let event = Event {
            from: "decommissioned".to_owned(),
            to: id.to_string(),
            because: "it reports".to_owned(),
            who: "coordinator".to_owned(),
            at: moment.wall,
        };
        let commit = Commit::new()
            .when(compared)
            .when(Precondition::At(key.clone(), Revision::ABSENT))
            .delete(Key::Decommission(id.service, id.node))
            .put(key, event);
        Action::Commit(PlannedCommit { subject: Subject::Fleet, what, commit })
    })
}

/// Each that returned, and that its tombstone is the one that was read.
fn of_service(service: &ServiceFleet) -> impl Iterator<Item = (InstanceId, Precondition)> {
    service.returned().each.filter_map(|instance| {
        let (name, node) = (service.name().clone(), instance.node.clone());
        let at = instance.decommission.as_ref()?.at;
        let compared = Precondition::At(Key::Decommission(name.clone(), node.clone()), at);
        Some((InstanceId::new(name, node), compared))
    })
}
