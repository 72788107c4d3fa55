//! What a turn asks of a service: each answer is a group of an index.

use super::{Matching, ServiceFleet};
use crate::fleet::group::{Groups, Tally};
use crate::fleet::index::{NO_DOMAIN, Standing};
use crate::fleet::instance::Instance;
use crate::spread::Known;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::RangeBounds;
use std::sync::Arc;
use tidegate_proto::{NodeId, Revision, ServiceVersion};

impl ServiceFleet {
    /// Those that fell silent.
    pub fn silent(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        self.known(Known::Silent..=Known::Silent)
    }

    /// Those that report without a known version.
    pub fn unknown(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        self.known(Known::Unknown..=Known::Unknown)
    }

    /// Those known to be below a version.
    pub fn below(&self, version: ServiceVersion) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        self.known((Excluded(Known::Unknown), Excluded(Known::At(version))))
    }

    /// Those known to be above a version.
    pub fn above(&self, version: ServiceVersion) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        self.known((Excluded(Known::At(version)), Unbounded))
    }

    fn known(
        &self,
        range: impl RangeBounds<Known> + Clone,
    ) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.known, range)
    }

    /// Those not in service, by what is observed: unhealthy, silent, in maintenance or ordered out.
    pub fn out(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.out, ..)
    }

    /// How many are in rotation, healthy or not, and not ordered out.
    pub fn in_rotation(&self) -> usize {
        self.index.in_rotation
    }

    /// How many were seen in rotation and answer 200 at their health URLs, whether or not a balancer confirms that they
    /// still are in it.
    pub fn answering(&self) -> usize {
        self.index.answering
    }

    /// How many are in rotation and healthy, whatever version they run.
    pub fn well(&self) -> usize {
        self.index.well
    }

    /// In how many failure domains something is not healthy in rotation, by the label that the active upgrade names. Each
    /// without the label is one of its own.
    pub fn domains_unwell(&self) -> usize {
        domains_in(&self.index.domains_unwell)
    }

    /// How many get no requests: out of rotation by evidence, by a person or by an order; on their way in or out; or
    /// silent.
    pub fn away(&self) -> usize {
        self.index.away
    }

    /// In how many failure domains something gets no requests, by the label that the active upgrade names. Each without the
    /// label is one of its own.
    pub fn count_of_domains_away(&self) -> usize {
        domains_in(&self.index.domains_away)
    }

    /// The failure domains with at least one instance that gets no requests, by the label that the active upgrade
    /// names; under `NO_DOMAIN` those without it.
    pub fn domains_away(&self) -> impl Iterator<Item = &str> {
        self.index.domains_away.keys().map(|domain| &**domain)
    }

    /// How many are in rotation and healthy.
    pub fn in_service(&self) -> usize {
        self.index.counting - self.index.out.count(..)
    }

    /// Those that have not acknowledged the current window; empty where there is no window. A window of a later revision
    /// is one of a former store.
    pub fn unacknowledged(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        let at = self.window_at();
        let later = if at.exists() { (Excluded(at), Unbounded) } else { (Included(at), Excluded(at)) };
        let earlier = matching(self, &self.index.acknowledged, ..at);
        let later = matching(self, &self.index.acknowledged, later);
        Matching { count: earlier.count + later.count, each: earlier.each.chain(later.each) }
    }

    /// Those that an upgrade has not seen serving its target and that are in this state, up to and including a wave, by
    /// wave. Of those under order all, whatever their wave.
    pub fn standing(
        &self,
        standing: Standing,
        wave: u32,
    ) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.standing, (standing, 0)..=(standing, wave))
    }

    /// Each of the same, without their number, which takes a look at each wave.
    pub fn each_standing(&self, standing: Standing, wave: u32) -> impl DoubleEndedIterator<Item = &Instance> {
        self.index.standing.places((standing, 0)..=(standing, wave)).map(|place| self.at(place))
    }

    /// The state of one instance towards the upgrade, and its wave; none where it was seen serving the target.
    pub fn standing_of(&self, node: &NodeId) -> Option<(Standing, u32)> {
        self.members[self.found(node)?].facets.counted_standing()
    }

    /// Those that a directive has taken out and no report has shown back.
    pub fn ordered(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        self.standing(Standing::Ordered, 0)
    }

    /// Whether any instance counts in a wave after this one.
    pub fn has_waves_after(&self, wave: u32) -> bool {
        self.index.in_wave.reaches(wave + 1)
    }

    /// How many count in a wave.
    pub fn in_wave(&self, wave: u32) -> usize {
        self.index.in_wave.of(&wave)
    }

    /// How many of a wave were seen serving the target.
    pub fn done_in(&self, wave: u32) -> usize {
        self.index.done_in.of(&wave)
    }

    /// How many were seen serving the target; all where nothing is asked of them.
    pub fn done(&self) -> usize {
        if self.view.is_some() { self.index.done } else { self.index.counting }
    }

    /// Those whose directive does not yet name the releases that the active upgrade wants present.
    pub fn misdirected(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.misdirected, ..)
    }

    /// Those that report, and whose nodes lack a release that the active upgrade wants present.
    pub fn unstaged(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.unstaged, false..=false)
    }

    /// Whether the node of one instance lacks such a release.
    pub fn is_unstaged(&self, node: &NodeId) -> bool {
        self.found(node).is_some_and(|slot| self.members[slot].facets.is_unstaged())
    }

    /// Those that are silent, and whose nodes lack such a release as far as is known.
    pub fn unstaged_silent(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.unstaged, true..=true)
    }

    /// Those that are unstaged and say that a release could not be staged or removed.
    pub fn stage_failed(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.stage_failed, ..)
    }

    /// Those that report, run something else than the target, and whose nodes lack it.
    pub fn stranded(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.stranded, ..)
    }

    /// Those whose agents name the release that a rollback moves them away from.
    pub fn unreplaced(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.unreplaced, ..)
    }

    /// Those whose nodes hold releases that the active upgrade does not want present.
    pub fn cluttered(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.cluttered, ..)
    }

    /// Those that report a fault since they were verified, where no person keeps them out.
    pub fn faulty(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.faulty, ..)
    }

    /// Those that report although they were decommissioned: the tombstone is void, and still there.
    pub fn returned(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.returned, ..)
    }

    /// Those whose agents have declined the last directive.
    pub fn declined(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.declined, ..)
    }

    /// Those that the active upgrade last ordered back into rotation.
    pub fn recalled(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.recalled, ..)
    }

    /// The revision of the last of these orders.
    pub fn last_recall(&self) -> Option<Revision> {
        self.recalled().each.filter_map(|instance| Some(instance.directive.as_ref()?.at)).max()
    }

    /// The failure domains with at least one instance that is out, by the label that the active upgrade names; under
    /// `NO_DOMAIN` those without it.
    pub fn domains_out(&self) -> impl Iterator<Item = &str> {
        self.index.domains_out.keys().map(|domain| &**domain)
    }

    /// Those that are out and lack the label that the active upgrade names.
    pub fn unlabelled_out(&self) -> Matching<impl DoubleEndedIterator<Item = &Instance>> {
        matching(self, &self.index.unlabelled_out, ..)
    }
    /// The lowest version that an instance runs, where all of them are known.
    pub(crate) fn lowest(&self) -> Option<ServiceVersion> {
        let mut lowest = None;
        for instance in self.instances() {
            let Known::At(version) = instance.known() else { return None };
            lowest = Some(lowest.map_or(version, |known: ServiceVersion| known.min(version)));
        }
        lowest
    }
}

/// Each without the label may be in any domain: it counts as one of its own.
fn domains_in(domains: &Tally<Arc<str>>) -> usize {
    let unlabelled = domains.of(&Arc::from(NO_DOMAIN));
    domains.keys().count() - usize::from(unlabelled > 0) + unlabelled
}

fn matching<'a, K: Ord + Copy>(
    service: &'a ServiceFleet,
    groups: &'a Groups<K>,
    range: impl RangeBounds<K> + Clone,
) -> Matching<impl DoubleEndedIterator<Item = &'a Instance>> {
    Matching { count: groups.count(range.clone()), each: groups.places(range).map(|place| service.at(place)) }
}
