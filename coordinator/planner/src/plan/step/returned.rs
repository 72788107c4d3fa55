//! Instances that were decommissioned and report again. A report voids the tombstone; while it is there, an instance that
//! falls silent once more would count as gone, although it may serve: the tombstone is removed.

use crate::action::{Action, PlannedCommit};
use crate::fleet::{Fleet, ServiceFleet};
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::{InstanceId, Key, mutant};

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
        let words = ["decommissioned".to_owned(), id.to_string()];
        let commit = Commit::new().when(compared).delete(Key::Decommission(id.service, id.node));
        let commit = moment.with_event(commit, (Subject::Fleet, number), words, "coordinator", "it reports");
        Action::Commit(PlannedCommit::new(Subject::Fleet, what, commit))
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
