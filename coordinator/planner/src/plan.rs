//! One turn, decided: for every active upgrade either what is done next, or every reason for which nothing is.

mod certify;
mod directive;
mod draft;
mod order;
mod step;

pub use crate::gate::budget::outside::reason as outside;
pub use certify::{DatabaseEvidence, Made, certify, forget};
pub(crate) use draft::Draft;
pub(crate) use step::begin_rollback;
pub(crate) use step::metadata;

use crate::action::{Action, Plan, PlannedCommit, SchemaJob};
use crate::fleet::{Contradiction, Fleet, Stored};
use crate::gate::store::stale;
use crate::gate::{Reason, store};
use crate::moment::Moment;
use crate::release::floor;
use crate::upgrade::is_unseen;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::commit::{Precondition, Write};
use tidegate_proto::key::Subject;
use tidegate_proto::record::upgrade::{Phase, RollbackStep, Upgrade};
use tidegate_proto::{Key, ServiceName, UpgradeId};

/// What happens next. The same fleet and moment give the same plan.
pub fn plan(fleet: &Fleet, moment: &Moment) -> Plan {
    let mut turn = Turn { fleet, moment, next_event: moment.next_event, plan: Plan::default() };
    match store::closed(fleet, moment) {
        Some(reason) => turn.hold(&reason),
        None => {
            turn.upgrades();
            turn.outside();
            turn.floors();
            turn.streams();
            turn.groups();
            turn.unreadable();
        }
    }
    turn.plan.events = turn.next_event - moment.next_event;
    turn.order();
    turn.withhold();
    turn.plan
}

/// A plan in the making: each event has the next number.
struct Turn<'a> {
    fleet: &'a Fleet,
    moment: &'a Moment,
    next_event: u64,
    plan: Plan,
}

impl<'a> Turn<'a> {
    /// Nothing may act: each wait has this reason. Instances still go back where a person has asked for that,
    /// which only makes things safer; those that contradict the store are left as they are, and the schema waits. A
    /// look changes nothing in a database, and a person may have to roll back before a plan to reconcile is applied.
    fn hold(&mut self, reason: &Reason) {
        let is_contradicted = self.fleet.contradiction(&self.moment.schemas) == Contradiction::Supported;
        for (id, upgrade) in self.fleet.active_upgrades() {
            self.plan.waiting.insert(id.clone(), vec![reason.clone()]);
            let goes_back = matches!(
                upgrade.phase,
                Phase::RollingBack { step: RollbackStep::Restage | RollbackStep::Move, .. }
            );
            if goes_back && is_contradicted {
                let (actions, reasons) = self.step(id, upgrade);
                let commits = actions.into_iter().filter(|action| matches!(action, Action::Commit(_)));
                self.plan.actions.extend(commits);
                self.plan.waiting.entry(id.clone()).or_default().extend(reasons);
            }
            if is_contradicted && is_unseen(self.fleet, self.moment, id, upgrade) {
                self.plan.actions.push(Action::Schema { upgrade: id.clone(), job: SchemaJob::Look });
            }
        }
        for (name, stream) in self.fleet.streams() {
            let held = step::release::held(stream, reason);
            self.plan.releases.extend(held.map(|(revision, reasons)| ((name.clone(), revision), reasons)));
        }
        let updated = self.fleet.groups().filter(|(_, group)| group.update.is_some());
        self.plan.groups = updated.map(|(name, _)| (name.clone(), vec![reason.clone()])).collect();
    }

    fn step(&mut self, id: &'a UpgradeId, upgrade: &'a Stored<Upgrade>) -> (Vec<Action>, Vec<Reason>) {
        let mut draft = Draft::new(self.fleet, self.moment, id, upgrade, self.next_event);
        step::step(&mut draft);
        self.next_event = draft.next_event();
        draft.finish()
    }

    /// The next step of each active upgrade.
    fn upgrades(&mut self) {
        for (id, upgrade) in self.fleet.active_upgrades() {
            let (actions, mut reasons) = self.step(id, upgrade);
            let shared = upgrade.spec.schema.iter().flat_map(|schema| schema.shared_with.keys());
            let services = std::iter::once(&upgrade.spec.service).chain(shared);
            reasons.extend(services.flat_map(|service| store::claims_of_one_node(self.fleet, service)));
            self.plan.actions.extend(actions);
            self.plan.waiting.insert(id.clone(), reasons);
        }
    }

    /// Instances that no upgrade moves.
    fn outside(&mut self) {
        for service in self.fleet.services() {
            let Some(turn) = step::outside::turn(self.fleet, self.moment, service, self.next_event) else {
                continue;
            };
            self.next_event += turn.events;
            self.plan.actions.extend(turn.action);
            if let Some(id) = turn.recorded_at {
                self.plan.waiting.entry(id).or_default().push(turn.reason);
            }
        }
        let before = self.plan.actions.len();
        self.plan.actions.extend(step::returned::turn(self.fleet, self.moment, self.next_event));
        self.next_event += (self.plan.actions.len() - before) as u64;
        let left_behind = step::left_behind::turn(self.fleet, self.moment, self.next_event);
        self.next_event += left_behind.len() as u64;
        self.plan.actions.extend(left_behind);
    }

    /// Floors of services that are only watched.
    fn floors(&mut self) {
        let written = written(&self.plan.actions);
        let floors = floor::lagging(self.fleet)
            .map(|(what, commit)| Action::Commit(PlannedCommit::new(Subject::Fleet, what, commit)));
        let floors = floors.filter(|action| !compares_any(action, &written));
        let floors: Vec<Action> = floors.collect();
        self.plan.actions.extend(floors);
    }

    /// What compute releases do next.
    fn streams(&mut self) {
        for (name, _) in self.fleet.streams() {
            let turn = step::release::turn(self.fleet, self.moment, name, self.next_event);
            // What compares a record that this turn writes already would fail by that: it is for the next turn.
            let written = written(&self.plan.actions);
            if !turn.actions.iter().any(|action| compares_any(action, &written)) {
                self.next_event += turn.events;
                self.plan.actions.extend(turn.actions);
            }
            let waiting = turn.waiting.into_iter();
            self.plan.releases.extend(waiting.map(|(revision, reasons)| ((name.clone(), revision), reasons)));
        }
    }

    /// What updates of metadata do next.
    fn groups(&mut self) {
        for (name, _) in self.fleet.groups() {
            let turn = step::metadata::turn(self.fleet, self.moment, name, self.next_event);
            self.next_event += turn.events;
            self.plan.actions.extend(turn.actions);
            if !turn.waiting.is_empty() {
                self.plan.groups.insert(name.clone(), turn.waiting);
            }
        }
    }

    /// Withholds what must not rest on an old view: it is left to the next turn, and a write of its service comes first that
    /// shows how old the view is. What else was planned for its subject goes on.
    fn withhold(&mut self) {
        let (fleet, moment) = (self.fleet, self.moment);
        let mut first: BTreeMap<ServiceName, Subject> =
            moment.unanswered.iter().map(|service| (service.clone(), subject_of(fleet, service))).collect();
        let mut kept = Vec::new();
        for mut action in std::mem::take(&mut self.plan.actions) {
            if let Action::Commit(planned) = &mut action {
                if let Some(service) = stale::before_step(fleet, moment, &planned.commit) {
                    first.entry(service.clone()).or_insert_with(|| planned.subject.clone());
                    self.plan.withheld.insert(planned.subject.clone());
                    continue;
                }
                planned.by_recent_view = stale::needs_recent_view(fleet, &planned.commit);
            }
            kept.push(action);
        }
        for subject in &self.plan.withheld {
            let Subject::Upgrade(id) = subject else { continue };
            self.plan.waiting.entry(id.clone()).or_default().extend(stale::shown_late(moment));
        }
        let confirm = |(service, subject)| {
            let commit = stale::confirmation(fleet, moment, &service);
            Action::Commit(PlannedCommit::new(subject, "confirm the view".to_owned(), commit))
        };
        self.plan.actions = first.into_iter().map(confirm).chain(kept).collect();
    }

    /// What takes instances out comes first: it is given for a short time only.
    fn order(&mut self) {
        let takes = |action: &Action| match action {
            Action::Commit(planned) => stale::taken_of(&planned.commit).is_some(),
            Action::Schema { .. } | Action::Certify { .. } => false,
        };
        let taking = self.plan.actions.iter().filter(|action| takes(action));
        let taking: BTreeSet<Subject> = taking.map(Action::subject).collect();
        self.plan.actions.sort_by_key(|action| !taking.contains(&action.subject()));
    }

    /// Upgrades for which nothing is planned because a record cannot be read.
    fn unreadable(&mut self) {
        for (key, why, _) in self.fleet.unreadable() {
            for id in hidden(self.fleet, key) {
                self.plan.waiting.entry(id).or_default().push(store::unreadable(key, why));
            }
        }
    }
}

/// On whose behalf the budget of a service is written.
fn subject_of(fleet: &Fleet, service: &ServiceName) -> Subject {
    fleet.active_upgrade(service).map_or(Subject::Fleet, |(id, _)| Subject::Upgrade(id.clone()))
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
    match (store::closed(fleet, moment), fleet.stream(name)) {
        (Some(reason), Some(stream)) => {
            let waiting = step::release::held(stream, &reason).collect();
            step::release::Turn { waiting, ..step::release::Turn::default() }
        }
        _ => step::release::turn(fleet, moment, name, moment.next_event),
    }
}

/// The upgrades for which nothing is planned because this record cannot be read.
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
