//! Orders: directives in commits of a bounded size, each with the preconditions that let a pause, a cordon or another
//! capacity decision beat a turn already planned.

use super::directive::{self, Authority};
use super::draft::{BATCH, BATCH_AS_REPORTED, Draft};
use crate::fleet::{Instance, ServiceFleet, stays_under_order, turned_to};
use crate::gate::budget::capacity::must_presume_out;
use crate::release::floor::none_came;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Kind;
use tidegate_proto::record::budget::Budget;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::{Key, NodeId, Release, Revision, ServiceVersion, mutant};

/// The directive for one instance.
pub(super) struct Order<'a> {
    pub(super) instance: &'a Instance,
    pub(super) disposition: Disposition,
    /// Nothing is taken out of the budget for it: its agent declines it where the instance is in rotation.
    pub(super) presumes_out: bool,
    /// The order depends on its last report: the commit compares that report.
    pub(super) as_reported: bool,
    /// The order depends on the budget, and takes nothing of it: the commit compares the budget.
    pub(super) as_budgeted: bool,
}

impl<'a> Order<'a> {
    pub(super) fn drain(instance: &'a Instance) -> Self {
        Self::budgeted(instance, Disposition::Drain)
    }

    /// Of one that reports that it is not in service. Once it is, it is one of those that must stay.
    pub(super) fn drain_unhealthy(instance: &'a Instance) -> Self {
        let as_reported = !mutant::is("report-is-not-compared");
        Self { as_reported, ..Self::drain(instance) }
    }

    /// Of one that was drained, within the budget.
    pub(super) fn replace(instance: &'a Instance, release: Release) -> Self {
        Self::budgeted(instance, Disposition::Replace { release })
    }

    /// The same of one that is not let back as it reports now. Once it is healthy, it goes back where capacity lacks it.
    pub(super) fn replace_as_reported(instance: &'a Instance, release: Release) -> Self {
        let as_reported = !mutant::is("report-is-not-compared");
        Self { as_reported, ..Self::replace(instance, release) }
    }

    /// Of one that gets no requests as far as is seen, so that it costs no budget.
    pub(super) fn replace_what_is_out(instance: &'a Instance, release: Release) -> Self {
        let presumes_out = !mutant::is("free-replacement-presumes-nothing");
        Self { presumes_out, ..Self::replace(instance, release) }
    }

    pub(super) fn serve(instance: &'a Instance) -> Self {
        Self::budgeted(instance, Disposition::Serve { returning: instance.is_still_out_by_order() })
    }

    /// Of one that holds to a failure that is over.
    pub(super) fn serve_again(instance: &'a Instance) -> Self {
        Self::budgeted(instance, Disposition::Serve { returning: true })
    }

    /// The same disposition as now; only the releases that should be present change. A report that comes meanwhile may show it
    /// in service, because it was replaced or its agent has declined the order: it is not taken out once more then. One that
    /// requests may reach again, because it crashed under its order, is taken out once more only within the capacity. One that
    /// was to be replaced with a release which is not wanted any more, and was not heard since, gets the first of those that are.
    pub(super) fn restate(
        service: &ServiceFleet,
        upgrade: &Upgrade,
        instance: &'a Instance,
        releases: &[Release],
    ) -> Self {
        if let Some(order) = Self::turned(upgrade, instance) {
            return order;
        }
        let stands = instance.directive.as_ref().filter(|_| instance.is_still_out_by_order());
        match stands.filter(|directive| directive.disposition.takes_out()) {
            Some(directive) => Self {
                instance,
                disposition: listed(&directive.disposition, releases),
                presumes_out: directive.presumes_out || must_presume_out(service, &upgrade.spec, instance),
                as_budgeted: true,
                as_reported: true,
            },
            None => Self::serve(instance),
        }
    }

    /// Of one that a rollback finds under a replacement with another release than the former one. It may be in rotation by now:
    /// then its agent declines this one, and it is taken out within the budget.
    fn turned(upgrade: &Upgrade, instance: &'a Instance) -> Option<Self> {
        let former = turned_to(upgrade, instance).filter(|_| instance.is_still_out_by_order())?;
        let turned = Self::replace_what_is_out(instance, former.clone());
        Some(Self { as_reported: true, ..turned })
    }

    fn budgeted(instance: &'a Instance, disposition: Disposition) -> Self {
        Self { instance, disposition, presumes_out: false, as_reported: false, as_budgeted: false }
    }
}

impl Draft<'_> {
    /// Plans a window of the upgrade's service, unless an instance joins meanwhile.
    pub(super) fn set_window(&mut self, floor: ServiceVersion, ceiling: ServiceVersion, because: &str) {
        let commit = self.unless_joined(self.window(self.commit(), floor, ceiling));
        let what = format!("window for {}", self.spec().service);
        let phase = self.upgrade.phase.name().word();
        self.push(commit, what.clone(), phase, &what, because);
    }

    /// Adds to a commit that no instance came since this fleet was seen.
    pub(super) fn unless_joined(&self, commit: Commit) -> Commit {
        none_came(self.fleet, &self.spec().service).into_iter().fold(commit, Commit::when)
    }

    /// Orders, for every instance whose directive does not say so yet, which releases should be present.
    pub(super) fn direct(&mut self, releases: &[Release], because: &str) {
        let Some(service) = self.service() else { return };
        let upgrade = self.upgrade;
        // What contradicts the store may obey an order a second time.
        let is_heard = |i: &&Instance| !i.contradicts && i.can_be_ordered() && !may_be_taken_out_again(i);
        let instances = service.misdirected().each.filter(is_heard);
        let instances = instances.filter(|i| !stays_under_order(upgrade, i)).take(BATCH * 20);
        let orders: Vec<_> =
            instances.map(|instance| Order::restate(service, upgrade, instance, releases)).collect();
        self.order(&orders, releases, "releases for", because);
    }

    /// Plans directives that take no serving instance out: as many commits as it needs, up to a few a turn.
    pub(super) fn order(&mut self, orders: &[Order<'_>], releases: &[Release], what: &str, because: &str) {
        const COMMITS_A_TURN: usize = 20;
        for batch in possible(orders).chunks(BATCH).take(COMMITS_A_TURN) {
            let commit =
                batch.iter().fold(self.commit(), |commit, order| self.directive(commit, order, releases));
            let commit = self.while_budgeted(self.while_reported(commit, batch), batch);
            self.push_orders(commit, batch, what, because);
        }
    }

    /// Plans directives that take serving instances out: one commit a turn, under the service's budget key.
    pub(super) fn order_out(
        &mut self,
        orders: &[Order<'_>],
        releases: &[Release],
        what: &str,
        because: &str,
    ) {
        let batch = first_of(orders);
        if !batch.is_empty() {
            let commit = self.taking_out(self.commit(), &batch, releases);
            self.push_orders(commit, &batch, what, because);
        }
    }

    /// The same, within the commit that moves the upgrade on: with it they hold or fall.
    pub(super) fn order_out_with_the_move(
        &mut self,
        orders: &[Order<'_>],
        releases: &[Release],
        what: &str,
        because: &str,
    ) {
        let batch = first_of(orders);
        if !batch.is_empty() {
            let commit = self.taking_out(Commit::new(), &batch, releases);
            let (commit, to) = (self.under_window(commit), named(&batch, what));
            self.join(commit, to, because);
        }
    }

    fn taking_out(&self, commit: Commit, batch: &[&Order<'_>], releases: &[Release]) -> Commit {
        let service = self.spec().service.clone();
        let budget_at = self.service().map_or(Revision::ABSENT, |s| s.budget_at());
        let mut commit = batch.iter().fold(commit, |commit, order| self.directive(commit, order, releases));
        for order in batch {
            commit = commit
                .when(Precondition::At(Key::Maintenance(order.instance.node.clone()), Revision::ABSENT));
        }
        commit = self.while_reported(commit, batch);
        let taken = Budget { term: self.moment.leader.term.clone(), taken: batch.len() as u32 };
        if !mutant::is("budget-is-not-compared") {
            commit = commit.when(Precondition::At(Key::Budget(service.clone()), budget_at));
        }
        commit.put(Key::Budget(service), taken)
    }

    /// Adds to a commit the last report of each order that depends on it.
    fn while_reported(&self, mut commit: Commit, batch: &[&Order<'_>]) -> Commit {
        for instance in batch.iter().filter(|order| order.as_reported).map(|order| order.instance) {
            commit = commit.when(instance.same_report(&self.spec().service));
        }
        commit
    }

    /// Adds to a commit the budget, where an order of it depends on that.
    fn while_budgeted(&self, commit: Commit, batch: &[&Order<'_>]) -> Commit {
        if !batch.iter().any(|order| order.as_budgeted) {
            return commit;
        }
        let at = self.service().map_or(Revision::ABSENT, |service| service.budget_at());
        commit.when(Precondition::At(Key::Budget(self.spec().service.clone()), at))
    }

    fn push_orders(&mut self, commit: Commit, batch: &[&Order<'_>], what: &str, because: &str) {
        let (commit, to) = (self.under_window(commit), named(batch, what));
        let phase = self.upgrade.phase.name().word();
        self.push(commit, to.clone(), phase, &to, because);
    }

    fn under_window(&self, commit: Commit) -> Commit {
        let window = self.service().map_or(Revision::ABSENT, |service| service.window_at());
        commit.when(Precondition::At(Key::Window(self.spec().service.clone()), window))
    }

    fn directive(&self, commit: Commit, order: &Order<'_>, releases: &[Release]) -> Commit {
        let spec = self.spec();
        let by = Authority { upgrade: self.id, spec: Some(spec), moment: self.moment };
        let body = by.directive(order.disposition.clone(), releases.to_vec(), order.presumes_out);
        directive::put(commit, &spec.service, order.instance, body)
    }
}

/// Without those of instances whose directive cannot be read: a damaged record costs its own instance, and the others of the
/// batch get their orders.
fn possible<'o, 'a>(orders: &'o [Order<'a>]) -> Vec<&'o Order<'a>> {
    orders.iter().filter(|order| order.instance.can_be_ordered()).collect()
}

/// The possible ones that one commit holds; the next turn goes on.
fn first_of<'o, 'a>(orders: &'o [Order<'a>]) -> Vec<&'o Order<'a>> {
    let mut as_reported = 0;
    let mut batch = possible(orders);
    batch.retain(|order| {
        as_reported += usize::from(order.as_reported);
        !order.as_reported || as_reported <= BATCH_AS_REPORTED
    });
    batch.truncate(BATCH);
    batch
}

/// Whether it holds an order that takes it out and its report cannot be read: it may be back in service. No commit can compare
/// that report, so the order is given once more after the next one.
fn may_be_taken_out_again(instance: &Instance) -> bool {
    let takes_out = instance.directive.as_ref().is_some_and(|directive| directive.disposition.takes_out());
    takes_out && instance.unreadable.contains_key(&Kind::Report)
}

/// What a disposition becomes beside these releases: an agent keeps the release of its order on its node, and would start it.
fn listed(disposition: &Disposition, releases: &[Release]) -> Disposition {
    match (disposition, releases.first()) {
        (Disposition::Replace { release }, Some(first)) if !releases.contains(release) => {
            Disposition::Replace { release: first.clone() }
        }
        _ => disposition.clone(),
    }
}

fn named(batch: &[&Order<'_>], what: &str) -> String {
    let names: Vec<&str> = batch.iter().map(|order| NodeId::as_str(&order.instance.node)).collect();
    format!("{what} {}", names.join(", "))
}
