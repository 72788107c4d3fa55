//! How many instances may be taken out of rotation now: the guard of rule 4.
//!
//! # Invariants
//! * By what is observed, at least `min_in_service` healthy instances stay in rotation.
//! * At most `max_unavailable` are out, whoever took them out, broken, silent and maintained ones included.
//! * Where a failure domain is named, nothing is taken from a second one while something of a first is out. Who lacks
//!   the label may be in any of them: a domain of its own that conflicts with all, its like included.

use crate::fleet::{Instance, NO_DOMAIN, ServiceFleet};
use crate::reason::{Reason, Sample};
use tidegate_proto::mutant;
use tidegate_proto::spec::Spec;

/// What may still be taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    room: usize,
    domain: Option<String>,
    one_domain: bool,
    domains_out: usize,
    unlabelled_out: Sample,
    out: usize,
    max_unavailable: usize,
    in_service: usize,
    min_in_service: usize,
}

impl Budget {
    /// The budget of a service as it is observed.
    pub fn of(fleet: &ServiceFleet, spec: &Spec) -> Self {
        let whole = fleet.len();
        let max_unavailable = spec.max_unavailable.rounded_down(whole).max(1);
        let min_in_service = spec.min_in_service.rounded_up(whole);
        let (out, in_service) = (fleet.out(), fleet.in_service());
        let may_go = match mutant::is("min-in-service-is-ignored") {
            true => in_service,
            false => in_service.saturating_sub(min_in_service),
        };
        let may_be_out = match mutant::is("max-unavailable-is-ignored") {
            true => whole,
            false => max_unavailable.saturating_sub(out),
        };
        let room = may_be_out.min(may_go);
        let unlabelled_out = match mutant::is("an-unlabelled-one-is-in-no-domain") {
            true => Sample::default(),
            false => fleet.unlabelled_out().sample(),
        };
        let mut domains = fleet.domains_out().filter(|domain| *domain != NO_DOMAIN);
        let domain = domains.next().map(str::to_owned);
        let domains_out = usize::from(domain.is_some()) + domains.count() + unlabelled_out.count;
        let one_domain = spec.failure_domain.is_some();
        let closed = one_domain && (domains_out > 1 || !unlabelled_out.is_empty());
        Self {
            room: if closed { 0 } else { room },
            domain,
            one_domain,
            domains_out: if one_domain { domains_out } else { 0 },
            unlabelled_out,
            out,
            max_unavailable,
            in_service,
            min_in_service,
        }
    }

    /// Whether it allows nobody any more, of whatever domain.
    pub fn is_spent(&self) -> bool {
        self.room == 0
    }

    /// Takes one instance out of the budget; false where it does not allow that.
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
        true
    }

    /// Whether more is out already than the spec leaves: then what is drained and not stopped goes back.
    pub fn is_short(&self) -> bool {
        self.in_service < self.min_in_service || self.out > self.max_unavailable || self.domains_out > 1
    }

    /// How many may be under way at once.
    pub fn max_unavailable(&self) -> usize {
        self.max_unavailable
    }

    /// Why it allows no more.
    pub fn reason(&self) -> Reason {
        if self.in_service <= self.min_in_service {
            return Reason::Capacity { in_service: self.in_service, required: self.min_in_service };
        }
        if self.out >= self.max_unavailable || self.room == 0 && !self.one_domain {
            return Reason::Unavailable { out: self.out, allowed: self.max_unavailable };
        }
        match &self.unlabelled_out {
            nodes if nodes.is_empty() => Reason::Domain { out: self.domain.clone().unwrap_or_default() },
            nodes => Reason::Unlabelled { nodes: nodes.clone() },
        }
    }
}
