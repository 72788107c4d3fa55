//! The one capacity rule (rule 4): how many instances may be taken out of rotation now, by any cause.
//!
//! # Invariants
//! * By what is observed, at least `min_in_service` healthy instances stay in rotation.
//! * At most `max_unavailable` are out, by any cause; those that are unhealthy, silent or in maintenance included.
//! * Where a failure domain is named, nothing is taken from a second one while something of a first is out. Who lacks
//!   the label may be in any of them: a domain of its own that conflicts with all, its like included.
//! * An instance that gets no requests costs nothing. One that may get requests and is unhealthy is judged as if every
//!   unhealthy one in rotation became healthy at once: orders then still leave `min_in_service`, and no more than
//!   `max_unavailable` of one domain get no requests. So a hiccup of all takes no more out than a roll would, and a
//!   fleet that is unhealthy for good still moves, one after the other.
//! * One whose health URL answers 200, and whose rotation no balancer confirms, is judged by the others that answer 200:
//!   another one that may be in rotation again at once does not answer for it. So is one that is shown to be verified and
//!   did not answer 200 in its last look: one that flaps serves most of the time.
//! * One that is healthy and is not seen in rotation is not taken out where its order would be withdrawn at once: its agent
//!   may have carried out the order by then. That holds also where its health URL did not answer 200 in the last look, and
//!   for one that serves and whose agent was started again and has not judged its health yet.
//! * One that is healthy in rotation, and not in service because of the version that it runs, answers requests as well as
//!   any: of those that do, too, `min_in_service` stay and no more than `max_unavailable` are missing.

use super::BudgetGate;
use crate::fleet::{Causes, Exposure, Instance, NO_DOMAIN, Sample, ServiceFleet};
use crate::gate::Reason;
use tidegate_proto::record::report::Rotation;
use tidegate_proto::spec::Spec;
use tidegate_proto::{Amount, mutant};

/// What may still be taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    room: usize,
    domain: Option<String>,
    one_domain: bool,
    domains_unwell: usize,
    unlabelled_out: Sample,
    out: Causes,
    max_unavailable: usize,
    in_service: usize,
    min_in_service: usize,
    /// How many are healthy in rotation, whatever version they run, and how many there are.
    well: usize,
    whole: usize,
    reachable: Reachable,
}

/// Whom requests can reach, healthy or not: what unhealthy instances are judged by.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reachable {
    /// In rotation.
    inside: usize,
    /// The same, and those that answer 200 and whose rotation no balancer confirms.
    answering: usize,
    /// In rotation, or neither in nor out by evidence.
    possibly: usize,
    /// None of these.
    away: usize,
    /// The failure domain of those that are away.
    domain: Option<String>,
    /// How many domains that is; more than one closes.
    domains: usize,
    /// Capacity held for longer than the progress deadline of a rollback: failure domains hold, and one goes at a time.
    overdue: bool,
}

impl Budget {
    /// The budget of a service as it is observed.
    pub fn of(fleet: &ServiceFleet, spec: &Spec) -> Self {
        Self::within(fleet, spec.min_in_service, spec.max_unavailable, spec.failure_domain.is_some())
    }

    /// The same with these limits. `one_domain`: nothing is taken from a second failure domain, by the label that the
    /// active upgrade names.
    pub fn within(
        fleet: &ServiceFleet,
        min_in_service: Amount,
        max_unavailable: Amount,
        one_domain: bool,
    ) -> Self {
        let whole = fleet.len();
        let max_unavailable = max_unavailable.rounded_down(whole).max(1);
        let min_in_service = min_in_service.rounded_up(whole);
        let (out, in_service) = (Causes::of(fleet.out()), fleet.in_service());
        let may_go = match mutant::is("min-in-service-is-ignored") {
            true => in_service,
            false => in_service.saturating_sub(min_in_service),
        };
        let may_be_out = match mutant::is("max-unavailable-is-ignored") {
            true => whole,
            false => max_unavailable.saturating_sub(out.count),
        };
        let room = may_be_out.min(may_go);
        let unlabelled_out = match mutant::is("an-unlabelled-one-is-in-no-domain") {
            true => Sample::default(),
            false => fleet.unlabelled_out().sample(),
        };
        let mut domains = fleet.domains_out().filter(|domain| *domain != NO_DOMAIN);
        let domain = domains.next().map(str::to_owned);
        let domains_out = usize::from(domain.is_some()) + domains.count() + unlabelled_out.count;
        let closed = one_domain && (domains_out > 1 || !unlabelled_out.is_empty());
        Self {
            room: if closed { 0 } else { room },
            domain,
            one_domain,
            domains_unwell: if one_domain { fleet.domains_unwell() } else { 0 },
            unlabelled_out,
            out,
            max_unavailable,
            in_service,
            min_in_service,
            well: fleet.well(),
            whole,
            reachable: Reachable::of(fleet, one_domain),
        }
    }

    /// Whether no further instance may be taken out, of whatever domain.
    pub fn is_spent(&self) -> bool {
        self.room == 0
    }

    /// Takes one healthy instance out of the budget; false where it does not allow that.
    pub fn take(&mut self, instance: &Instance, label: Option<&str>) -> bool {
        if self.room == 0 {
            return false;
        }
        if self.one_domain {
            let domain = label.and_then(|label| instance.label(label)).unwrap_or(NO_DOMAIN);
            match &self.domain {
                Some(out) if out != domain && !mutant::is("a-second-domain-is-taken") => return false,
                Some(_) => {}
                None => self.domain = Some(domain.to_owned()),
            }
            if domain == NO_DOMAIN {
                self.room = 1;
            }
        }
        self.room -= 1;
        self.well = self.well.saturating_sub(1);
        true
    }

    /// Takes one out of the budget that may get requests and is not in service; false where it does not allow that.
    pub fn take_unhealthy(&mut self, instance: &Instance, label: Option<&str>) -> bool {
        let exposure = instance.exposure();
        if !self.may_take_unhealthy(exposure)
            || instance.is_well() && !self.may_take_well()
            || instance.may_answer_200() && !self.may_take_returning(instance)
            || matches!(exposure, Exposure::In | Exposure::Possible)
                && !instance.is_well()
                && self.would_be_withdrawn(instance)
        {
            return false;
        }
        let domain = label.and_then(|label| instance.label(label)).unwrap_or(NO_DOMAIN);
        let fits = match &self.reachable.domain {
            Some(away) => away == domain && domain != NO_DOMAIN,
            None => true,
        };
        if self.one_domain && !fits {
            return false;
        }
        self.well = self.well.saturating_sub(usize::from(instance.is_well()));
        let reachable = &mut self.reachable;
        reachable.domain = Some(domain.to_owned());
        reachable.inside -= usize::from(exposure == Exposure::In);
        reachable.answering -= usize::from(matches!(exposure, Exposure::In | Exposure::Unconfirmed));
        let counted = usize::from(exposure != Exposure::Between);
        (reachable.possibly, reachable.away) = (reachable.possibly - counted, reachable.away + counted);
        reachable.overdue = false;
        true
    }

    /// Whether it allows no unhealthy one any more, of whatever domain.
    pub fn is_spent_for_unhealthy(&self) -> bool {
        let each = [Exposure::In, Exposure::Unconfirmed, Exposure::Possible, Exposure::Between];
        !each.into_iter().any(|exposure| self.may_take_unhealthy(exposure))
    }

    fn may_take_well(&self) -> bool {
        let missing = self.whole - self.well;
        self.reachable.overdue || self.well > self.min_in_service && missing < self.max_unavailable
    }

    /// Of one whose health URL answers 200, or may at once, and that is not confirmed to be in rotation: balancers may send it
    /// requests.
    fn may_take_returning(&self, instance: &Instance) -> bool {
        if mutant::is("returning-is-not-in-rotation") {
            return true;
        }
        let itself = usize::from(instance.exposure() == Exposure::Unconfirmed);
        let others = self.reachable.answering.saturating_sub(itself);
        (others >= self.min_in_service || self.reachable.overdue) && !self.would_be_withdrawn(instance)
    }

    /// Whether an order that takes it out would be withdrawn in the next turn: it is healthy, or may be, and capacity lacks it.
    fn would_be_withdrawn(&self, instance: &Instance) -> bool {
        instance.may_be_healthy() && self.lacks() > 0
    }

    fn may_take_unhealthy(&self, exposure: Exposure) -> bool {
        let reachable = &self.reachable;
        let (there, cost) = match exposure {
            Exposure::In => (reachable.inside, 1),
            Exposure::Unconfirmed | Exposure::Possible => (reachable.possibly, 1),
            Exposure::Between => (reachable.possibly, 0),
            Exposure::Away => return false,
        };
        let holds = there >= self.min_in_service + cost && reachable.away + cost <= self.max_unavailable;
        (holds || reachable.overdue) && !self.is_closed_by_domains()
    }

    /// Whether something of more than one failure domain gets no requests.
    fn is_closed_by_domains(&self) -> bool {
        self.one_domain && self.reachable.domains > 1
    }

    /// Whether capacity has held unhealthy ones for too long: then one goes, and is stopped, all the same.
    pub fn set_overdue(&mut self, overdue: bool) {
        self.reachable.overdue = overdue;
    }

    /// Whether an instance that is drained and still unhealthy may be stopped.
    pub fn bears_unhealthy(&self) -> bool {
        self.bears_unhealthy_in_any_domain() && !self.is_closed_by_domains()
    }

    /// Whether one that is in rotation by its report, and counts as out, may be taken out once more.
    fn bears_one_in_rotation(&self) -> bool {
        self.reachable.inside >= self.min_in_service && self.bears_unhealthy()
    }

    /// The same, whatever failure domains are out.
    pub fn bears_unhealthy_in_any_domain(&self) -> bool {
        let reachable = &self.reachable;
        let holds = reachable.possibly >= self.min_in_service && reachable.away <= self.max_unavailable;
        holds || reachable.overdue
    }

    /// How many more instances do not answer well than the spec allows: so many that are not stopped yet go back. Those
    /// that are returning count as out until they are back. In an overdue rollback none goes back: it would be taken out again,
    /// without an end. Failure domains hold all the same.
    pub fn lacks(&self) -> usize {
        if self.reachable.overdue && !self.is_closed_by_domains() {
            return 0;
        }
        if self.domains_unwell > 1 {
            return usize::MAX;
        }
        let few = self.min_in_service.saturating_sub(self.well);
        few.max((self.whole - self.well).saturating_sub(self.max_unavailable))
    }

    /// How many may be under way at once.
    pub fn max_unavailable(&self) -> usize {
        self.max_unavailable
    }

    /// Why it allows no more.
    pub fn reason(&self) -> Reason {
        let out = self.out.clone();
        if self.in_service <= self.min_in_service {
            return Reason::Budget(BudgetGate::Capacity {
                in_service: self.in_service,
                required: self.min_in_service,
                out,
            });
        }
        if out.count >= self.max_unavailable || self.room == 0 && !self.one_domain {
            return Reason::Budget(BudgetGate::Unavailable { allowed: self.max_unavailable, out });
        }
        match &self.unlabelled_out {
            nodes if nodes.is_empty() => {
                Reason::Budget(BudgetGate::Domain { domain: self.domain.clone().unwrap_or_default(), out })
            }
            nodes => Reason::Budget(BudgetGate::Unlabelled { nodes: nodes.clone() }),
        }
    }
}

/// Whether its agent says that a disable-file keeps requests away.
pub fn is_hidden(instance: &Instance) -> bool {
    instance.report.as_ref().is_some_and(|report| {
        matches!(report.rotation, Rotation::Out | Rotation::Leaving | Rotation::Maintenance)
    })
}

/// Whether an order that takes out once more what counts as out already must presume that it is: requests may reach it at
/// any moment, and too few others are in rotation. If it is healthy, or may be, as one that is not heard, it is judged by
/// those that are healthy; otherwise as if every unhealthy instance in rotation became healthy at once. One that is in
/// rotation by its report answers 200: others that may be in rotation again at once do not answer for it.
pub fn must_presume_out(service: &ServiceFleet, spec: &Spec, instance: &Instance) -> bool {
    if is_hidden(instance) {
        return false;
    }
    let room = Budget::of(service, spec);
    let is_in = instance.report.as_ref().is_some_and(|report| report.rotation == Rotation::In);
    match () {
        () if instance.may_be_healthy() || instance.is_unheard() => room.lacks() > 0,
        () if is_in => !room.bears_one_in_rotation(),
        () => !room.bears_unhealthy(),
    }
}

impl Reachable {
    fn of(fleet: &ServiceFleet, one_domain: bool) -> Self {
        let away = fleet.away();
        let domain = fleet.domains_away().next().map(str::to_owned);
        Self {
            inside: fleet.in_rotation(),
            answering: fleet.answering(),
            possibly: fleet.len() - away,
            away,
            domains: fleet.count_of_domains_away(),
            domain: domain.filter(|_| one_domain),
            overdue: false,
        }
    }
}
