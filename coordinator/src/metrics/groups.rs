//! The state of metadata groups.

use super::count;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tidegate_planner::{Fleet, metadata};
use tidegate_proto::GroupName;
use tidegate_proto::record::group::{Group, UpdateOutcome};

/// The gauges of all groups.
#[derive(Default)]
pub(super) struct Groups {
    instances: Family<InState, Gauge>,
    update: Family<InState, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    group: String,
    state: &'static str,
}

impl Groups {
    /// Names them.
    pub(super) fn register(&self, r: &mut Registry) {
        let help = "Instances of a metadata group: settled while no update runs, else their state in it";
        r.register("group_instances", help, self.instances.clone());
        let help = "1 for the state of a metadata group's update: running, or how the last one ended";
        r.register("group_update", help, self.update.clone());
    }

    /// Reads them again.
    pub(super) fn read(&self, fleet: &Fleet) {
        self.instances.clear();
        self.update.clear();
        for (name, group) in fleet.groups() {
            self.read_one(fleet, name, group);
        }
    }

    fn read_one(&self, fleet: &Fleet, name: &GroupName, group: &Group) {
        let of = |state| InState { group: name.to_string(), state };
        let members = metadata::members(fleet, name, &group.members).count();
        let update = group.update.as_ref();
        let tally = update.map(|update| metadata::tally(fleet, name, update, update.waited_ms));
        let (settled, unexposed) = match &tally {
            Some(tally) => (0, members.saturating_sub(tally.exposed)),
            None => (members, 0),
        };
        let tally = tally.unwrap_or_default();
        // Each is there at all times, so that an alarm has something to compare with.
        let states = [
            ("settled", settled),
            ("unexposed", unexposed),
            ("open", tally.open.len()),
            ("succeeded", tally.succeeded),
            ("expected-failure", tally.expected_failures),
            ("failed", tally.failed.len()),
        ];
        for (state, instances) in states {
            self.instances.get_or_create(&of(state)).set(count(instances));
        }
        self.update.get_or_create(&of(state(group))).set(1);
    }
}

fn state(group: &Group) -> &'static str {
    match (&group.update, &group.last) {
        (Some(_), _) => "running",
        (None, Some(last)) => last.outcome.word(),
        // A first document that all instances had at once.
        (None, None) => UpdateOutcome::Finished.word(),
    }
}
