//! What is found of the instances that an order has taken out, what follows for each, and what is waited for.

use super::{Moving, needs_no_wave};
use crate::fleet::{Exposure, Instance, Known, ServiceFleet};
use crate::gate::capacity::Budget;
use crate::gate::roll::unfit;
use crate::gate::{Answer, BudgetGate, Causes, Reason, RollGate, Sample, VersionGate};
use crate::plan::Draft;
use crate::plan::order::Order;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Step;
use tidegate_proto::{NodeId, mutant};

/// What was found of the instances that are under way.
#[derive(Default)]
pub(in crate::plan) struct UnderWay<'a> {
    draining: Vec<&'a NodeId>,
    replacing: Vec<&'a NodeId>,
    returning: Vec<&'a NodeId>,
    broken: Vec<&'a Instance>,
    pub(super) silent: Vec<&'a NodeId>,
    /// A person keeps them out, or holds them where they are.
    in_maintenance: Vec<&'a NodeId>,
    /// Drained, and not to be stopped now.
    pub(super) held: Vec<&'a Instance>,
    /// Drained before their wave, because their version was changed in rotation.
    outside: Vec<&'a Instance>,
    /// Unhealthy, and possibly in rotation under an order of another release: drained first, like the others.
    pub(super) unhealthy: Vec<&'a Instance>,
    /// Those that failed under their directive, with why.
    pub(in crate::plan) failed: Vec<(&'a Instance, String)>,
    /// Healthy and not stopped: their orders are withdrawn as far as capacity lacks them.
    withdrawable: Vec<(&'a Instance, Course)>,
    pub(super) replace: Vec<Order<'a>>,
    pub(super) recall: Vec<Order<'a>>,
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
    pub(super) fn moving(&self) -> usize {
        self.going() + self.held.len()
    }

    /// The same without those that are held: they wait, and nothing that costs no budget waits for them.
    pub(super) fn going(&self) -> usize {
        self.draining.len()
            + self.replacing.len()
            + self.returning.len()
            + self.replace.len()
            + self.recall.len()
    }

    /// Whether an instance is on its way, and not by a person's leave.
    pub(in crate::plan) fn is_any(&self) -> bool {
        self.any_silent() || self.any_reporting()
    }

    pub(in crate::plan) fn any_silent(&self) -> bool {
        !self.silent.is_empty()
    }

    pub(in crate::plan) fn any_reporting(&self) -> bool {
        !(self.draining.is_empty()
            && self.replacing.is_empty()
            && self.returning.is_empty()
            && self.held.is_empty()
            && self.outside.is_empty()
            && self.broken.is_empty())
    }

    /// Decides about those that are healthy and not stopped: as many as capacity lacks go back, and none is stopped
    /// while it lacks any.
    fn settle(&mut self, moving: &Moving<'a>, budget: &Budget) {
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
                Course::Drained => self.replace.push(Order::replace(instance, moving.target.clone())),
                Course::Replacing => self.replacing.push(&instance.node),
            }
        }
        self.release_one(moving, budget);
    }

    /// Instances of several failure domains that are drained and unhealthy hold each other, and nothing else ends that.
    /// They are out already, so the first is replaced without taking anything out; the others wait for it.
    fn release_one(&mut self, moving: &Moving<'a>, budget: &Budget) {
        let failed = self.failed.iter().filter(|(instance, _)| instance.exposure() == Exposure::Away).count();
        let waits = self.going() > 0 || moving.service.away() > self.held.len() + failed;
        if waits || !budget.bears_unhealthy_in_any_domain() || mutant::is("held-ones-wait-for-each-other") {
            return;
        }
        if let Some(first) = self.held.iter().position(|instance| !instance.runs_healthily()) {
            let first = self.held.remove(first);
            self.replace.push(Order::replace(first, moving.target.clone()));
        }
    }
}

pub(super) fn under_way<'a>(moving: &Moving<'a>, budget: &Budget) -> UnderWay<'a> {
    let mut found = UnderWay::default();
    for instance in moving.service.ordered().each {
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
            Disposition::Replace { release } if *release == moving.target => match failed {
                // Its version was changed in rotation: drained first, like the others.
                _ if instance.has_changed_in_rotation()
                    && !instance.is_in_maintenance()
                    && is_elsewhere(instance, moving) =>
                {
                    found.unhealthy.push(instance)
                }
                Some(_) => {}
                None if instance.is_in_maintenance() => found.in_maintenance.push(node),
                None if is_former(instance, moving) => found.withdrawable.push((instance, Course::Replacing)),
                None if instance.claims_to_serve() => found.broken.push(instance),
                None => found.replacing.push(node),
            },
            Disposition::Drain if failed.is_some() && (moving.has_failed)(instance) => {
                found.recall.push(Order::serve(instance))
            }
            Disposition::Drain if failed.is_some() => {}
            Disposition::Drain => drained(&mut found, moving, budget, instance),
            Disposition::Replace { .. } | Disposition::Stop if instance.maintained => {
                found.in_maintenance.push(node)
            }
            Disposition::Replace { .. } if instance.exposure() != Exposure::Away => {
                found.unhealthy.push(instance)
            }
            Disposition::Replace { .. } | Disposition::Stop => {
                found.replace.push(Order::replace_what_is_out(instance, moving.target.clone()))
            }
            Disposition::Serve { .. } => found.returning.push(node),
        }
    }
    found.settle(moving, budget);
    found
}

/// Whether it is seen at another version than the one that it was ordered to serve with, or refused as one.
fn is_elsewhere(instance: &Instance, moving: &Moving<'_>) -> bool {
    let refused = instance.report.as_ref().is_some_and(|report| matches!(report.step, Step::Refused { .. }));
    refused || matches!(instance.known(), Known::At(version) if version != moving.target.version)
}

/// Whether it runs, healthy, and is seen at another version than the one that it was ordered to serve with.
fn is_former(instance: &Instance, moving: &Moving<'_>) -> bool {
    let known = instance.known();
    instance.runs_healthily() && matches!(known, Known::At(version) if version != moving.target.version)
}

/// One that is ordered to drain: what follows depends on its health now, and on capacity now.
fn drained<'a>(found: &mut UnderWay<'a>, moving: &Moving<'a>, budget: &Budget, instance: &'a Instance) {
    // Drained before its wave, because its version was changed in rotation.
    if instance.wave.is_some_and(|wave| wave > moving.up_to) && !needs_no_wave(instance, moving) {
        let admitted = instance.runs_admitted(moving.service.window());
        return match admitted && instance.runs_healthily() {
            true => found.recall.push(Order::serve(instance)),
            false => found.outside.push(instance),
        };
    }
    let course = if instance.is_drained() { Course::Drained } else { Course::Draining };
    match course {
        Course::Drained if instance.maintained => found.recall.push(Order::serve(instance)),
        Course::Drained if mutant::is("drained-is-stopped-without-recheck") => {
            found.replace.push(Order::replace(instance, moving.target.clone()))
        }
        _ if instance.runs_healthily() => found.withdrawable.push((instance, course)),
        // One that has never served costs nothing when it is stopped.
        Course::Drained if budget.bears_unhealthy() || instance.has_never_served() => {
            found.replace.push(Order::replace(instance, moving.target.clone()))
        }
        Course::Drained => found.held.push(instance),
        _ => found.draining.push(&instance.node),
    }
}

pub(super) fn tell(draft: &mut Draft<'_>, found: &UnderWay<'_>) {
    let sample = |nodes: &[&NodeId]| Sample::of(nodes.iter().copied(), nodes.len());
    let (drain, healthy) = (draft.spec().drain.deadline, draft.spec().health.healthy_deadline);
    let service = draft.spec().service.clone();
    let mut waits = Answer::of_any(sample(&found.silent), |nodes| VersionGate::Silent { service, nodes });
    waits.and(Answer::of_any(sample(&found.draining), |nodes| RollGate::Draining { nodes, deadline: drain }));
    waits.and(Answer::of_any(sample(&found.replacing), |nodes| RollGate::Replacing {
        nodes,
        deadline: healthy,
    }));
    let answering = draft
        .service()
        .into_iter()
        .flat_map(|service| found.replacing.iter().filter_map(|node| service.get(node)));
    waits.and(unfit(Causes::counted(answering.filter(|instance| instance.tells_answers()))));
    waits.and(Answer::of_any(sample(&found.returning), |nodes| RollGate::Returning { nodes }));
    waits.and(unfit(Causes::counted(found.broken.iter().copied())));
    draft.passes(waits);
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
    draft.passes(Answer::of_any(sample(&found.in_maintenance), |nodes| RollGate::Maintenance { nodes }));
    for (instance, why) in found.failed.iter().take(Sample::NAMED) {
        draft.wait(Reason::Roll(RollGate::Failed { node: instance.node.clone(), why: why.clone() }));
    }
}
