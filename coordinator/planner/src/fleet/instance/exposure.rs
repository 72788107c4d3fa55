//! Whether requests can reach an instance, and whether an order takes it out: what capacity is counted by.

use super::Instance;
use crate::fleet::Stored;
use crate::spread::Known;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Report, Rotation, Step};
use tidegate_proto::{Release, mutant};

/// Whether requests can reach an instance, whatever its health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exposure {
    /// In rotation.
    In,
    /// It was in rotation, its health URL answers 200, and no balancer confirms that it is in again.
    Unconfirmed,
    /// Neither in nor out by evidence: its health URL gives no clear answer, so that it may be in again at once.
    Possible,
    /// On its way in or out by its agent's own decision, with requests or without.
    Between,
    /// Out by evidence, by a person or by an order; silent, or with a directive that cannot be read.
    Away,
}

impl Exposure {
    /// Whether it is not counted among those that requests can reach.
    pub(crate) fn is_away(self) -> bool {
        matches!(self, Self::Between | Self::Away)
    }
}

impl Instance {
    /// Whether, by what is observed, balancers send it requests that it can serve, and no order to take it out is
    /// under way: it is out from the commit of its directive until a report of that generation or later shows it
    /// back.
    pub fn is_in_service(&self) -> bool {
        let Some(report) = &self.report else { return false };
        let good = report.health == Health::Healthy
            && report.rotation == Rotation::In
            && report.step == Step::Serving;
        good && matches!(self.known(), Known::At(_)) && !self.cordoned && !self.is_ordered_out()
    }

    /// Whether requests can reach it. An instance that an order takes out is away from the commit of its directive. One whose
    /// directive cannot be read is away too: its agent obeys the restored record as a new order, which may take it out.
    pub fn exposure(&self) -> Exposure {
        let Some(report) = self.report.as_ref().filter(|_| !self.contradicts) else { return Exposure::Away };
        match report.rotation {
            _ if self.cordoned || self.is_ordered_out() || !self.can_be_ordered() => Exposure::Away,
            Rotation::In => Exposure::In,
            Rotation::Out | Rotation::Maintenance => Exposure::Away,
            Rotation::Returning if report.step == Step::Serving => Exposure::Unconfirmed,
            Rotation::Leaving | Rotation::Returning => Exposure::Between,
            // It is not back yet: its agent looks whether it comes in, until the deadline of its order.
            Rotation::Unknown if report.step == Step::Verifying && self.directive.is_some() => {
                Exposure::Between
            }
            Rotation::Unknown => Exposure::Possible,
        }
    }

    /// Whether it answers requests well as far as is seen, whatever version it runs: to take it out costs what it costs to
    /// take one out that is in service.
    pub fn is_well(&self) -> bool {
        let healthy = self.report.as_ref().is_some_and(|report| report.health == Health::Healthy);
        healthy && self.exposure() == Exposure::In
    }

    /// Whether it is healthy, or serves and may be: its agent was started again and has not judged its health yet.
    pub fn may_be_healthy(&self) -> bool {
        self.report.as_ref().is_some_and(|report| match report.health {
            Health::Healthy => true,
            Health::Unknown => report.step == Step::Serving,
            Health::Unhealthy => false,
        })
    }

    /// Whether no order takes it out, it is shown and not confirmed to be in rotation, and its health URL answers 200 or, while
    /// it is verified, may do so at once: balancers send it requests, or are about to.
    pub fn may_answer_200(&self) -> bool {
        let is_shown =
            |report: &Stored<Report>| matches!(report.rotation, Rotation::Returning | Rotation::Unknown);
        matches!(self.exposure(), Exposure::Unconfirmed | Exposure::Between)
            && self.report.as_ref().is_some_and(is_shown)
    }

    fn is_ordered_out(&self) -> bool {
        let Some(directive) = self.directive.as_ref().filter(|_| !self.has_declined()) else { return false };
        let obeyed = self.has_accepted();
        match &directive.disposition {
            Disposition::Drain | Disposition::Stop => true,
            Disposition::Replace { release } => !(obeyed && self.has_come_to(release)),
            Disposition::Serve { returning } => *returning && !obeyed,
        }
    }

    /// Whether it was replaced, as far as is seen. Where it ran that version before, its agent may have begun to take it out
    /// to start it again: then it is not back yet.
    fn has_come_to(&self, release: &Release) -> bool {
        let is_leaving = self.report.as_ref().is_some_and(|report| {
            matches!(report.step, Step::Draining | Step::Drained { .. } | Step::Replacing)
        });
        !is_leaving && (self.known() == Known::At(release.version) || self.has_changed_in_rotation())
    }

    /// Whether it is in rotation under an order that takes it out, which its agent has accepted: its agent leaves that
    /// step as soon as it accepts, so the order was carried out, and since then the probe fails or another version runs.
    pub fn has_changed_in_rotation(&self) -> bool {
        let serves = |report: &Stored<Report>| {
            matches!(report.step, Step::Serving | Step::Refused { .. }) && report.rotation == Rotation::In
        };
        !mutant::is("failed-probe-is-out")
            && self.has_accepted()
            && self.known() != Known::Silent
            && self.report.as_ref().is_some_and(serves)
            && self.directive.as_ref().is_some_and(|d| matches!(d.disposition, Disposition::Replace { .. }))
    }

    /// Whether it was seen serving with `release`, in rotation and healthy.
    pub fn serves(&self, release: &Release) -> bool {
        self.is_in_service() && self.known() == Known::At(release.version)
    }

    /// Whether a person keeps it out: by a cordon, or by a disable-file that is not its agent's.
    pub fn is_in_maintenance(&self) -> bool {
        self.cordoned || self.report.as_ref().is_some_and(|report| report.rotation == Rotation::Maintenance)
    }

    /// Whether its directive takes it out, or lets it back and was not obeyed yet.
    pub fn is_under_order(&self) -> bool {
        let directive = self.directive.as_ref().filter(|_| !self.has_declined());
        directive.is_some_and(|d| d.disposition.takes_out()) || self.is_ordered_out()
    }

    /// Whether an order has taken it out and no report has shown it back.
    pub fn is_still_out_by_order(&self) -> bool {
        self.is_ordered_out() && !self.is_in_service()
    }
}
