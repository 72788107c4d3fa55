//! What the records at one revision say of an instance.

use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::report::{Health, Report, Rotation, Step};
use tidegate_proto::{Key, ServiceVersion};

use super::revision::Written;

/// A record and the revision that wrote it last.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) revision: i64,
    pub(super) body: T,
}

/// Whether an admission is of the agent that reports. The revision that its report names may be one of a store that was lost.
pub(super) fn is_of_its_agent(admission: &Inventory, report: &Report) -> bool {
    admission.identity.nonce == report.identity.nonce
}

/// What reports said of an instance until a revision.
#[derive(Debug, Clone, Copy)]
struct Stood {
    version: ServiceVersion,
    /// The window that it had acknowledged.
    window: i64,
    until: i64,
}

/// How an instance stood before a revision.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    is_out: bool,
    /// Decommissioned.
    is_gone: bool,
    pub(super) serves_at: Option<ServiceVersion>,
}

/// One service on one node.
#[derive(Debug, Clone, Default)]
pub(super) struct Instance {
    pub(super) report: Option<At<Report>>,
    /// The last report, also when it is gone.
    pub(super) last_report: Option<At<Report>>,
    /// The revision at which its last report went, because the lease lapsed.
    pub(super) lapsed: i64,
    /// The lease that its last report hangs on; 0 = none.
    pub(super) lease: i64,
    /// Whether a report since then named an admission and the version that was admitted, and was not of a refused one.
    pub(super) is_back: bool,
    /// Whether a report since then was of a refused instance.
    pub(super) is_refused: bool,
    /// The revision since which it is out by itself; 0 where it is not, or an order took it out.
    fell_out: i64,
    pub(super) inventory: Option<At<Inventory>>,
    pub(super) directive: Option<At<Directive>>,
    pub(super) decommissioned: bool,
    /// The version at which it was in service until it left service or changed, and the revision at which that was.
    pub(super) served: Option<(ServiceVersion, i64)>,
    /// The revision of the report with which it last came into service; 0 where no report did that.
    pub(super) came_in: i64,
    /// The revision at which it came back although it was decommissioned; 0 where it never did.
    came_back: i64,
    /// What its reports said of it until another one, or the end of one, said less; none where it was admitted since.
    stood: Option<Stood>,
}

impl Instance {
    /// What it runs: the lower of its report and its last admission, where the report belongs to that one.
    pub(super) fn version(&self) -> Option<ServiceVersion> {
        let (report, inventory) = (self.report.as_ref()?, self.inventory.as_ref()?);
        let is_last =
            is_of_its_agent(&inventory.body, &report.body) && report.body.admission.0 == inventory.revision;
        let running = report.body.version.filter(|_| is_last)?;
        Some(running.min(inventory.body.version))
    }

    /// The version and the window that its report says; none where that is not of its last admission.
    pub(super) fn says(&self) -> Option<(ServiceVersion, i64)> {
        let window = self.report.as_ref().map(|report| report.body.window.0);
        self.version().zip(window)
    }

    /// What its reports said until a later revision than this one, up to which a coordinator had seen everything.
    fn stood_after(&self, known: i64) -> Option<Stood> {
        self.stood.filter(|stood| stood.until > known)
    }

    /// What it may run for such a coordinator: what it runs, or what was known of it until later.
    pub(super) fn version_after(&self, known: i64) -> Option<ServiceVersion> {
        self.version().max(self.stood_after(known).map(|stood| stood.version))
    }

    /// Whether it may have acknowledged this window at this version or above it for such a coordinator, although its report
    /// says less by now.
    pub(super) fn stood_at(&self, version: ServiceVersion, window: i64, known: i64) -> bool {
        let stood = self.stood_after(known);
        stood.is_some_and(|stood| stood.version >= version && stood.window == window)
    }

    /// A revision wrote one of its records, before which its report said this. What relies on that compares each admission and
    /// no report: another version needs an admission.
    pub(super) fn note_said(&mut self, was: Option<(ServiceVersion, i64)>, written: &Written, revision: i64) {
        match &written.key {
            Key::Inventory(..) => self.stood = None,
            Key::Report(..) if self.says() != was => {
                let stood = was.map(|(version, window)| Stood { version, window, until: revision });
                let is_lower = |stood: &Stood| self.stood.is_some_and(|known| stood.version < known.version);
                self.stood = stood.filter(|stood| !is_lower(stood)).or(self.stood);
            }
            _ => {}
        }
    }

    /// Whether what runs is above a version, as far as its agent says, admitted or not; of a silent one the last that was
    /// admitted counts.
    pub(super) fn is_above(&self, version: ServiceVersion) -> bool {
        let reported = self.report.as_ref().and_then(|report| report.body.runs());
        let last = reported.or_else(|| self.inventory.as_ref().map(|inventory| inventory.body.version));
        !self.decommissioned && last.is_some_and(|last| last > version)
    }

    /// In rotation, healthy, and not ordered out: an order holds from its commit until a report of its generation or a
    /// later one shows the instance back.
    pub(super) fn is_in_service(&self) -> bool {
        let Some(report) = self.report.as_ref().map(|report| &report.body) else { return false };
        let serves = report.rotation == Rotation::In
            && report.health == Health::Healthy
            && report.step == Step::Serving;
        serves && self.version().is_some() && !self.is_ordered_out(report)
    }

    /// Whether it is out by itself, and that began after this revision: with a report, with the end of its lease, with a
    /// report that cannot be read, or because it has only just joined.
    pub(super) fn fell_out_after(&self, known: i64) -> bool {
        self.fell_out > known
    }

    /// Whether it last came into service with a report, and after this revision.
    pub(super) fn came_in_after(&self, known: i64) -> bool {
        self.came_in > known
    }

    /// Whether its last report came, or went, after this revision.
    pub(super) fn reported_after(&self, known: i64) -> bool {
        let last = self.last_report.as_ref().map_or(0, |report| report.revision);
        last.max(self.lapsed) > known
    }

    /// Whether it counts: admitted once, and not decommissioned or heard of since.
    pub(super) fn counts(&self) -> bool {
        self.inventory.is_some() && (!self.decommissioned || self.report.is_some())
    }

    pub(super) fn is_out(&self) -> bool {
        self.counts() && !self.is_in_service()
    }

    /// A revision wrote one of its records, before which it stood so. An order takes out with its commit: what was in service
    /// under an order, and leaves with another record, falls out by itself. So does what was decommissioned, and comes back:
    /// its order was for the case that it would.
    pub(super) fn note_out(&mut self, before: Before, written: &Written, revision: i64) {
        let ordered = self.report.as_ref().is_some_and(|report| self.is_ordered_out(&report.body));
        let by_order = ordered && matches!(written.key, Key::Directive(..));
        let comes_back = before.is_gone && self.counts();
        if comes_back {
            self.came_back = revision;
        }
        if !self.is_out() || by_order {
            self.fell_out = 0;
        } else if before.serves_at.is_some() || !before.is_out && !ordered || comes_back {
            self.fell_out = revision;
        }
    }

    /// How it stands.
    pub(super) fn stands(&self) -> Before {
        let is_gone = self.inventory.is_some() && !self.counts();
        Before { is_out: self.is_out(), is_gone, serves_at: self.serves_at() }
    }

    /// Whether it was in service at this version until after this revision, and then fell out by itself, or its agent says
    /// another version under the same admission, as only one that lies does.
    pub(super) fn served_after(&self, known: i64, version: ServiceVersion) -> bool {
        let served = self.served.is_some_and(|(at, ended)| at == version && ended > known);
        let is_same_admission = self.inventory.as_ref().is_some_and(|admission| admission.revision <= known);
        served && (self.fell_out_after(known) || self.is_in_service() && is_same_admission)
    }

    /// Whether it joined or came back after this revision, and has not been in service since.
    pub(super) fn joined_after(&self, known: i64) -> bool {
        let has_served = self.served.is_some_and(|(_, ended)| ended > self.came_back);
        let never_served = !has_served && !self.is_in_service();
        never_served && self.fell_out_after(known)
    }

    /// In rotation, and not ordered out, whatever version it runs.
    pub(super) fn may_get_requests(&self) -> bool {
        let out = |report: &Report| matches!(report.rotation, Rotation::Out | Rotation::Maintenance);
        let report = self.report.as_ref().map(|report| &report.body);
        report.is_some_and(|report| !out(report) && !self.is_ordered_out(report))
    }

    /// In rotation by evidence, healthy, and not ordered out, whatever version it runs.
    pub(super) fn is_well(&self) -> bool {
        let well = |report: &Report| report.rotation == Rotation::In && report.health == Health::Healthy;
        self.may_get_requests() && self.report.as_ref().is_some_and(|report| well(&report.body))
    }

    /// Whether its last order takes it out, and is neither carried out nor declined.
    pub(super) fn is_ordered_out(&self, report: &Report) -> bool {
        let Some(directive) = &self.directive else { return false };
        let obeyed = report.generation.0 >= directive.revision;
        // An agent that was admitted before an order which takes of the budget has no reason to decline it. Neither has one
        // that names no admission and has declined the order before.
        let may_be_first = match report.admission.exists() {
            true => report.admission.0 > directive.revision,
            false => !directive.body.after_decline,
        };
        let may_decline = directive.body.presumes_out || may_be_first;
        match &directive.body.disposition {
            _ if report.declined && obeyed && may_decline => false,
            Disposition::Drain | Disposition::Stop => true,
            Disposition::Replace { release } => match report.step {
                _ if !obeyed => true,
                Step::Draining | Step::Drained { .. } | Step::Replacing => true,
                // Its agent takes it out when it accepts: it was replaced, and what runs was changed since.
                Step::Serving | Step::Refused { .. } if report.rotation == Rotation::In => false,
                _ => self.version() != Some(release.version),
            },
            Disposition::Serve { returning } => *returning && !obeyed,
        }
    }

    /// The version at which it is in service.
    pub(super) fn serves_at(&self) -> Option<ServiceVersion> {
        self.version().filter(|_| self.is_in_service())
    }

    /// Whether it is in service at this version.
    pub(super) fn serves(&self, version: ServiceVersion) -> bool {
        self.serves_at() == Some(version)
    }
}
