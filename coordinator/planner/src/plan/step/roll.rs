//! Roll: instances of the exposed waves are moved to the new release; failures are recorded and compared with the budget; a
//! wave that has passed exposes the next; the last one raises the floor.

use super::super::Draft;
use super::super::order::Order;
use super::failures::{self, Failed};
use super::faults;
use super::moving::{Moving, UnderWay, begin_with_the_move, move_instances};
use super::schema::{self, Shown};
use super::shared;
use crate::fleet::{Instance, ServiceFleet, Standing};
use crate::gate::person::approved;
use crate::gate::roll::{excused, stage_failures, unfit};
use crate::gate::version::all_at;
use crate::gate::{Answer, Causes, Reason, RollGate, Sample, VersionGate, migrate_floors};
use crate::upgrade::phase::Move;
use std::collections::BTreeSet;
use tidegate_proto::commit::Commit;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::upgrade::MigrateOrder;
use tidegate_proto::spec::{ApprovalPoint, IgnoredFailure};
use tidegate_proto::{NodeId, Release, ServiceVersion, mutant};

pub(super) fn roll(draft: &mut Draft<'_>, wave: u32) {
    let (Some(service), Some(former)) = (draft.service(), draft.upgrade.former.as_ref()) else { return };
    let target = draft.spec().target();
    let releases = vec![former.release.clone(), target.clone()];
    draft.direct(&releases, "an instance that joined gets the directive of the others");
    let upgrade = draft.upgrade;
    let last = failures::last_wave(upgrade);
    let exceptions = draft.exceptions();
    let in_doubt = faults::is_any_in_doubt(draft, service);
    let shown = schema::shows(draft);
    if shown == Shown::Lost {
        if !draft.has_commits() {
            recall(draft, service, &releases);
        }
        return;
    }
    let may_begin = |i: &Instance| {
        !in_doubt && shown == Shown::Yes && !exceptions.is_exempt(&i.node) && i.has_staged(&releases)
    };
    let has_failed = |i: &Instance| exceptions.has_failed(&i.node);
    let around = Moving {
        service,
        up_to: wave,
        target,
        releases: releases.clone(),
        may_begin: &may_begin,
        has_failed: &has_failed,
        overdue: false,
    };
    let under_way = move_instances(draft, &around, service.each_standing(Standing::Ready, wave));
    if draft.has_commits() {
        return;
    }
    if failures::record(draft, &under_way, Failed::In(wave)) {
        return;
    }
    let overdue = draft.elapsed().stalled_ms >= draft.spec().health.progress_deadline.as_millis();
    let holdup = Holdup::of(draft, service, &under_way);
    if holdup.counts() && overdue && !draft.has_progressed(service.done()) {
        return stalled(draft, service, holdup);
    }
    if shown == Shown::Yes {
        settle(draft, &around, wave, last);
    }
    let idle = !holdup.counts() || draft.waits_for_others();
    draft.checkpoint(service.done(), idle);
}

/// What the progress deadline counts for: an instance that is on its way, unhealthy, silent or failed. What a person
/// keeps out, has skipped or has accepted is waited for without an end.
struct Holdup {
    silent: bool,
    others: bool,
}

impl Holdup {
    fn of(draft: &Draft<'_>, service: &ServiceFleet, under_way: &UnderWay<'_>) -> Self {
        let exceptions = draft.exceptions();
        let any = |standing| {
            let skipped = exceptions
                .skipped()
                .filter(|node| service.standing_of(node).is_some_and(|(stands, _)| stands == standing));
            service.standing(standing, u32::MAX).count > skipped.count()
        };
        let target = draft.spec().target();
        let serves = |node: &NodeId| service.get(node).is_some_and(|instance| instance.serves(&target));
        let failed = exceptions.failures().any(|(node, failure)| {
            exceptions.counts(failure) && !exceptions.is_skipped(node) && !serves(node)
        });
        Self {
            silent: under_way.any_silent() || any(Standing::Silent),
            others: under_way.any_reporting() || any(Standing::Unhealthy) || any(Standing::Adrift) || failed,
        }
    }

    fn counts(&self) -> bool {
        self.silent || self.others
    }
}

/// The database no longer shows what the new version needs: what is drained and not stopped goes back into rotation.
fn recall(draft: &mut Draft<'_>, service: &ServiceFleet, releases: &[Release]) {
    let drained = |i: &&Instance| i.directive.as_ref().is_some_and(|d| d.disposition == Disposition::Drain);
    let orders: Vec<_> = service.ordered().each.filter(drained).map(Order::serve).collect();
    draft.order(&orders, releases, "recall", "the database no longer shows what the new version needs");
    draft.checkpoint(service.done(), true);
}

/// Nothing became healthy for the progress deadline, and what it waits for is no person.
fn stalled(draft: &mut Draft<'_>, service: &ServiceFleet, holdup: Holdup) {
    let deadline = draft.spec().health.progress_deadline;
    let ignored = draft.spec().failures.ignore.contains(&IgnoredFailure::Unreachable);
    let out = Causes::of(service.out());
    let reason = Reason::Roll(RollGate::Stalled { for_ms: draft.elapsed().stalled_ms, deadline, out });
    if ignored && !holdup.others {
        return draft.wait(reason);
    }
    failures::exceed_budget(draft, reason.to_string());
}

/// Whether the exposed waves are through; what follows then.
fn settle(draft: &mut Draft<'_>, around: &Moving<'_>, wave: u32, last: u32) {
    let service = around.service;
    let open = Open::of(draft, service, wave, last);
    if open.is_any() {
        if !draft.is_waiting() {
            hold(draft, service, open);
        }
        return;
    }
    if service.in_wave(wave) == 0 && service.has_waves_after(wave) {
        return super::enter::roll_again(draft, service, wave);
    }
    let nobody = service.in_wave(wave) > 0 && service.done_in(wave) == 0;
    if nobody && !mutant::is("an-empty-wave-passes") {
        draft.wait(Reason::Roll(RollGate::EmptyWave { wave }));
        let is_open = |node: &NodeId| service.standing_of(node).is_some_and(|(_, in_wave)| in_wave <= wave);
        return excused(draft.exceptions(), is_open).into_iter().for_each(|reason| draft.wait(reason));
    }
    if wave < last {
        let because = "every instance of the wave was seen at the new version, in rotation, healthy";
        let done = service.done() as u32;
        draft.advance(Move::WavePassed, Commit::new(), |body| body.done = body.done.max(done), because);
        // With a schema, the database is looked at before the wave's first drain.
        if draft.upgrade.schema.is_some() {
            return;
        }
        return begin_with_the_move(draft, around, service.each_standing(Standing::Ready, wave + 1));
    }
    if draft.passes(all_at(&draft.view(), draft.spec().to)) {
        finish(draft);
    }
}

/// Those of the exposed waves that were not seen serving the target and are not excused.
struct Open<'a> {
    silent: Sample,
    in_maintenance: [Sample; 2],
    /// The first of the others.
    idle: Vec<&'a Instance>,
}

impl<'a> Open<'a> {
    fn of(draft: &Draft<'_>, service: &'a ServiceFleet, wave: u32, last: u32) -> Self {
        let excused: BTreeSet<&NodeId> = draft.exceptions().exempt().collect();
        let open = |standing| {
            let among = |node: &&&NodeId| {
                service
                    .standing_of(node)
                    .is_some_and(|(stands, in_wave)| stands == standing && in_wave <= wave)
            };
            let among = excused.iter().filter(among).count();
            service.standing(standing, wave).sample_but(|node| excused.contains(node), among)
        };
        let idle = service
            .each_standing(Standing::Ready, wave)
            .chain(service.each_standing(Standing::Unhealthy, wave))
            .chain(service.each_standing(Standing::Adrift, wave))
            .chain(service.ordered().each.filter(|i| i.wave.map_or(last, |drawn| drawn.min(last)) <= wave))
            .filter(|instance| !excused.contains(&instance.node));
        Self {
            silent: open(Standing::Silent),
            in_maintenance: [open(Standing::Kept), open(Standing::Held)],
            idle: idle.take(Sample::NAMED + 1).collect(),
        }
    }

    fn is_any(&self) -> bool {
        !(self.silent.is_empty() && self.in_maintenance.iter().all(Sample::is_empty) && self.idle.is_empty())
    }
}

/// Nobody is under way and somebody is left: says who, and what about them.
fn hold(draft: &mut Draft<'_>, service: &ServiceFleet, open: Open<'_>) {
    let name = service.name().clone();
    let (unstaged, idle): (Vec<_>, Vec<_>) =
        open.idle.into_iter().partition(|instance| service.is_unstaged(&instance.node));
    stage_failures(unstaged.iter().copied()).into_iter().for_each(|reason| draft.wait(reason));
    let unstaged = unstaged.into_iter().filter(|instance| !instance.has_stage_failures()).collect();
    let names = |of: Vec<&Instance>| Sample::counted(of.into_iter().map(|instance| &instance.node));
    let release = draft.spec().release.tag.clone();
    draft.passes(Answer::of_any(names(unstaged), |nodes| RollGate::Staging { release, nodes }));
    draft.passes(Answer::of_any(open.silent, |nodes| VersionGate::Silent { service: name, nodes }));
    for nodes in open.in_maintenance {
        draft.passes(Answer::of_any(nodes, |nodes| RollGate::Maintenance { nodes }));
    }
    draft.passes(unfit(Causes::counted(idle.into_iter())));
}

/// The last wave has passed: one transaction raises the floor and leaves the roll.
fn finish(draft: &mut Draft<'_>) {
    let next = match draft.upgrade.schema.as_ref().map(|s| s.order) {
        Some(MigrateOrder::AfterRoll) => ApprovalPoint::Migrate,
        _ => ApprovalPoint::Remove,
    };
    let to = draft.spec().to;
    let entered = match next {
        ApprovalPoint::Migrate => {
            shared::commit_windows(draft);
            migrate_floors::reached(&draft.view(), Some(to))
        }
        _ => Ok(Commit::new()),
    };
    let approved = draft.passes(approved(&draft.view(), next));
    let entered = match entered {
        Ok(entered) => Some(entered),
        Err(missing) => {
            draft.passes(missing);
            None
        }
    };
    if let Some(entered) = entered.filter(|_| approved) {
        let floor = if mutant::is("floor-is-not-raised") { draft.spec().from } else { to };
        let binding = draft.upgrade.schema.as_ref().filter(|_| next == ApprovalPoint::Migrate);
        let required = binding
            .map_or(ServiceVersion::ABSENT, |binding| migrate_floors::bound_of_own(draft.spec(), binding));
        let extra = draft.unless_joined(draft.window_above(entered, floor, to, required));
        draft.advance(Move::Rolled, extra, |_| (), "every instance is at the new version");
    }
}
