//! The groups and counts over the instances of one service, kept while records change.
//!
//! # Invariants
//! * What they hold is what a count of every instance would give, after any sequence of changes.
//! * Each goes by the names of the nodes, whatever the order in which they came.

use super::group::{Groups, Tally};
use super::instance::{Exposure, Instance};
use super::place::Place;
use crate::spread::{Known, Spread};
use std::sync::Arc;
use tidegate_proto::key::Kind;
use tidegate_proto::{Release, ReleaseTag, Revision, UpgradeId, mutant};

/// The failure domain of an instance without the label, or with an empty one: unknown, so it conflicts with all.
pub const NO_DOMAIN: &str = "";

/// What the active upgrade asks, by which instances are indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) upgrade: UpgradeId,
    pub(super) target: Release,
    pub(super) releases: Vec<Release>,
    /// What a rollback moves instances away from.
    pub(super) moved_from: Option<ReleaseTag>,
    pub(super) domain: Option<String>,
    pub(super) last_wave: u32,
}

/// The state, towards an upgrade, of an instance that was not seen serving its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// In service: it may be started with.
    Ready,
    /// A directive has taken it out, or lets it back, and no report has shown it back yet.
    Ordered,
    /// Nothing that it reports counts, and it is under no order: it fell silent, its report cannot be read, or it contradicts
    /// the store.
    Silent,
    /// A person has cordoned its node.
    Cordoned,
    /// A person's disable-file keeps it out.
    DisabledByPerson,
    /// It may get requests and is not seen serving them well: unhealthy in rotation, or neither proved to be in nor
    /// out. It is drained before it is replaced.
    Unhealthy,
    /// It is out of rotation, and neither an order nor a person is the reason; or its directive cannot be read.
    OutOfRotation,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Index {
    pub(super) counting: usize,
    /// Those not in service.
    pub(super) out: Groups<()>,
    /// How many are in rotation, healthy or not.
    pub(super) in_rotation: usize,
    /// The same with those whose rotation no balancer confirms.
    pub(super) answering: usize,
    /// How many are in rotation and healthy, whatever version they run.
    pub(super) well: usize,
    /// How many get no requests, or are on their way in or out, by evidence or by order.
    pub(super) away: usize,
    pub(super) domains_away: Tally<Arc<str>>,
    pub(super) domains_unwell: Tally<Arc<str>>,
    pub(super) spread: Spread,
    pub(super) known: Groups<Known>,
    pub(super) acknowledged: Groups<Revision>,
    pub(super) in_wave: Tally<u32>,
    pub(super) done: usize,
    pub(super) done_in: Tally<u32>,
    /// By wave, but for those under order: they are one group, whatever their wave.
    pub(super) standing: Groups<(Standing, u32)>,
    /// Whether they are silent.
    pub(super) unstaged: Groups<bool>,
    pub(super) stage_failed: Groups<()>,
    pub(super) stranded: Groups<()>,
    pub(super) unreplaced: Groups<()>,
    pub(super) cluttered: Groups<()>,
    pub(super) misdirected: Groups<()>,
    pub(super) domains_out: Tally<Arc<str>>,
    pub(super) unlabelled_out: Groups<()>,
    pub(super) faulty: Groups<()>,
    /// Those that report although a tombstone is still there.
    pub(super) returned: Groups<()>,
    /// Those whose agents declined the last directive.
    pub(super) declined: Groups<()>,
    /// Those that the active upgrade last ordered back into rotation.
    pub(super) recalled: Groups<()>,
}

/// An instance's group in each index: computed from the instance alone, compared to move it between groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facets {
    counts: bool,
    known: Known,
    out: bool,
    exposure: Exposure,
    well: bool,
    acknowledged: Revision,
    wave: u32,
    /// None = done, or nothing is to be done.
    standing: Option<Standing>,
    done: bool,
    stranded: bool,
    unreplaced: bool,
    stock: Stock,
    misdirected: bool,
    domain: Option<Arc<str>>,
    faulty: bool,
    returned: bool,
    declined: bool,
    recalled: bool,
}

/// What is present on a node, by the report alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stock {
    unstaged: bool,
    failed: bool,
    lacks_target: bool,
    cluttered: bool,
}

impl Stock {
    fn of(instance: &Instance, view: Option<&View>) -> Self {
        let Some(view) = view else { return Self::default() };
        let unstaged = !instance.has_staged(&view.releases);
        Self {
            unstaged,
            failed: unstaged && instance.has_stage_failures(),
            lacks_target: !instance.has_staged(std::slice::from_ref(&view.target)),
            cluttered: instance.has_others_than(&view.releases),
        }
    }
}

fn is_misdirected(instance: &Instance, view: Option<&View>) -> bool {
    view.is_some_and(|v| !v.releases.is_empty() && !instance.is_directed_to(&v.upgrade, &v.releases))
}

fn domain(instance: &Instance, view: Option<&View>) -> Option<Arc<str>> {
    let label = view?.domain.as_deref()?;
    Some(Arc::from(instance.label(label).unwrap_or(NO_DOMAIN)))
}

impl Facets {
    pub(super) fn of(instance: &Instance, view: Option<&View>) -> Self {
        let (stock, misdirected) = (Stock::of(instance, view), is_misdirected(instance, view));
        Self::from(instance, view, stock, misdirected, domain(instance, view))
    }

    /// What they are after a change of one of the instance's records (none: of something else): what depends on
    /// another record alone is taken over.
    pub(super) fn after(&self, changed: Option<Kind>, instance: &Instance, view: Option<&View>) -> Self {
        let stock = if changed == Some(Kind::Report) { Stock::of(instance, view) } else { self.stock };
        let misdirected = match changed {
            Some(Kind::Directive) => is_misdirected(instance, view),
            _ => self.misdirected,
        };
        let domain = match changed {
            Some(Kind::Inventory) => domain(instance, view),
            _ => self.domain.clone(),
        };
        Self::from(instance, view, stock, misdirected, domain)
    }

    fn from(
        instance: &Instance,
        view: Option<&View>,
        stock: Stock,
        misdirected: bool,
        domain: Option<Arc<str>>,
    ) -> Self {
        let (known, in_service) = (instance.known(), instance.is_in_service());
        let unreplaced = instance.is_unreplaced(view.and_then(|v| v.moved_from.as_ref()));
        let at_target = view.is_some_and(|v| known == Known::At(v.target.version)) && !unreplaced;
        let done = in_service && at_target;
        Self {
            counts: instance.counts(),
            known,
            out: !in_service,
            exposure: instance.exposure(),
            well: instance.is_well(),
            acknowledged: instance.acknowledged(),
            // A page that the last drawing left behind may name a wave that there is not any more.
            wave: view.map_or(0, |v| instance.wave.map_or(v.last_wave, |wave| wave.min(v.last_wave))),
            standing: (view.is_some() && !done).then(|| standing(instance, in_service)),
            done,
            stranded: stock.lacks_target && known != Known::Silent && !at_target,
            unreplaced,
            stock,
            misdirected,
            domain,
            faulty: instance.fault().is_some(),
            returned: instance.has_returned(),
            declined: instance.has_declined(),
            recalled: view.is_some_and(|v| instance.is_recalled_by(&v.upgrade)),
        }
    }

    /// The instance's state towards the upgrade, and its wave; none where nothing is to be done, or it does not count.
    pub(super) fn counted_standing(&self) -> Option<(Standing, u32)> {
        self.standing.filter(|_| self.counts).map(|standing| (standing, self.wave))
    }

    /// Whether its node lacks a release, where it counts.
    pub(super) fn is_unstaged(&self) -> bool {
        self.counts && self.stock.unstaged
    }

    fn standing(&self) -> Option<(Standing, u32)> {
        self.standing.map(|standing| match standing {
            Standing::Ordered => (standing, 0),
            _ => (standing, self.wave),
        })
    }

    fn unstaged(&self) -> Option<bool> {
        self.stock.unstaged.then_some(self.known == Known::Silent)
    }

    fn stage_failed(&self) -> Option<()> {
        (self.stock.failed && self.known != Known::Silent).then_some(())
    }

    fn is_unlabelled_out(&self) -> bool {
        self.out && self.domain.as_deref() == Some(NO_DOMAIN)
    }

    fn domain_away(&self) -> Option<&Arc<str>> {
        self.domain.as_ref().filter(|_| self.exposure.is_away())
    }

    fn domain_unwell(&self) -> Option<&Arc<str>> {
        self.domain.as_ref().filter(|_| !self.well)
    }

    fn domain_out(&self) -> Option<&Arc<str>> {
        self.domain.as_ref().filter(|_| self.out)
    }
}

fn standing(instance: &Instance, in_service: bool) -> Standing {
    match () {
        () if in_service => Standing::Ready,
        () if instance.is_under_order() => Standing::Ordered,
        () if instance.is_unheard() => Standing::Silent,
        () if instance.cordoned => Standing::Cordoned,
        () if instance.is_in_maintenance() => Standing::DisabledByPerson,
        () if may_get_requests(instance) => Standing::Unhealthy,
        () => Standing::OutOfRotation,
    }
}

fn may_get_requests(instance: &Instance) -> bool {
    instance.exposure() != Exposure::Away && !mutant::is("unhealthy-is-already-out")
}

fn count(count: &mut usize, before: bool, after: bool) {
    *count = *count + usize::from(after) - usize::from(before);
}

impl Index {
    /// An instance comes.
    pub(super) fn enter(&mut self, place: Place, facets: &Facets) {
        self.shift(place, None, Some(facets));
    }

    /// An instance goes, to come at another place.
    pub(super) fn leave(&mut self, place: Place, facets: &Facets) {
        self.shift(place, Some(facets), None);
    }

    /// An instance's groups have changed.
    pub(super) fn change(&mut self, place: Place, before: &Facets, after: &Facets) {
        self.shift(place, Some(before), Some(after));
    }

    fn shift(&mut self, place: Place, before: Option<&Facets>, after: Option<&Facets>) {
        let (before, after) = (before.filter(|f| f.counts), after.filter(|f| f.counts));
        let is = |of: fn(&Facets) -> bool| (before.is_some_and(of), after.is_some_and(of));
        let given = |of: fn(&Facets) -> bool| {
            let (before, after) = is(of);
            (before.then_some(()), after.then_some(()))
        };
        count(&mut self.counting, before.is_some(), after.is_some());
        let (was, now) = given(|f| f.out);
        self.out.shift(place, was, now);
        let (was, now) = is(|f| f.exposure == Exposure::In);
        count(&mut self.in_rotation, was, now);
        let (was, now) = is(|f| matches!(f.exposure, Exposure::In | Exposure::Unconfirmed));
        count(&mut self.answering, was, now);
        let (was, now) = is(|f| f.well);
        count(&mut self.well, was, now);
        let (was, now) = is(|f| f.exposure.is_away());
        count(&mut self.away, was, now);
        let (was, now) = is(|f| f.done);
        count(&mut self.done, was, now);
        self.spread(before.map(|f| f.known), after.map(|f| f.known));
        self.known.shift(place, before.map(|f| f.known), after.map(|f| f.known));
        self.acknowledged.shift(place, before.map(|f| f.acknowledged), after.map(|f| f.acknowledged));
        self.in_wave.shift(before.map(|f| &f.wave), after.map(|f| &f.wave));
        let done = |f: &&Facets| f.done;
        self.done_in.shift(before.filter(done).map(|f| &f.wave), after.filter(done).map(|f| &f.wave));
        self.standing.shift(place, before.and_then(Facets::standing), after.and_then(Facets::standing));
        self.unstaged.shift(place, before.and_then(Facets::unstaged), after.and_then(Facets::unstaged));
        let failed = (before.and_then(Facets::stage_failed), after.and_then(Facets::stage_failed));
        self.stage_failed.shift(place, failed.0, failed.1);
        let (was, now) = given(|f| f.stranded);
        self.stranded.shift(place, was, now);
        let (was, now) = given(|f| f.unreplaced);
        self.unreplaced.shift(place, was, now);
        let (was, now) = given(|f| f.stock.cluttered);
        self.cluttered.shift(place, was, now);
        let (was, now) = given(|f| f.misdirected);
        self.misdirected.shift(place, was, now);
        let (was, now) = given(Facets::is_unlabelled_out);
        self.unlabelled_out.shift(place, was, now);
        let (was, now) = given(|f| f.faulty);
        self.faulty.shift(place, was, now);
        let (was, now) = given(|f| f.returned);
        self.returned.shift(place, was, now);
        let (was, now) = given(|f| f.declined);
        self.declined.shift(place, was, now);
        let (was, now) = given(|f| f.recalled);
        self.recalled.shift(place, was, now);
        self.domains_out.shift(before.and_then(Facets::domain_out), after.and_then(Facets::domain_out));
        self.domains_away.shift(before.and_then(Facets::domain_away), after.and_then(Facets::domain_away));
        self.domains_unwell
            .shift(before.and_then(Facets::domain_unwell), after.and_then(Facets::domain_unwell));
    }

    fn spread(&mut self, before: Option<Known>, after: Option<Known>) {
        if before != after {
            before.into_iter().for_each(|known| self.spread.count(known, false));
            after.into_iter().for_each(|known| self.spread.count(known, true));
        }
    }
}
