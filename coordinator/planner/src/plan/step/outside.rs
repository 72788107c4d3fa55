//! Instances that came to run a version outside the window while they were in rotation. Their agents leave them there,
//! because only here is known how many others serve: they are drained within capacity, unless the store was reconciled
//! and has no upgrade that says how many must stay. What was drained goes back once the window admits what runs; where
//! nothing runs any more, once it is drained, because its agent starts only what is admitted. An upgrade in a phase in which
//! instances are moved does both by itself.

use super::declined::rests;
use crate::action::{Action, PlannedCommit};
use crate::fleet::{Fleet, Instance, ServiceFleet, Stored};
use crate::gate::Reason;
use crate::gate::budget::capacity::Budget;
use crate::gate::budget::outside::{
    binding_spec, is_capacity_unknown, is_left_in_rotation, is_to_drain, reason,
};
use crate::moment::Moment;
use crate::plan::directive::{self, Authority};
use std::collections::BTreeSet;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::budget::Budget as BudgetRecord;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::record::window::Window;
use tidegate_proto::spec::Spec;
use tidegate_proto::{Amount, Key, Revision, UpgradeId, mutant};

/// What a turn decides about one service.
pub(in crate::plan) struct Turn {
    /// The upgrade that shows the reason: the active one, or the one that set the window.
    pub(in crate::plan) recorded_at: Option<UpgradeId>,
    pub(in crate::plan) action: Option<Action>,
    pub(in crate::plan) reason: Reason,
    /// How many event numbers the action takes.
    pub(in crate::plan) events: u64,
}

/// Decides about one service; none where all is as it should be, or an upgrade looks after it.
pub(in crate::plan) fn turn(
    fleet: &Fleet,
    moment: &Moment,
    service: &ServiceFleet,
    number: u64,
) -> Option<Turn> {
    let reason = reason(fleet, service)?;
    let place = Place::of(fleet, moment, service)?;
    let action = place.next().map(|(instance, disposition)| place.order(instance, disposition, number));
    let events = u64::from(action.is_some());
    Some(Turn { recorded_at: place.recorded_at().cloned(), action, reason, events })
}

/// Whether its drain came to an end, good or bad.
fn has_ended_draining(instance: &Instance) -> bool {
    is_to_drain(instance) && (instance.is_drained() || instance.failure().is_some())
}

struct Place<'a> {
    fleet: &'a Fleet,
    moment: &'a Moment,
    service: &'a ServiceFleet,
    window: &'a Stored<Window>,
    active: Option<(&'a UpgradeId, &'a Stored<Upgrade>)>,
    /// Its capacity still holds.
    spec: Option<&'a Spec>,
}

impl<'a> Place<'a> {
    fn of(fleet: &'a Fleet, moment: &'a Moment, service: &'a ServiceFleet) -> Option<Self> {
        let window = service.window()?;
        let active = fleet.lock(service.name()).and_then(|(id, _)| Some((id, fleet.upgrade(id)?)));
        Some(Self { fleet, moment, service, window, active, spec: binding_spec(fleet, service) })
    }

    fn recorded_at(&self) -> Option<&'a UpgradeId> {
        let setter = Some(&self.window.record.body.set_by).filter(|id| self.fleet.upgrade(id).is_some());
        self.active.map(|(id, _)| id).or(setter)
    }

    /// One instance a turn: capacity is known again only after the next report.
    fn next(&self) -> Option<(&'a Instance, Disposition)> {
        match self.returning() {
            Some(instance) => Some((instance, Disposition::Serve { returning: true })),
            None if mutant::is("changed-version-is-never-drained") => None,
            // Another tool upgrades it: what serves below the floor is named, and not taken out.
            None if self.window.follows_needs() => None,
            None if is_capacity_unknown(self.fleet, self.service) => None,
            None => self.leaving().map(|instance| (instance, Disposition::Drain)),
        }
    }

    /// The first that was drained, and runs a version that is admitted again; or runs nothing.
    fn returning(&self) -> Option<&'a Instance> {
        let admitted = |i: &Instance| i.runs_admitted(Some(self.window));
        let mut out = self.service.out().each;
        out.find(|i| has_ended_draining(i) && (admitted(i) || i.answers_nothing()) && !i.is_in_maintenance())
    }

    /// The first that is in rotation, and may be taken out.
    fn leaving(&self) -> Option<&'a Instance> {
        let leaving = self
            .service
            .out()
            .each
            .filter(|i| is_left_in_rotation(i) && !rests(self.moment, self.service, i));
        first_within_capacity(self.service, self.spec, leaving)
    }

    fn order(&self, instance: &Instance, disposition: Disposition, number: u64) -> Action {
        let (name, node) = (self.service.name(), &instance.node);
        let stored = instance.directive.as_ref();
        let what = format!("{} {name}/{node}", disposition.word());
        let window = &self.window.record.body;
        let drains = disposition == Disposition::Drain;
        let because = match drains {
            true => format!(
                "its version was changed in rotation to one outside the window {window}; capacity allows it"
            ),
            false => format!("the window {window} admits its version, or nothing runs there"),
        };
        let upgrade = self.active.map_or(&window.set_by, |(id, _)| id);
        let releases = stored.map(|stored| stored.releases.clone()).unwrap_or_default();
        let by = Authority { upgrade, spec: self.spec, moment: self.moment };
        let commit = Commit::new()
            .when(Precondition::At(Key::Window(name.clone()), self.window.at))
            .when(self.same_upgrade());
        let commit = directive::put(commit, name, instance, by.directive(disposition, releases, false));
        let commit = if drains { self.taking_out(commit, instance) } else { commit };
        let words = ["in rotation".to_owned(), what.clone()];
        let commit = self.moment.with_event(commit, (Subject::Fleet, number), words, "coordinator", &because);
        // A commit of one service that does not succeed holds no other service.
        let subject = self.recorded_at().map_or(Subject::Fleet, |id| Subject::Upgrade(id.clone()));
        Action::Commit(PlannedCommit::new(subject, what, commit))
    }

    /// None began, or the active one is as it was read.
    fn same_upgrade(&self) -> Precondition {
        match self.active {
            Some((id, upgrade)) => Precondition::At(Key::Upgrade(id.clone()), upgrade.at),
            None => Precondition::At(Key::Active(self.service.name().clone()), Revision::ABSENT),
        }
    }

    fn taking_out(&self, commit: Commit, instance: &Instance) -> Commit {
        let cordon = Key::Maintenance(instance.node.clone());
        let commit = commit.when(Precondition::At(cordon, Revision::ABSENT));
        taking_one(commit, self.service, instance, self.moment)
    }
}

/// The first of these that may be taken out by the capacity of a spec; without one, one at a time.
pub(super) fn first_within_capacity<'a>(
    service: &ServiceFleet,
    spec: Option<&Spec>,
    mut leaving: impl Iterator<Item = &'a Instance>,
) -> Option<&'a Instance> {
    let one = Amount::Count(1);
    let (min, max) = spec.map_or((one, one), |spec| (spec.min_in_service, spec.max_unavailable));
    let mut budget = Budget::within(service, min, max, false);
    let label = spec.and_then(|spec| spec.failure_domain.as_deref());
    let domain = |i: &Instance| label.map(|label| i.label(label).unwrap_or_default().to_owned());
    // One that is in service goes beside nothing else that is out; another one, beside none that gets no requests.
    let out: BTreeSet<_> = service.out().each.filter_map(domain).collect();
    let away = service.out().each.filter(|i| i.exposure().is_away());
    let away: BTreeSet<_> = away.filter_map(domain).collect();
    // Beside one without the label, which may be in any domain, nothing else goes.
    let fits = |i: &Instance, beside: &BTreeSet<String>| match domain(i) {
        None => true,
        Some(own) => beside.iter().all(|other| *other == own && !own.is_empty()),
    };
    leaving.find(|i| match i.is_in_service() {
        true => fits(i, &out) && budget.take(i, None),
        false => fits(i, &away) && budget.take_unhealthy(i, None),
    })
}

/// Adds to a commit that it takes this instance out of the budget, if no other decision did since the one that was read, and
/// its report is still the one that says why: once it says otherwise, it may be one of those that must stay.
pub(super) fn taking_one(
    commit: Commit,
    service: &ServiceFleet,
    instance: &Instance,
    moment: &Moment,
) -> Commit {
    let commit = match mutant::is("report-is-not-compared") {
        true => commit,
        false => commit.when(instance.same_report(service.name())),
    };
    let key = Key::Budget(service.name().clone());
    let taken = BudgetRecord { term: moment.leader.term.clone(), taken: 1 };
    commit.when(Precondition::At(key.clone(), service.budget_at())).put(key, taken)
}
