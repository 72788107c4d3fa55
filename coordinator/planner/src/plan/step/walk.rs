//! Moving instances to a release, forward or back: drain → drained → replace → serving, each step on what was
//! observed, within the budget. Drain is reversible, stop is not: capacity is checked again between them.

use super::super::Draft;
use super::super::order::Order;
use crate::fleet::{Exposure, Instance, Known, ServiceFleet, Standing};
use crate::gate::{BudgetGate, Causes, Reason, RollGate, Sample, VersionGate};
use crate::wave::budget::Budget;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Report, Rotation, Step};
use tidegate_proto::{NodeId, Release, ReleaseTag, mutant};

/// Who is moved where.
pub(super) struct Walk<'a> {
    pub(super) service: &'a ServiceFleet,
    /// The last wave that is exposed.
    pub(super) up_to: u32,
    pub(super) target: Release,
    pub(super) releases: Vec<Release>,
    /// Whether an instance may be begun with now: in an exposed wave, not given up, not excused.
    pub(super) may_begin: &'a dyn Fn(&Instance) -> bool,
    /// Whether an instance that could not be drained is let back into service.
    pub(super) gives_up: &'a dyn Fn(&Instance) -> bool,
    /// Whether capacity has held unhealthy instances for longer than may be: they then go one at a time.
    pub(super) overdue: bool,
}

/// What was found of the instances that are under way.
#[derive(Default)]
pub(super) struct UnderWay<'a> {
    draining: Vec<&'a NodeId>,
    replacing: Vec<&'a NodeId>,
    returning: Vec<&'a NodeId>,
    broken: Vec<&'a Instance>,
    silent: Vec<&'a NodeId>,
    /// A person keeps them out, or holds them where they are.
    kept_out: Vec<&'a NodeId>,
    /// Drained, and not to be stopped now.
    held: Vec<&'a Instance>,
    /// Drained before their wave, because their version was changed in rotation.
    outside: Vec<&'a Instance>,
    /// Unhealthy, and possibly in rotation under an order of another release: drained first, like the others.
    unhealthy: Vec<&'a Instance>,
    /// Those that failed under their directive, with why.
    pub(super) failed: Vec<(&'a Instance, String)>,
    /// Healthy and not stopped: their orders are withdrawn as far as capacity lacks them.
    withdrawable: Vec<(&'a Instance, Course)>,
    replace: Vec<Order<'a>>,
    recall: Vec<Order<'a>>,
}

/// How far an instance is that was taken out and has not been stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Draining,
    Drained,
    Replacing,
}

impl<'a> UnderWay<'a> {
    /// How many are on their way out or back, and report.
    fn moving(&self) -> usize {
        self.going() + self.held.len()
    }

    /// The same without those that are held: they wait, and nothing that costs no budget waits for them.
    fn going(&self) -> usize {
        self.draining.len()
            + self.replacing.len()
            + self.returning.len()
            + self.replace.len()
            + self.recall.len()
    }

    /// Whether an instance is on its way, and not by a person's leave.
    pub(super) fn is_any(&self) -> bool {
        self.any_silent() || self.any_reporting()
    }

    pub(super) fn any_silent(&self) -> bool {
        !self.silent.is_empty()
    }

    pub(super) fn any_reporting(&self) -> bool {
        !(self.draining.is_empty()
            && self.replacing.is_empty()
            && self.returning.is_empty()
            && self.held.is_empty()
            && self.outside.is_empty()
            && self.broken.is_empty())
    }

    /// Decides about those that are healthy and not stopped: as many as capacity lacks go back, and none is stopped
    /// while it lacks any.
    fn settle(&mut self, walk: &Walk<'a>, budget: &Budget) {
        let lacks = match mutant::is("recovered-is-not-recalled") {
            true => 0,
            false => budget.lacks(),
        };
        let mut back = lacks.saturating_sub(self.returning.len() + self.recall.len());
        for (instance, course) in std::mem::take(&mut self.withdrawable) {
            match course {
                _ if back > 0 => {
                    back -= 1;
                    self.recall.push(Order::serve(instance));
                }
                Course::Draining => self.draining.push(&instance.node),
                Course::Drained if lacks > 0 => self.held.push(instance),
                Course::Drained => self.replace.push(Order::replace(instance, walk.target.clone())),
                Course::Replacing => self.replacing.push(&instance.node),
            }
        }
        self.release_one(walk, budget);
    }

    /// Instances of several failure domains that are drained and unhealthy hold each other, and nothing else ends that.
    /// They are out already, so the first is replaced without taking anything out; the others wait for it.
    fn release_one(&mut self, walk: &Walk<'a>, budget: &Budget) {
        let failed = self.failed.iter().filter(|(instance, _)| instance.exposure() == Exposure::Away).count();
        let waits = self.going() > 0 || walk.service.away() > self.held.len() + failed;
        if waits || !budget.bears_unhealthy_in_any_domain() || mutant::is("held-ones-wait-for-each-other") {
            return;
        }
        if let Some(first) = self.held.iter().position(|instance| !instance.runs_healthily()) {
            let first = self.held.remove(first);
            self.replace.push(Order::replace(first, walk.target.clone()));
        }
    }
}

/// Looks at everyone who is under way, plans what follows for each, begins with others as far as the budget allows,
/// and says what is waited for.
pub(super) fn walk<'a>(
    draft: &mut Draft<'_>,
    walk: &Walk<'a>,
    candidates: impl Iterator<Item = &'a Instance>,
) -> UnderWay<'a> {
    let mut budget = Budget::of(walk.service, draft.spec());
    if walk.overdue {
        budget.set_overdue(true);
    }
    let mut under_way = under_way(walk, &budget);
    under_way.recall.extend(recovered(walk).map(Order::serve_again));
    let waiting = if mutant::is("held-ones-wait-for-each-other") { under_way.held.len() } else { 0 };
    let moving = under_way.going() + waiting + under_way.silent.len();
    let at_once =
        if mutant::is("who-is-out-costs-budget") && budget.is_spent() { 0 } else { budget.max_unavailable() };
    for instance in already_out(walk).take(at_once.saturating_sub(moving)) {
        under_way.replace.push(Order::replace_what_is_out(instance, walk.target.clone()));
    }
    draft.order(
        &under_way.recall,
        &walk.releases,
        "recall",
        "it could not be drained, or capacity no longer holds",
    );
    if !draft.has_commits() {
        let settled = under_way.replace.iter().find_map(|order| order.instance.settled());
        let because = settled.unwrap_or_else(|| "it is out of rotation".to_owned());
        let because = format!("{because}, and capacity still holds");
        draft.order_out(&under_way.replace, &walk.releases, "replace", &because);
    }
    if !draft.has_commits() {
        if under_way.moving() > 0 {
            budget.set_overdue(false);
        }
        let unhealthy = under_way.unhealthy.iter().copied().chain(exposed(walk, Standing::Unhealthy));
        let label = draft.spec().failure_domain.clone();
        let (begin, held) = begin(walk, &mut budget, label.as_deref(), unhealthy, candidates);
        draft.order_out(&begin, &walk.releases, "drain", "the budget allows it");
        if held {
            draft.wait(budget.reason());
        }
    }
    tell(draft, &under_way);
    under_way
}

/// Begins with those whom a move exposes, in the commit of that move: a turn less for each wave.
pub(super) fn begin_with_the_move<'a>(
    draft: &mut Draft<'_>,
    walk: &Walk<'a>,
    candidates: impl Iterator<Item = &'a Instance>,
) {
    let mut budget = Budget::of(walk.service, draft.spec());
    let label = draft.spec().failure_domain.clone();
    let unhealthy = walk.service.each_standing(Standing::Unhealthy, walk.up_to + 1);
    let (begin, _) = begin(walk, &mut budget, label.as_deref(), unhealthy, candidates);
    draft.order_out_with_the_move(&begin, &walk.releases, "drain", "the budget allows it");
}

fn under_way<'a>(walk: &Walk<'a>, budget: &Budget) -> UnderWay<'a> {
    let mut found = UnderWay::default();
    for instance in walk.service.ordered().each {
        let Some(directive) = &instance.directive else { continue };
        let failed = instance.failure();
        if let Some(why) = &failed {
            found.failed.push((instance, why.clone()));
        }
        let node = &instance.node;
        if instance.known() == Known::Silent {
            found.silent.push(node);
            continue;
        }
        match &directive.disposition {
            Disposition::Replace { release } if *release == walk.target => match failed {
                // Its version was changed in rotation: drained first, like the others.
                _ if instance.has_changed_in_rotation()
                    && !instance.is_kept_out()
                    && is_elsewhere(instance, walk) =>
                {
                    found.unhealthy.push(instance)
                }
                Some(_) => {}
                None if instance.is_kept_out() => found.kept_out.push(node),
                None if is_former(instance, walk) => found.withdrawable.push((instance, Course::Replacing)),
                None if instance.claims_to_serve() => found.broken.push(instance),
                None => found.replacing.push(node),
            },
            Disposition::Drain if failed.is_some() && (walk.gives_up)(instance) => {
                found.recall.push(Order::serve(instance))
            }
            Disposition::Drain if failed.is_some() => {}
            Disposition::Drain => drained(&mut found, walk, budget, instance),
            Disposition::Replace { .. } | Disposition::Stop if instance.maintained => {
                found.kept_out.push(node)
            }
            Disposition::Replace { .. } if instance.exposure() != Exposure::Away => {
                found.unhealthy.push(instance)
            }
            Disposition::Replace { .. } | Disposition::Stop => {
                found.replace.push(Order::replace_what_is_out(instance, walk.target.clone()))
            }
            Disposition::Serve { .. } => found.returning.push(node),
        }
    }
    found.settle(walk, budget);
    found
}

/// Whether it is seen at another version than the one that it was told to serve with, or refused as one.
fn is_elsewhere(instance: &Instance, walk: &Walk<'_>) -> bool {
    let refused = instance.report.as_ref().is_some_and(|report| matches!(report.step, Step::Refused { .. }));
    refused || matches!(instance.known(), Known::At(version) if version != walk.target.version)
}

/// Whether it runs, healthy, and is seen at another version than the one that it was told to serve with.
fn is_former(instance: &Instance, walk: &Walk<'_>) -> bool {
    let known = instance.known();
    instance.runs_healthily() && matches!(known, Known::At(version) if version != walk.target.version)
}

/// One that is told to drain: what follows depends on its health now, and on capacity now.
fn drained<'a>(found: &mut UnderWay<'a>, walk: &Walk<'a>, budget: &Budget, instance: &'a Instance) {
    // Drained before its wave, because its version was changed in rotation.
    if instance.wave.is_some_and(|wave| wave > walk.up_to) && !needs_no_wave(instance, walk) {
        let admitted = instance.runs_admitted(walk.service.window());
        return match admitted && instance.runs_healthily() {
            true => found.recall.push(Order::serve(instance)),
            false => found.outside.push(instance),
        };
    }
    let course = if instance.is_drained() { Course::Drained } else { Course::Draining };
    match course {
        Course::Drained if instance.maintained => found.recall.push(Order::serve(instance)),
        Course::Drained if mutant::is("drained-is-stopped-without-recheck") => {
            found.replace.push(Order::replace(instance, walk.target.clone()))
        }
        _ if instance.runs_healthily() => found.withdrawable.push((instance, course)),
        // One that has never served costs nothing when it is stopped.
        Course::Drained if budget.bears_unhealthy() || instance.has_never_served() => {
            found.replace.push(Order::replace(instance, walk.target.clone()))
        }
        Course::Drained => found.held.push(instance),
        _ => found.draining.push(&instance.node),
    }
}

/// Those that get no requests, through no order of ours: replacing them costs no budget.
fn already_out<'a>(walk: &Walk<'a>) -> impl Iterator<Item = &'a Instance> {
    let adrift = exposed(walk, Standing::Adrift);
    let held = walk.service.each_standing(Standing::Held, walk.up_to);
    adrift.chain(held).filter(|instance| (walk.may_begin)(instance)).take(super::super::draft::BATCH)
}

/// Those that stand so in the exposed waves, and those that need no wave.
fn exposed<'a>(walk: &Walk<'a>, standing: Standing) -> impl Iterator<Item = &'a Instance> {
    let (service, up_to) = (walk.service, walk.up_to);
    let is_exposed = move |instance: &Instance| {
        let wave = service.standing_of(&instance.node).map(|(_, wave)| wave);
        wave.is_none_or(|wave| wave <= up_to) || needs_no_wave(instance, walk)
    };
    service.each_standing(standing, u32::MAX).filter(move |instance| is_exposed(instance))
}

/// Instances in rotation that run the target version, are healthy, and whose agents still report an earlier failure. They are
/// ordered to serve instead of being drained, once: an instance that fails again waits for a person.
fn recovered<'a>(walk: &Walk<'a>) -> impl Iterator<Item = &'a Instance> {
    let target = Known::At(walk.target.version);
    let unhealthy = exposed(walk, Standing::Unhealthy).filter(|_| !mutant::is("recovered-ones-are-drained"));
    let is_told = |i: &Instance| {
        i.directive.as_ref().is_some_and(|d| d.disposition == Disposition::Serve { returning: true })
    };
    let failed =
        |i: &Instance| i.report.as_ref().is_some_and(|report| matches!(report.step, Step::Failed { .. }));
    unhealthy
        .filter(move |i| i.is_well() && i.known() == target && i.has_accepted() && failed(i) && !is_told(i))
}

/// Whether it is exposed to the target already, or comes into service by it alone. It takes of the budget while it is out:
/// if it waited for its wave, and that wave for the budget, neither would come.
fn needs_no_wave(instance: &Instance, walk: &Walk<'_>) -> bool {
    let is_former = |tag: &ReleaseTag| {
        walk.releases.iter().any(|release| release.tag == *tag && release.tag != walk.target.tag)
    };
    match instance.known() {
        Known::At(version) => version == walk.target.version,
        Known::Unknown => {
            let release = instance.report.as_ref().and_then(|report| report.release.as_ref());
            instance.has_never_served() || release.is_some_and(|tag| !is_former(tag))
        }
        Known::Silent => false,
    }
}

/// Whether it serves, healthy, at the target version, and only its rotation is not confirmed: a balancer that cannot be
/// asked is no reason to move it again.
fn has_arrived(instance: &Instance, walk: &Walk<'_>) -> bool {
    let unconfirmed =
        |report: &Report| report.health == Health::Healthy && report.rotation == Rotation::Returning;
    instance.report.as_ref().is_some_and(|report| unconfirmed(report))
        && instance.claims_to_serve()
        && instance.known() == Known::At(walk.target.version)
}

/// Takes from the unhealthy ones and then from the candidates what the budget allows; tells whether it held back all
/// that could go.
fn begin<'a>(
    walk: &Walk<'a>,
    budget: &mut Budget,
    label: Option<&str>,
    unhealthy: impl Iterator<Item = &'a Instance>,
    candidates: impl Iterator<Item = &'a Instance>,
) -> (Vec<Order<'a>>, bool) {
    const MOST: usize = super::super::draft::BATCH;
    // Each compares a report as well: so many leave room for the others in one transaction.
    const MOST_UNHEALTHY: usize = MOST / 3;
    let mut orders = Vec::new();
    let mut held = false;
    let unhealthy = unhealthy.filter(|i| !i.is_coming() && !has_arrived(i, walk));
    for instance in unhealthy.filter(|i| (walk.may_begin)(i)) {
        if orders.len() == MOST_UNHEALTHY || held && budget.is_spent_for_unhealthy() {
            break;
        }
        match budget.take_unhealthy(instance, label) {
            true => orders.push(Order::drain_unhealthy(instance)),
            false => held = true,
        }
    }
    for instance in candidates.filter(|i| i.is_in_service() && (walk.may_begin)(i)) {
        if orders.len() == MOST {
            break;
        }
        match budget.take(instance, label) {
            true => orders.push(Order::drain(instance)),
            false => held = true,
        }
        // A later one may be of the failure domain that is out already, as long as anybody may go at all.
        if held && budget.is_spent() {
            break;
        }
    }
    let held = held && orders.is_empty();
    (orders, held)
}

fn tell(draft: &mut Draft<'_>, found: &UnderWay<'_>) {
    let sample = |nodes: &[&NodeId]| Sample::of(nodes.iter().copied(), nodes.len());
    let (drain, healthy) = (draft.spec().drain.deadline, draft.spec().health.healthy_deadline);
    let service = draft.spec().service.clone();
    draft
        .wait_for_any(sample(&found.silent), |nodes| Reason::Version(VersionGate::Silent { service, nodes }));
    draft.wait_for_any(sample(&found.draining), |nodes| {
        Reason::Roll(RollGate::Draining { nodes, deadline: drain })
    });
    draft.wait_for_any(sample(&found.replacing), |nodes| {
        Reason::Roll(RollGate::Replacing { nodes, deadline: healthy })
    });
    let answering = draft
        .service()
        .into_iter()
        .flat_map(|service| found.replacing.iter().filter_map(|node| service.get(node)));
    draft.wait_for_unfit(Causes::counted(answering.filter(|instance| instance.tells_answers())));
    draft.wait_for_any(sample(&found.returning), |nodes| Reason::Roll(RollGate::Returning { nodes }));
    draft.wait_for_unfit(Causes::counted(found.broken.iter().copied()));
    if !found.held.is_empty() {
        draft.wait(Reason::Budget(BudgetGate::Held {
            nodes: Sample::counted(found.held.iter().map(|i| &i.node)),
        }));
    }
    if let Some(window) = draft.service().and_then(ServiceFleet::window).filter(|_| !found.outside.is_empty())
    {
        let (service, window) = (draft.spec().service.clone(), window.record.body.to_string());
        let nodes = Causes::counted(found.outside.iter().copied());
        draft.wait(Reason::Budget(BudgetGate::Outside { service, window, nodes }));
    }
    draft.wait_for_any(sample(&found.kept_out), |nodes| Reason::Roll(RollGate::Maintenance { nodes }));
    for (instance, why) in found.failed.iter().take(Sample::NAMED) {
        draft.wait(Reason::Roll(RollGate::Failed { node: instance.node.clone(), why: why.clone() }));
    }
}
