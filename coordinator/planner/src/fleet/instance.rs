//! One service on one node, put together from every record that speaks of it, and the questions that gates ask of
//! it. Unknown is never read as good.

mod exposure;
mod failure;

pub use exposure::Exposure;

use super::stored::Stored;
use crate::spread::Known;
use std::collections::BTreeMap;
use tidegate_proto::commit::Precondition;
use tidegate_proto::key::Kind;
use tidegate_proto::record::Malformed;
use tidegate_proto::record::decommission::Decommission;
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::report::{Health, Report, Rotation, Step};
use tidegate_proto::record::window::Window;
use tidegate_proto::{
    Key, NodeId, Release, ReleaseTag, Revision, ServiceName, ServiceVersion, UpgradeId, mutant,
};

/// An instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// The node.
    pub node: NodeId,
    /// What its agent says of it now; none = silent.
    pub report: Option<Stored<Report>>,
    /// Its last admission.
    pub inventory: Option<Stored<Inventory>>,
    /// A declaration by a person that it is gone.
    pub decommission: Option<Box<Stored<Decommission>>>,
    /// What is wanted of it.
    pub directive: Option<Stored<Directive>>,
    /// Records of it that cannot be read.
    pub unreadable: BTreeMap<Kind, Malformed>,
    /// Whether a person keeps its node out.
    pub cordoned: bool,
    /// Its wave in the active upgrade, where it was drawn.
    pub wave: Option<u32>,
    /// Whether it contradicts the store, so that what it reports counts for nothing: it counts as silent and out.
    pub contradicts: bool,
    /// Whether a person disregarded what it claims against the store.
    pub disregarded: bool,
    /// The mod_revision of the reconciliation that lists it; 0 = none does. Then it counts without an admission.
    pub listed: Revision,
}

impl Instance {
    /// An instance without records.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            report: None,
            inventory: None,
            decommission: None,
            directive: None,
            unreadable: BTreeMap::new(),
            cordoned: false,
            wave: None,
            contradicts: false,
            disregarded: false,
            listed: Revision::ABSENT,
        }
    }

    /// Whether it counts: it was admitted, or was there when the store was reconciled, or it reports (gates count the union),
    /// and it is not decommissioned.
    pub fn counts(&self) -> bool {
        let seen = self.inventory.is_some() && !mutant::is("silent-does-not-count")
            || self.listed.exists()
            || self.report.is_some()
            || self.unreadable.contains_key(&Kind::Report)
            || self.unreadable.contains_key(&Kind::Inventory);
        seen && !self.is_decommissioned()
    }

    /// Whether a declaration that it is gone covers its last admission. A later admission voids the declaration, and so
    /// does a report; of an instance that was decommissioned while it reported, a later report. So does a reconciliation that
    /// lists the instance: it reported then.
    pub fn is_decommissioned(&self) -> bool {
        let Some(word) = &self.decommission else { return false };
        let admission = self.inventory.as_ref().map_or(Revision::ABSENT, |inventory| inventory.at);
        let gone = match &self.report {
            None => (self.inventory.is_some() || self.listed.exists()) && word.at > self.listed,
            Some(report) => word.revoked_how.is_some() && report.at < word.at,
        };
        gone && word.admission == admission && self.unreadable.is_empty()
    }

    /// Whether it is decommissioned, and no statement says how it was stopped or fenced.
    pub(crate) fn is_gone_without_how(&self) -> bool {
        let how = self.decommission.as_ref().and_then(|word| word.stopped_how.as_deref());
        self.is_decommissioned() && how.is_none_or(|how| how.trim().is_empty())
    }

    /// Whether it reports although it was declared gone: that declaration is void for good.
    pub fn has_returned(&self) -> bool {
        self.decommission.is_some() && self.report.is_some() && !self.is_decommissioned()
    }

    /// Whether it was never admitted and its agent knows of no release that ran there. After a store was lost the agent's
    /// journal still knows the release.
    pub fn has_never_served(&self) -> bool {
        let knows_none = self.report.as_ref().is_some_and(|report| report.release.is_none());
        knows_none && self.inventory.is_none() && self.unreadable.is_empty()
    }

    /// Whether nothing runs there and its agent knows no release to start: it was never admitted, or its journal was lost.
    /// Only an order to run a release ends that.
    pub fn has_nothing_to_start(&self) -> bool {
        self.is_stopped_without_release() || self.starts_without_release()
    }

    /// It holds no admission, or one without a release.
    fn is_stopped_without_release(&self) -> bool {
        let stopped = |report: &&Stored<Report>| report.step == Step::Stopped && report.release.is_none();
        let Some(report) = self.report.as_ref().filter(stopped) else { return false };
        let is_unknown = |last: &Stored<Inventory>| last.release.is_none() || !report.admission.exists();
        self.unreadable.is_empty() && self.inventory.as_ref().is_none_or(is_unknown)
    }

    /// It is out of rotation by evidence and has answered nothing well for some seconds: its journal was lost while nothing
    /// ran.
    fn starts_without_release(&self) -> bool {
        let starts_nothing = self.report.as_ref().is_some_and(|report| {
            report.step == Step::Starting
                && report.release.is_none()
                && report.health == Health::Unhealthy
                && report.rotation == Rotation::Out
        });
        starts_nothing && self.reports_answers() && self.unreadable.is_empty()
    }

    /// Whether its agent reports no version that runs, and nothing healthy.
    pub fn answers_nothing(&self) -> bool {
        let nothing = |report: &Stored<Report>| report.runs().is_none() && report.health != Health::Healthy;
        self.report.as_ref().is_some_and(nothing)
    }

    /// Whether its agent has evidence that nothing runs there, whatever its step.
    pub fn runs_nothing(&self) -> bool {
        let nothing = |report: &Stored<Report>| report.nothing_runs && report.runs().is_none();
        self.unreadable.is_empty() && self.report.as_ref().is_some_and(nothing)
    }

    /// Whether what was admitted there last is this version, and has ended by its agent's evidence. Its agent starts nothing
    /// before the window admits it.
    pub fn has_ended_at(&self, version: ServiceVersion) -> bool {
        let last = self.inventory.as_ref().map(|last| last.version);
        self.runs_nothing() && last == Some(version) && self.names_last_admission()
    }

    /// The admission that its report names; none where that revision is of another agent's. Its own was then in a store that
    /// was lost.
    pub(crate) fn reported_admission(&self) -> Revision {
        let Some(report) = &self.report else { return Revision::ABSENT };
        let is_anothers = |last: &Stored<Inventory>| {
            report.admission == last.at && report.identity.nonce != last.identity.nonce
        };
        match self.inventory.as_ref().is_some_and(is_anothers) {
            true => Revision::ABSENT,
            false => report.admission,
        }
    }

    fn names_last_admission(&self) -> bool {
        self.inventory.as_ref().is_some_and(|last| self.reported_admission() == last.at)
    }

    /// Whether its directive can be read, or it has none. No order takes the place of one that cannot be read: a commit that
    /// compared it as absent would fail in every turn, with the orders of other instances that it holds.
    pub fn can_be_ordered(&self) -> bool {
        !self.unreadable.contains_key(&Kind::Directive)
    }

    /// Whether nothing that it reports counts: it does not report, its report cannot be read, or it contradicts the store. It
    /// may serve, whatever it was ordered to do.
    pub fn is_unheard(&self) -> bool {
        self.report.is_none() || self.contradicts
    }

    /// What is known of its version.
    pub fn known(&self) -> Known {
        if !self.unreadable.is_empty() {
            return Known::Unknown;
        }
        if self.contradicts {
            return Known::Silent;
        }
        let Some(report) = &self.report else { return Known::Silent };
        match (&self.inventory, report.version) {
            (Some(admitted), Some(running)) if self.names_last_admission() => {
                Known::At(running.min(admitted.version))
            }
            _ => Known::Unknown,
        }
    }

    /// Whether it is healthy and on its way into rotation: it is waited for.
    pub fn is_coming(&self) -> bool {
        self.report.as_ref().is_some_and(|r| r.step == Step::Verifying && r.health == Health::Healthy)
    }

    /// Whether what runs is healthy, and no report shows that it was stopped since.
    pub fn runs_healthily(&self) -> bool {
        self.report.as_ref().is_some_and(|report| {
            let runs = matches!(
                report.step,
                Step::Serving | Step::Verifying | Step::Draining | Step::Drained { .. }
            );
            runs && report.health == Health::Healthy
        })
    }

    /// Whether readiness cannot be judged while the disable-file is there, which makes the readiness URL answer 503: that URL is
    /// the health URL, or the agent was started after the file was put. It is judged once the instance is shown.
    pub fn is_unjudged(&self) -> bool {
        let unjudged =
            |report: &Stored<Report>| report.health == Health::Unknown || report.abilities.ready_by_health;
        self.report.as_ref().is_some_and(unjudged)
    }

    /// Whether its agent names this release as the one that runs. It names what it has started, whatever that answers.
    pub fn names_release(&self, tag: &ReleaseTag) -> bool {
        self.report.as_ref().is_some_and(|report| report.release.as_ref() == Some(tag))
    }

    /// Whether its agent names the release that a rollback moves instances away from, if any.
    pub fn is_unreplaced(&self, moved_from: Option<&ReleaseTag>) -> bool {
        moved_from.is_some_and(|tag| self.names_release(tag))
    }

    /// Whether its agent has obeyed the last directive as far as having accepted it. A later generation than the
    /// directive's own is that of a reconciliation which its agent has taken in, or no generation of this store.
    pub fn has_accepted(&self) -> bool {
        match (&self.directive, &self.report) {
            _ if self.contradicts => false,
            (Some(directive), Some(report)) => {
                let later = report.generation > directive.at;
                report.generation == directive.at || later && report.generation == report.witness.reconciled
            }
            (None, _) => true,
            (Some(_), None) => false,
        }
    }

    /// Whether this upgrade has ordered it back into rotation, and nothing else since.
    pub fn is_recalled_by(&self, upgrade: &UpgradeId) -> bool {
        let is_back = |directive: &Stored<Directive>| {
            directive.upgrade == *upgrade && directive.disposition == Disposition::Serve { returning: true }
        };
        self.directive.as_ref().is_some_and(is_back)
    }

    /// Whether its agent says that it has read the last directive and does not carry it out.
    pub fn says_declined(&self) -> bool {
        let declined = self.report.as_ref().is_some_and(|report| report.declined);
        declined && self.directive.is_some() && self.has_accepted()
    }

    /// Whether its agent does not carry out the last directive: it is under no order, and to take it out costs what it costs
    /// for any other. A directive that takes of the budget is declined only by an agent that has read none before. One that was
    /// admitted before the directive, or that names no admission and has declined the directive before, is not believed: the
    /// instance counts as out by its order.
    pub fn has_declined(&self) -> bool {
        let Some((directive, report)) = self.directive.as_ref().zip(self.report.as_ref()) else {
            return false;
        };
        let may_be_first = match report.admission.exists() {
            true => report.admission > directive.at,
            false => !directive.after_decline,
        };
        let may_decline = directive.presumes_out
            || may_be_first && !mutant::is("declined-drain-is-waited-for")
            || mutant::is("any-decline-is-believed");
        may_decline && self.says_declined()
    }

    /// The window that it has acknowledged; none where it names one that this store cannot have given before the report.
    /// What an instance names that claims to have obeyed another store may be a window of that one.
    pub fn acknowledged(&self) -> Revision {
        let obeys_another = self.contradicts || self.disregarded;
        let report = self.report.as_ref().filter(|report| !obeys_another && report.window < report.at);
        report.map_or(Revision::ABSENT, |report| report.window)
    }

    /// Whether the version that its agent says runs is one that a window admits. What is known of it may be lower: gates
    /// go by its last admission as well.
    pub fn runs_admitted(&self, window: Option<&Stored<Window>>) -> bool {
        let runs = self.report.as_ref().and_then(|report| report.version);
        runs.is_some_and(|version| window.is_none_or(|window| window.admits(version)))
            && matches!(self.known(), Known::At(_))
    }

    /// Whether the version that runs, as far as its agent says, is one that a window does not admit.
    pub fn runs_outside(&self, window: Option<&Stored<Window>>) -> bool {
        let runs = self.report.as_ref().and_then(|report| report.runs());
        runs.zip(window).is_some_and(|(version, window)| !window.admits(version))
    }

    /// The version that runs as far as its agent says, admitted or not; of a silent one the last that was admitted.
    pub fn last_seen(&self) -> Option<ServiceVersion> {
        let reported = self.report.as_ref().and_then(|report| report.runs());
        reported.or_else(|| self.inventory.as_ref().map(|inventory| inventory.version))
    }

    /// Whether no version was seen of it, and requests may reach it: it was not admitted since the store was reconciled, and it
    /// is silent or not out of rotation by evidence.
    pub fn may_serve_unseen(&self) -> bool {
        let is_out =
            |report: &Stored<Report>| matches!(report.rotation, Rotation::Out | Rotation::Maintenance);
        self.last_seen().is_none() && self.unreadable.is_empty() && !self.report.as_ref().is_some_and(is_out)
    }

    /// Whether its agent asks balancers: only then it is known, and not estimated, that requests no longer reach it.
    pub fn asks_balancers(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.abilities.asks_balancers())
    }

    /// Whether it is drained under its last directive.
    pub fn is_drained(&self) -> bool {
        self.has_accepted()
            && self.report.as_ref().is_some_and(|report| matches!(report.step, Step::Drained { .. }))
    }

    /// Whether all of these releases are present on its node, as far as its agent says.
    pub fn has_staged(&self, releases: &[Release]) -> bool {
        let present = |release: &Release| {
            self.report.as_ref().is_some_and(|report| report.staged.contains(&release.tag))
        };
        releases.iter().all(present)
    }

    /// Whether a release that is none of these is present on its node, as far as is known. What it runs does not count: no
    /// agent removes that, and whether it is the right version is asked for itself.
    pub fn has_others_than(&self, releases: &[Release]) -> bool {
        self.report.as_ref().is_none_or(|report| {
            let wanted = |tag: &tidegate_proto::ReleaseTag| {
                releases.iter().any(|release| release.tag == *tag) || report.release.as_ref() == Some(tag)
            };
            !report.staged.iter().all(wanted)
        })
    }

    /// Whether its directive is this upgrade's and names just these releases.
    pub fn is_directed_to(&self, upgrade: &UpgradeId, releases: &[Release]) -> bool {
        self.directive.as_ref().is_some_and(|d| d.upgrade == *upgrade && d.releases == releases)
    }

    /// Whether it says that it serves, in the step of its lifecycle, under its last directive.
    pub fn claims_to_serve(&self) -> bool {
        self.has_accepted() && self.report.as_ref().is_some_and(|report| report.step == Step::Serving)
    }

    /// Its report is still the one that was read: once it says otherwise, the instance may be one of those that must stay.
    pub(crate) fn same_report(&self, service: &ServiceName) -> Precondition {
        let at = self.report.as_ref().map_or(Revision::ABSENT, |report| report.at);
        Precondition::At(Key::Report(service.clone(), self.node.clone()), at)
    }

    /// The value of a label of its node.
    pub fn label(&self, label: &str) -> Option<&str> {
        self.inventory.as_ref()?.labels.get(label).map(String::as_str)
    }
}
