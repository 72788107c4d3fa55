//! Instances that hold to a replacement by an earlier upgrade: they were away, and decommissioned, when a later one ended.
//! Their agents cannot carry it out, because the window refuses that release, or it does not come up; and they obey it also
//! where a person has built the node again. No upgrade orders them anything else, and an upgrade of another service that
//! shares the schema waits for their version. They are replaced with the release that the last upgrade has left.
//!
//! So are those in rotation above that release whose agents declined this replacement: what they run may use a form of the
//! schema that the rollback has undone.
//!
//! # Invariants
//! * Where nothing of such an instance runs, as far as its agent says, the order presumes that: its agent declines it where
//!   the instance is in rotation. So it costs no capacity.
//! * One in rotation is replaced within the capacity of the last upgrade, one a turn.
//! * An upgrade that has left preflight moves its instances by itself.

use super::declined::rests;
use super::outside::{first_within_capacity, taking_one};
use crate::action::{Action, PlannedCommit};
use crate::fleet::{Exposure, Fleet, Instance, Known, ServiceFleet, Stored};
use crate::gate::budget::outside::is_without_orders;
use crate::moment::Moment;
use crate::plan::directive::{self, Authority};
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Step;
use tidegate_proto::record::upgrade::{Phase, Upgrade};
use tidegate_proto::{Key, Release, Revision, UpgradeId};

/// How many instances one turn orders; the next turn goes on.
const AT_ONCE: usize = 20;

/// Orders their replacement, each with its event, numbered from `number`.
pub(in crate::plan) fn turn(fleet: &Fleet, moment: &Moment, number: u64) -> Vec<Action> {
    let mut actions = Vec::new();
    for service in fleet.services() {
        let mut held = service.out().each.filter(|i| cannot_be_replaced(i)).peekable();
        let mut declined = service.declined().each.filter(|i| i.exposure() == Exposure::In).peekable();
        if held.peek().is_none() && declined.peek().is_none() || is_moved(fleet, service) {
            continue;
        }
        let Some(last) = Last::of(fleet, service) else { continue };
        let so_far = actions.len();
        let room = AT_ONCE.saturating_sub(so_far);
        let orders = held.filter_map(|i| Some((i, last.former_order(i)?))).take(room);
        let numbered = orders.zip(number + so_far as u64..);
        actions.extend(numbered.map(|((i, former), number)| last.order_back(moment, i, former, number)));
        let next = number + actions.len() as u64;
        let leaving = declined.filter(|i| last.is_declined_by(i) && !rests(moment, service, i));
        let leaving = first_within_capacity(service, Some(&last.upgrade.spec), leaving);
        actions.extend(leaving.map(|i| last.take_out(moment, i, next)));
    }
    actions
}

/// Whether its agent says, under its last directive, that it could not carry that out, and nothing runs there.
fn cannot_be_replaced(instance: &Instance) -> bool {
    let Some(report) = &instance.report else { return false };
    let has_ended = matches!(report.step, Step::Refused { .. } | Step::Failed { .. });
    has_ended
        && instance.answers_nothing()
        && replacement(instance).is_some()
        && instance.has_accepted()
        && instance.exposure() == Exposure::Away
        && !instance.is_in_maintenance()
        && instance.unreadable.is_empty()
}

/// The release that its directive names for a replacement.
fn replacement(instance: &Instance) -> Option<&Release> {
    match &instance.directive.as_ref()?.disposition {
        Disposition::Replace { release } => Some(release),
        _ => None,
    }
}

/// Whether an upgrade moves the instances of a service, or something that says so cannot be read.
fn is_moved(fleet: &Fleet, service: &ServiceFleet) -> bool {
    let begun = fleet.active_upgrade(service.name()).is_some_and(|(_, upgrade)| upgrade.former.is_some());
    begun || !is_without_orders(fleet, service)
}

/// The last upgrade of a service that has moved its instances, and is over.
struct Last<'a> {
    fleet: &'a Fleet,
    service: &'a ServiceFleet,
    id: &'a UpgradeId,
    upgrade: &'a Stored<Upgrade>,
    /// What it has left, which the window admits.
    release: Release,
}

impl<'a> Last<'a> {
    fn of(fleet: &'a Fleet, service: &'a ServiceFleet) -> Option<Self> {
        let of_service = fleet.upgrades().filter(|(_, upgrade)| upgrade.spec.service == *service.name());
        let moved = of_service.filter(|(_, upgrade)| upgrade.phase.is_over() && upgrade.former.is_some());
        // Its record is written last when it ends.
        let (id, upgrade) = moved.max_by_key(|(_, upgrade)| upgrade.at)?;
        let is_back = upgrade.phase != Phase::Completed;
        let release = if is_back { upgrade.former.as_ref()?.release.clone() } else { upgrade.spec.target() };
        let admits = service.window().is_none_or(|window| window.admits(release.version));
        admits.then_some(Self { fleet, service, id, upgrade, release })
    }

    /// What an instance was to be replaced with, where that is another release than the one that was left and its agent can
    /// start that one.
    fn former_order<'i>(&self, instance: &'i Instance) -> Option<&'i Release> {
        let can = self.can_be_started_by(instance);
        replacement(instance).filter(|release| can && **release != self.release)
    }

    fn can_be_started_by(&self, instance: &Instance) -> bool {
        let abilities = instance.report.as_ref().map(|report| &report.abilities);
        abilities.is_some_and(|can| can.replace.is_some() && can.artifacts.contains(&self.release.tag))
    }

    /// Whether its agent declined to replace what runs above the release that was left with that one.
    fn is_declined_by(&self, instance: &Instance) -> bool {
        let is_above = matches!(instance.known(), Known::At(version) if version > self.release.version);
        is_above && replacement(instance) == Some(&self.release) && self.can_be_started_by(instance)
    }

    /// Replaces one where nothing runs.
    fn order_back(&self, moment: &Moment, instance: &Instance, former: &Release, number: u64) -> Action {
        let because = format!(
            "it could not be replaced with {}, nothing runs there, and upgrade {} has left {}",
            former.tag, self.id, self.release.tag
        );
        self.order(moment, instance, (Commit::new(), true), (&because, number))
    }

    /// Replaces one in rotation.
    fn take_out(&self, moment: &Moment, instance: &Instance, number: u64) -> Action {
        let because = format!(
            "it was in rotation when its agent came back, and upgrade {} has left {}; capacity allows it",
            self.id, self.release.tag
        );
        let commit = taking_one(Commit::new(), self.service, instance, moment);
        self.order(moment, instance, (commit, false), (&because, number))
    }

    /// Adds the order to a commit, with its event.
    fn order(
        &self,
        moment: &Moment,
        instance: &Instance,
        (commit, presumes_out): (Commit, bool),
        (because, number): (&str, u64),
    ) -> Action {
        let (name, node) = (self.service.name(), &instance.node);
        let (release, spec) = (self.release.clone(), &*self.upgrade.spec);
        let by = Authority { upgrade: self.id, spec: Some(spec), moment };
        let replace = Disposition::Replace { release: release.clone() };
        let body = by.directive(replace, vec![release], presumes_out);
        let commit = commit
            .when(Precondition::At(Key::Window(name.clone()), self.service.window_at()))
            .when(self.same_upgrade())
            .when(Precondition::At(Key::Maintenance(node.clone()), Revision::ABSENT))
            .when(instance.same_report(name));
        let commit = directive::put(commit, name, instance, body);
        let what = format!("replace {name}/{node}");
        let from = if presumes_out { "out of rotation" } else { "in rotation" };
        let words = [from.to_owned(), what.clone()];
        let commit = moment.with_event(commit, (Subject::Fleet, number), words, "coordinator", because);
        Action::Commit(PlannedCommit::new(Subject::Fleet, what, commit))
    }

    /// None began, or the one in preflight is as it was read.
    fn same_upgrade(&self) -> Precondition {
        let name = self.service.name();
        match self.fleet.active_upgrade(name) {
            Some((id, upgrade)) => Precondition::At(Key::Upgrade(id.clone()), upgrade.at),
            None => Precondition::At(Key::Active(name.clone()), Revision::ABSENT),
        }
    }
}
