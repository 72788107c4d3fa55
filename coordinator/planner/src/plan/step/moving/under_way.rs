//! What is found of the instances that an order has taken out, and what follows for each.

use super::{Moving, needs_no_wave};
use crate::fleet::{Exposure, Instance, Known};
use crate::gate::budget::capacity::{Budget, is_hidden};
use crate::gate::roll::moving::TakenOut;
use crate::plan::order::Order;
use tidegate_proto::mutant;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Step;

/// What was found of the instances that are under way.
#[derive(Default)]
pub(in crate::plan) struct UnderWay<'a> {
    /// What each that is out waits for.
    pub(in crate::plan) out: TakenOut<'a>,
    /// Unhealthy, and possibly in rotation under an order of another release: drained first, like the others.
    pub(super) unhealthy: Vec<&'a Instance>,
    /// Healthy, not stopped, and shown again by an order to serve: their orders are withdrawn as far as capacity lacks them.
    withdrawable: Vec<(&'a Instance, Course)>,
    pub(super) replace: Vec<Order<'a>>,
    pub(super) recall: Vec<Order<'a>>,
    /// Whether capacity lacks some of those that are let back.
    pub(super) capacity_lacks: bool,
    /// Whether capacity alone holds others that could go.
    pub(in crate::plan) capacity_holds: bool,
    /// Whether one could be started with, or replaced, and waits for a look at the database.
    pub(in crate::plan) awaits_look: bool,
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
        self.going() + self.out.held.len()
    }

    /// The same without those that are held: they wait, and nothing that costs no budget waits for them.
    pub(super) fn going(&self) -> usize {
        self.out.draining.len()
            + self.out.replacing.len()
            + self.out.returning.len()
            + self.replace.len()
            + self.recall.len()
    }

    /// Whether an instance is on its way, and not by a person's leave.
    pub(in crate::plan) fn is_any(&self) -> bool {
        self.out.any_silent() || self.out.any_reporting()
    }

    /// Decides about those that are healthy and not stopped: as many as capacity lacks go back, and none is stopped
    /// while it lacks any.
    fn settle(&mut self, moving: &Moving<'a>, budget: &Budget) {
        let lacks = match mutant::is("recovered-is-not-recalled") {
            true => 0,
            false => budget.lacks(),
        };
        let mut back = lacks.saturating_sub(self.out.returning.len() + self.recall.len());
        for (instance, course) in std::mem::take(&mut self.withdrawable) {
            match course {
                _ if back > 0 => {
                    back -= 1;
                    self.capacity_lacks = true;
                    self.recall.push(Order::serve(instance));
                }
                Course::Draining => self.out.draining.push(&instance.node),
                Course::Drained if lacks > 0 => self.out.held.push(instance),
                Course::Drained => self.replace.push(Order::replace(instance, moving.target.clone())),
                Course::Replacing => self.out.replacing.push(&instance.node),
            }
        }
        self.release_one(moving, budget);
    }

    /// Instances of several failure domains that are drained and unhealthy hold each other, and nothing else ends that.
    /// They are out already, so the first is replaced without taking anything out; the others wait for it.
    fn release_one(&mut self, moving: &Moving<'a>, budget: &Budget) {
        let failed =
            self.out.failed.iter().filter(|(instance, _)| instance.exposure() == Exposure::Away).count();
        let waits = self.going() > 0 || moving.service.away() > self.out.held.len() + failed;
        if waits || !budget.bears_unhealthy_in_any_domain() || mutant::is("held-ones-wait-for-each-other") {
            return;
        }
        if let Some(first) = self.out.held.iter().position(|instance| !instance.runs_healthily()) {
            let first = self.out.held.remove(first);
            self.replace.push(Order::replace_as_reported(first, moving.target.clone()));
        }
    }
}

pub(super) fn under_way<'a>(moving: &Moving<'a>, budget: &Budget) -> UnderWay<'a> {
    let mut found = UnderWay::default();
    for instance in moving.service.ordered().each {
        let Some(directive) = &instance.directive else { continue };
        let failed = instance.failure();
        let has_changed = has_changed(instance, &directive.disposition, moving);
        // What runs there is not what was ordered: no failure of that. It is moved again as soon as the budget allows it.
        let is_moved_again = has_changed && !(moving.has_failed)(instance);
        if let Some(why) = failed.as_ref().filter(|_| !is_moved_again) {
            found.out.failed.push((instance, why.clone()));
        }
        let node = &instance.node;
        // Whether an order was carried out, and whether it serves, is not known.
        if instance.is_unheard() {
            found.out.silent.push(node);
            continue;
        }
        match &directive.disposition {
            // Drained first, like the others.
            Disposition::Replace { .. } if has_changed => found.unhealthy.push(instance),
            Disposition::Replace { release } if *release == moving.target => match failed {
                Some(_) => {}
                None if instance.is_in_maintenance() => found.out.in_maintenance.push(node),
                None if is_former(instance, moving) => found.withdrawable.push((instance, Course::Replacing)),
                None if instance.claims_to_serve() => found.out.broken.push(instance),
                None => found.out.replacing.push(node),
            },
            Disposition::Drain if failed.is_some() && (moving.has_failed)(instance) => {
                found.recall.push(Order::serve(instance))
            }
            Disposition::Drain if failed.is_some() => {}
            Disposition::Drain => drained(&mut found, moving, budget, instance),
            Disposition::Replace { .. } | Disposition::Stop if instance.cordoned => {
                found.out.in_maintenance.push(node)
            }
            Disposition::Replace { .. } if instance.exposure() != Exposure::Away => {
                found.unhealthy.push(instance)
            }
            Disposition::Replace { .. } | Disposition::Stop => {
                found.replace.push(Order::replace_what_is_out(instance, moving.target.clone()))
            }
            Disposition::Serve { .. } => found.out.returning.push(node),
        }
    }
    found.settle(moving, budget);
    found
}

/// Whether it was replaced as ordered, and its version was changed in rotation since.
fn has_changed(instance: &Instance, disposition: &Disposition, moving: &Moving<'_>) -> bool {
    matches!(disposition, Disposition::Replace { release } if *release == moving.target)
        && instance.has_changed_in_rotation()
        && !instance.is_in_maintenance()
        && is_elsewhere(instance, moving)
}

/// Whether it is seen at another version than the one that it was ordered to serve with, or refused as one.
fn is_elsewhere(instance: &Instance, moving: &Moving<'_>) -> bool {
    let refused = instance.report.as_ref().is_some_and(|report| matches!(report.step, Step::Refused { .. }));
    refused || matches!(instance.known(), Known::At(version) if version != moving.target.version)
}

/// Whether it runs, healthy, and is seen at another version than the one that it was ordered to serve with. What was started
/// for that order, and answers another version, is no former one to go back to.
fn is_former(instance: &Instance, moving: &Moving<'_>) -> bool {
    let known = instance.known();
    may_go_back(instance, moving)
        && matches!(known, Known::At(version) if version != moving.target.version)
        && !instance.names_release(&moving.target.tag)
}

/// Whether it runs, healthy, and an order to serve brings it back into rotation.
fn may_go_back(instance: &Instance, moving: &Moving<'_>) -> bool {
    instance.runs_healthily() && !stays_hidden(instance, moving)
}

/// Whether it is hidden and runs a version that the window does not admit: its agent does not show that, also under an order
/// to serve.
fn stays_hidden(instance: &Instance, moving: &Moving<'_>) -> bool {
    is_hidden(instance) && instance.runs_outside(moving.service.window())
}

/// One that is ordered to drain: what follows depends on its health now, and on capacity now.
fn drained<'a>(found: &mut UnderWay<'a>, moving: &Moving<'a>, budget: &Budget, instance: &'a Instance) {
    if instance.wave.is_some_and(|wave| wave > moving.up_to) && !needs_no_wave(instance, moving) {
        return drained_early(found, moving, instance);
    }
    let course = if instance.is_drained() { Course::Drained } else { Course::Draining };
    // When it is stopped.
    let costs_nothing = instance.has_never_served() || stays_hidden(instance, moving);
    match course {
        Course::Drained if instance.cordoned => found.recall.push(Order::serve(instance)),
        Course::Drained if mutant::is("drained-is-stopped-without-recheck") => {
            found.replace.push(Order::replace(instance, moving.target.clone()))
        }
        _ if may_go_back(instance, moving) => found.withdrawable.push((instance, course)),
        Course::Drained if budget.bears_unhealthy() || costs_nothing => {
            found.replace.push(Order::replace_as_reported(instance, moving.target.clone()))
        }
        Course::Drained => found.out.held.push(instance),
        _ => found.out.draining.push(&instance.node),
    }
}

/// One that is drained before its wave, because its version was changed in rotation. It goes back once the window admits what
/// runs, unless that is known to be unhealthy. It also goes back where nothing answers: its agent starts nothing while the
/// directive says drain, and afterwards only what is admitted.
fn drained_early<'a>(found: &mut UnderWay<'a>, moving: &Moving<'a>, instance: &'a Instance) {
    let is_admitted = instance.runs_admitted(moving.service.window());
    let (is_drained, answers_nothing) = (instance.is_drained(), instance.answers_nothing());
    let goes_back = match is_admitted {
        true => instance.runs_healthily() || is_drained && instance.is_unjudged(),
        false => is_drained && answers_nothing && !instance.is_in_maintenance(),
    };
    if goes_back {
        found.recall.push(Order::serve(instance));
    } else if instance.is_in_maintenance() {
        found.out.in_maintenance.push(&instance.node);
    } else if !is_drained && (is_admitted || answers_nothing) {
        found.out.draining.push(&instance.node);
    } else if is_admitted {
        found.out.broken.push(instance);
    } else {
        found.out.outside.push(instance);
    }
}
