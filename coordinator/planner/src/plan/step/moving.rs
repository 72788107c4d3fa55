//! Moving instances to a release, forward or back: drain → drained → replace → serving, each step on what was
//! observed, within the budget. Drain is reversible, stop is not: capacity is checked again between them.

mod under_way;

pub(super) use under_way::UnderWay;

use super::super::Draft;
use super::super::order::Order;
use super::declined::{REST, rests};
use super::recalled::rest;
use crate::fleet::{Exposure, Instance, Known, Sample, ServiceFleet, Standing};
use crate::gate::budget::capacity::Budget;
use crate::gate::{Answer, RollGate};
use crate::moment::Moment;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Report, Rotation, Step};
use tidegate_proto::{Release, ReleaseTag, mutant};
use under_way::under_way;

/// Who is moved where.
pub(super) struct Moving<'a> {
    pub(super) moment: &'a Moment,
    pub(super) service: &'a ServiceFleet,
    /// The last wave that is exposed.
    pub(super) up_to: u32,
    pub(super) target: Release,
    pub(super) releases: Vec<Release>,
    /// What a rollback moves them away from: who runs it has not come to the target, whatever version it answers.
    pub(super) moved_from: Option<&'a ReleaseTag>,
    /// Whether an instance may be started with now, unless it has failed: in an exposed wave, not skipped.
    pub(super) may_begin: &'a dyn Fn(&Instance) -> bool,
    /// Whether an instance has failed before: one that could not be drained is let back into service.
    pub(super) has_failed: &'a dyn Fn(&Instance) -> bool,
    /// Whether capacity has held unhealthy instances for longer than may be: they then go one at a time.
    pub(super) overdue: bool,
    /// Whether none may be started with, or replaced, before the database is looked at. Whether one could be is answered all
    /// the same.
    pub(super) needs_look: bool,
}

impl Moving<'_> {
    /// Whether an instance may be started with now. Where nothing runs and its agent knows no release to start, only another
    /// release ends that: an earlier failure does not hold it back.
    fn begins_with(&self, instance: &Instance) -> bool {
        let is_held_back = (self.has_failed)(instance) && !instance.has_nothing_to_start();
        (self.may_begin)(instance) && !is_held_back && instance.can_be_ordered() && !self.rests(instance)
    }

    fn rests(&self, instance: &Instance) -> bool {
        rests(self.moment, self.service, instance)
    }

    /// Open where none that is to be moved rests.
    fn has_none_at_rest(&self) -> Answer {
        let declined = self.service.declined().each.filter(|i| self.rests(i) && !self.has_come_to_target(i));
        Answer::of_any(Sample::counted(declined.map(|i| &i.node)), |nodes| RollGate::Declined {
            nodes,
            rest: REST,
        })
    }

    fn has_come_to_target(&self, instance: &Instance) -> bool {
        instance.known() == Known::At(self.target.version) && !instance.is_unreplaced(self.moved_from)
    }
}

/// Looks at every instance that is under way, plans what follows for each, starts others as far as the budget allows,
/// and reports what is waited for.
pub(super) fn move_instances<'a>(
    draft: &mut Draft<'_>,
    moving: &Moving<'a>,
    candidates: impl Iterator<Item = &'a Instance>,
) -> UnderWay<'a> {
    let mut budget = Budget::of(moving.service, draft.spec());
    if moving.overdue {
        budget.set_overdue(true);
    }
    let mut under_way = under_way(moving, &budget);
    under_way.recall.extend(recovered(moving).map(Order::serve_again));
    let waiting = if mutant::is("held-ones-wait-for-each-other") { under_way.out.held.len() } else { 0 };
    let busy = under_way.going() + waiting + under_way.out.silent.len();
    let at_once =
        if mutant::is("who-is-out-costs-budget") && budget.is_spent() { 0 } else { budget.max_unavailable() };
    let out = already_out(moving).take(at_once.saturating_sub(busy));
    let replaced = |instance: &'a Instance| Order::replace_what_is_out(instance, moving.target.clone());
    under_way.replace.extend(out.map(replaced));
    // What is drained may have been so for longer than the look before its drain holds.
    under_way.awaits_look = moving.needs_look && !under_way.replace.is_empty();
    draft.order(
        &under_way.recall,
        &moving.releases,
        "recall",
        "it could not be drained, or capacity no longer holds",
    );
    // What is taken out and let back again and again waits for capacity, at each turn.
    if under_way.capacity_lacks {
        draft.wait(budget.reason());
    }
    if !draft.has_commits() && !moving.needs_look {
        let settled = under_way.replace.iter().find_map(|order| order.instance.settled());
        let because = settled.unwrap_or_else(|| "it is out of rotation".to_owned());
        let because = format!("{because}, and capacity still holds");
        draft.order_out(&under_way.replace, &moving.releases, "replace", &because);
    }
    if !draft.has_commits() {
        if under_way.moving() > 0 {
            budget.set_overdue(false);
        }
        let unhealthy = || under_way.unhealthy.iter().copied().chain(exposed(moving, Standing::Unhealthy));
        let label = draft.spec().failure_domain.clone();
        let (begin, held) = begin(moving, &mut budget, label.as_deref(), unhealthy, candidates);
        let rest = rest(moving.moment, moving.service).filter(|_| !begin.is_empty());
        under_way.capacity_holds = held || rest.is_some();
        match rest {
            Some(rest) => draft.wait(rest),
            None if moving.needs_look => under_way.awaits_look |= !begin.is_empty(),
            None => draft.order_out(&begin, &moving.releases, "drain", "the budget allows it"),
        }
        if held {
            draft.wait(budget.reason());
        }
    }
    draft.passes(under_way.out.answer(&draft.view()));
    draft.passes(moving.has_none_at_rest());
    under_way
}

/// Begins with those whom a move exposes, in the commit of that move: a turn less for each wave.
pub(super) fn begin_with_the_move<'a>(
    draft: &mut Draft<'_>,
    moving: &Moving<'a>,
    candidates: impl Iterator<Item = &'a Instance>,
) {
    if rest(moving.moment, moving.service).is_some() {
        return;
    }
    let mut budget = Budget::of(moving.service, draft.spec());
    let label = draft.spec().failure_domain.clone();
    let (service, up_to) = (moving.service, moving.up_to + 1);
    let unhealthy = || service.each_standing(Standing::Unhealthy, up_to);
    let (begin, _) = begin(moving, &mut budget, label.as_deref(), unhealthy, candidates);
    draft.order_out_with_the_move(&begin, &moving.releases, "drain", "the budget allows it");
}

/// Those that get no requests, through no order of ours: replacing them costs no budget.
fn already_out<'a>(moving: &Moving<'a>) -> impl Iterator<Item = &'a Instance> {
    let out = exposed(moving, Standing::OutOfRotation);
    let held = moving.service.each_standing(Standing::DisabledByPerson, moving.up_to);
    out.chain(held).filter(move |instance| moving.begins_with(instance)).take(super::super::draft::BATCH)
}

/// Those in this state in the exposed waves, and those that need no wave.
fn exposed<'a>(moving: &Moving<'a>, standing: Standing) -> impl Iterator<Item = &'a Instance> {
    let (service, up_to) = (moving.service, moving.up_to);
    let is_exposed = move |instance: &Instance| {
        let wave = service.standing_of(&instance.node).map(|(_, wave)| wave);
        wave.is_none_or(|wave| wave <= up_to) || needs_no_wave(instance, moving)
    };
    service.each_standing(standing, u32::MAX).filter(move |instance| is_exposed(instance))
}

/// Instances in rotation that run the target version, are healthy, and whose agents still report an earlier failure. They are
/// ordered to serve instead of being drained, once: an instance that fails again waits for a person.
fn recovered<'a>(moving: &Moving<'a>) -> impl Iterator<Item = &'a Instance> {
    let unhealthy =
        exposed(moving, Standing::Unhealthy).filter(|_| !mutant::is("recovered-ones-are-drained"));
    let is_ordered = |i: &Instance| {
        i.directive.as_ref().is_some_and(|d| d.disposition == Disposition::Serve { returning: true })
    };
    let failed =
        |i: &Instance| i.report.as_ref().is_some_and(|report| matches!(report.step, Step::Failed { .. }));
    unhealthy.filter(move |i| {
        i.is_well() && moving.has_come_to_target(i) && i.has_accepted() && failed(i) && !is_ordered(i)
    })
}

/// Whether it is exposed to the target already, or comes into service by it alone. It takes of the budget while it is out:
/// if it waited for its wave, and that wave for the budget, neither would come.
fn needs_no_wave(instance: &Instance, moving: &Moving<'_>) -> bool {
    let is_former = |tag: &ReleaseTag| {
        moving.releases.iter().any(|release| release.tag == *tag && release.tag != moving.target.tag)
    };
    let release = instance.report.as_ref().and_then(|report| report.release.as_ref());
    let is_another = release.is_some_and(|tag| !is_former(tag));
    match instance.known() {
        // An earlier window admitted it. A version that a person put back names no release, and waits to be put right.
        Known::At(version) => {
            version == moving.target.version || is_another && instance.runs_outside(moving.service.window())
        }
        Known::Unknown => {
            instance.has_never_served()
                || instance.has_nothing_to_start()
                || is_not_started(instance)
                || is_another
        }
        Known::Silent => false,
    }
}

/// Whether nothing runs there because the window does not admit what its agent would start: it came back from before an
/// earlier upgrade.
fn is_not_started(instance: &Instance) -> bool {
    let is_refused = instance.report.as_ref().is_some_and(|r| matches!(r.step, Step::Refused { .. }));
    is_refused && instance.answers_nothing() && instance.exposure() == Exposure::Away
}

/// Whether it serves, healthy, at the target version, and only its rotation is not confirmed: a balancer that cannot be
/// asked is no reason to move it again.
fn has_arrived(instance: &Instance, moving: &Moving<'_>) -> bool {
    let unconfirmed =
        |report: &Report| report.health == Health::Healthy && report.rotation == Rotation::Returning;
    instance.report.as_ref().is_some_and(|report| unconfirmed(report))
        && instance.claims_to_serve()
        && moving.has_come_to_target(instance)
}

/// Takes from the unhealthy ones and then from the candidates what the budget allows; answers whether it held back all
/// that could go. Of the unhealthy ones, those that answer nothing go first: one whose health flaps serves in between.
fn begin<'a, I: Iterator<Item = &'a Instance>>(
    moving: &Moving<'a>,
    budget: &mut Budget,
    label: Option<&str>,
    unhealthy: impl Fn() -> I,
    candidates: impl Iterator<Item = &'a Instance>,
) -> (Vec<Order<'a>>, bool) {
    const MOST: usize = super::super::draft::BATCH;
    const MOST_UNHEALTHY: usize = super::super::draft::BATCH_AS_REPORTED;
    let mut orders = Vec::new();
    let mut held = false;
    let by_answer = |nothing: bool| unhealthy().filter(move |i| i.answers_nothing() == nothing);
    let unhealthy = by_answer(true).chain(by_answer(false));
    let unhealthy = unhealthy.filter(|i| !i.is_coming() && !has_arrived(i, moving));
    for instance in unhealthy.filter(|i| moving.begins_with(i)) {
        if orders.len() == MOST_UNHEALTHY || held && budget.is_spent_for_unhealthy() {
            break;
        }
        match budget.take_unhealthy(instance, label) {
            true => orders.push(Order::drain_unhealthy(instance)),
            false => held = true,
        }
    }
    for instance in candidates.filter(|i| i.is_in_service() && moving.begins_with(i)) {
        if orders.len() == MOST {
            break;
        }
        match budget.take(instance, label) {
            true => orders.push(Order::drain(instance)),
            false => held = true,
        }
        // A later one may be of the failure domain that is out already, as long as any instance may go at all.
        if held && budget.is_spent() {
            break;
        }
    }
    let held = held && orders.is_empty();
    (orders, held)
}
