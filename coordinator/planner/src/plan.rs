//! One turn, decided: for every active upgrade either what is done next, or every reason for which nothing is.

mod action;
mod draft;
mod order;
mod step;

pub use action::{Action, Plan, PlannedCommit, SchemaJob};
pub(crate) use draft::{Draft, step_word};
pub(crate) use step::metadata;
pub use step::outside::reason as outside;

use crate::fleet::{Contradiction, Fleet};
use crate::moment::Moment;
use crate::reason::{Reason, StoreGate};
use crate::release::floor;
use std::collections::BTreeSet;
use tidegate_proto::commit::{Precondition, Write};
use tidegate_proto::record::upgrade::{Phase, Retreat};
use tidegate_proto::{Key, UpgradeId};

/// What happens next. The same fleet and moment give the same plan.
pub fn plan(fleet: &Fleet, moment: &Moment) -> Plan {
    let mut plan = Plan::default();
    let mut next_event = moment.next_event;
    if let Some(reason) = unheard(fleet, moment) {
        plan.waiting = fleet.active_upgrades().map(|(id, _)| (id.clone(), vec![reason.clone()])).collect();
        walk_back(fleet, moment, &mut plan);
        for (name, stream) in fleet.streams() {
            let held = step::release::held(stream, &reason);
            let held = held.map(|(revision, reasons)| ((name.clone(), revision), reasons));
            plan.releases.extend(held);
        }
        let updated = fleet.groups().filter(|(_, group)| group.update.is_some());
        plan.groups = updated.map(|(name, _)| (name.clone(), vec![reason.clone()])).collect();
        return plan;
    }
    for (id, upgrade) in fleet.active_upgrades() {
        let mut draft = Draft::new(fleet, moment, id, upgrade, next_event);
        step::step(&mut draft);
        next_event = draft.next_event();
        let (actions, reasons) = draft.finish();
        plan.actions.extend(actions);
        plan.waiting.insert(id.clone(), reasons);
    }
    for (id, upgrade) in fleet.active_upgrades() {
        let shared = upgrade.spec.schema.iter().flat_map(|schema| schema.shared_with.keys());
        let services = std::iter::once(&upgrade.spec.service).chain(shared);
        let claims = services.flat_map(|service| fleet.claims_of_one_node(service));
        plan.waiting.entry(id.clone()).or_default().extend(claims);
    }
    for service in fleet.services() {
        let Some(turn) = step::outside::turn(fleet, moment, service, next_event) else { continue };
        next_event += turn.events;
        plan.actions.extend(turn.action);
        if let Some(id) = turn.told_at {
            plan.waiting.entry(id).or_default().push(turn.reason);
        }
    }
    let returned: Vec<Action> = step::returned::turn(fleet, moment, next_event).collect();
    next_event += returned.len() as u64;
    plan.actions.extend(returned);
    let floors = floor::catch_up(fleet);
    let floors: Vec<Action> =
        floors.filter(|action| !compares_any(action, &written(&plan.actions))).collect();
    plan.actions.extend(floors);
    for (name, _) in fleet.streams() {
        let turn = step::release::turn(fleet, moment, name, next_event);
        // What compares a record that this turn writes already would fail by that: it is for the next turn.
        let overtaken = turn.actions.iter().any(|action| compares_any(action, &written(&plan.actions)));
        if !overtaken {
            next_event += turn.events;
            plan.actions.extend(turn.actions);
        }
        plan.releases
            .extend(turn.waiting.into_iter().map(|(revision, reasons)| ((name.clone(), revision), reasons)));
    }
    for (name, _) in fleet.groups() {
        let turn = step::metadata::turn(fleet, moment, name, next_event);
        next_event += turn.events;
        plan.actions.extend(turn.actions);
        if !turn.waiting.is_empty() {
            plan.groups.insert(name.clone(), turn.waiting);
        }
    }
    for (key, why, _) in fleet.unreadable() {
        let reason = || Reason::Store(StoreGate::Unreadable { key: key.to_string(), why: why.to_string() });
        for id in hidden(fleet, key) {
            plan.waiting.entry(id).or_default().push(reason());
        }
    }
    plan
}

/// On a store that is contradicted, instances are still walked back where a person has asked for that: it only makes
/// things safer. Instances that contradict the store are left as they are, and the schema waits.
fn walk_back(fleet: &Fleet, moment: &Moment, plan: &mut Plan) {
    let mut next_event = moment.next_event;
    for (id, upgrade) in fleet.active_upgrades() {
        let walks =
            matches!(upgrade.phase, Phase::RollingBack { retreat: Retreat::Restage | Retreat::Walk, .. });
        if !walks || fleet.contradiction(&moment.schemas) != Contradiction::Supported {
            continue;
        }
        let mut draft = Draft::new(fleet, moment, id, upgrade, next_event);
        step::step(&mut draft);
        next_event = draft.next_event();
        let (actions, reasons) = draft.finish();
        plan.actions.extend(actions.into_iter().filter(|action| matches!(action, Action::Commit(_))));
        plan.waiting.entry(id.clone()).or_default().extend(reasons);
    }
}

/// Every key that these actions write.
fn written(actions: &[Action]) -> BTreeSet<&Key> {
    let commits = actions.iter().filter_map(|action| match action {
        Action::Commit(planned) => Some(&planned.commit),
        Action::Schema { .. } | Action::Certify { .. } => None,
    });
    let writes = commits.flat_map(|commit| &commit.writes);
    writes
        .map(|write| {
            let (Write::Put(key, _) | Write::Delete(key)) = write;
            key
        })
        .collect()
}

/// Whether an action compares any of these keys.
fn compares_any(action: &Action, keys: &BTreeSet<&Key>) -> bool {
    let Action::Commit(planned) = action else { return false };
    planned.commit.when.iter().any(|compared| match compared {
        Precondition::At(key, _) => keys.contains(key),
        _ => false,
    })
}

/// What a turn decides about one release stream.
pub(crate) fn stream_turn(
    fleet: &Fleet,
    moment: &Moment,
    name: &tidegate_proto::StreamName,
) -> step::release::Turn {
    match (unheard(fleet, moment), fleet.stream(name)) {
        (Some(reason), Some(stream)) => {
            let waiting = step::release::held(stream, &reason).collect();
            step::release::Turn { waiting, ..step::release::Turn::default() }
        }
        _ => step::release::turn(fleet, moment, name, moment.next_event),
    }
}

/// The upgrades of which nothing is planned because this record cannot be read.
fn hidden(fleet: &Fleet, key: &Key) -> Vec<UpgradeId> {
    match key {
        Key::Upgrade(id) => vec![id.clone()],
        Key::Active(service) => fleet
            .upgrades()
            .filter(|(_, upgrade)| upgrade.spec.service == *service && !upgrade.phase.is_over())
            .map(|(id, _)| id.clone())
            .collect(),
        _ => Vec::new(),
    }
}

/// Why nothing is decided from this store: somebody contradicts it, or may still do so.
pub(crate) fn unheard(fleet: &Fleet, moment: &Moment) -> Option<Reason> {
    let unheard = || {
        (moment.unheard_ms > 0)
            .then_some(Reason::Store(StoreGate::AwaitingReports { for_ms: moment.unheard_ms }))
    };
    fleet.unreconciled(&moment.schemas).or_else(unheard)
}
