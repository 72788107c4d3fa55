//! Roll: instances of the exposed waves are moved to the new release; failures are recorded and compared with the budget; a
//! wave that has passed exposes the next; the last one raises the floor.

use super::super::Draft;
use super::super::order::Order;
use super::failures::{self, Failed};
use super::faults;
use super::moving::{Moving, begin_with_the_move, move_instances};
use super::schema::{self, Shown};
use super::shared;
use crate::fleet::{Instance, Known, ServiceFleet, Standing};
use crate::gate::person::approved;
use crate::gate::roll::stall::{self, StallScope, is_overdue};
use crate::gate::roll::wave::{Left, verified};
use crate::gate::roll::{failed_or_skipped, none_unstaged};
use crate::gate::schema::migrate_floors;
use crate::gate::version::{all_at, silent};
use crate::upgrade::phase::Move;
use tidegate_proto::commit::Commit;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::upgrade::MigrateOrder;
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Release, ServiceVersion, mutant};

pub(super) fn roll(draft: &mut Draft<'_>, wave: u32) {
    let (Some(service), Some(former)) = (draft.service(), draft.upgrade.former.as_ref()) else { return };
    let target = draft.spec().target();
    let releases = vec![former.release.clone(), target.clone()];
    draft.direct(&releases, "an instance that joined gets the directive of the others");
    let upgrade = draft.upgrade;
    let last = failures::last_wave(upgrade);
    let exceptions = draft.exceptions();
    let in_doubt = faults::is_any_in_doubt(draft, service);
    let own = schema::shows(draft);
    let awaits_other = own == Shown::Yes && !shared::sees_form(draft);
    let shown = if awaits_other { Shown::Unknown } else { own };
    let because = match shown {
        Shown::Lost => Some("the database no longer shows what the new version needs"),
        _ if shared::lacks_form(draft) => Some("the form that the new version uses is missing"),
        _ => None,
    };
    if let Some(because) = because {
        if !draft.has_commits() {
            recall(draft, service, &releases, because);
        }
        return;
    }
    let may_begin = |i: &Instance| {
        !in_doubt && shown == Shown::Yes && !exceptions.is_skipped(&i.node) && i.has_staged(&releases)
    };
    let has_failed = |i: &Instance| exceptions.has_failed(&i.node);
    let around = Moving {
        moment: draft.moment,
        service,
        up_to: wave,
        target,
        releases: releases.clone(),
        moved_from: None,
        may_begin: &may_begin,
        has_failed: &has_failed,
        overdue: false,
        // A drain may outlast the look before it, and another leader has made none.
        needs_look: shown == Shown::Unknown,
    };
    let under_way = move_instances(draft, &around, service.each_standing(Standing::Ready, wave));
    if draft.has_commits() {
        return;
    }
    if under_way.capacity_holds || !under_way.out.held.is_empty() {
        left_out(draft, service);
    }
    if failures::record(draft, &under_way, Failed::Moving) {
        return;
    }
    let stall_scope =
        StallScope::of(&draft.view(), service, under_way.out.any_silent(), under_way.out.any_reporting());
    if stall_scope.counts() && is_overdue(&draft.view()) && !draft.has_progressed(service.done()) {
        return stalled(draft, service, &stall_scope);
    }
    if shown == Shown::Yes {
        settle(draft, &around, wave, last);
    }
    // The database of another upgrade is no sooner seen by a rollback of this one.
    let idle = !stall_scope.counts() || awaits_other || draft.waits_for_others();
    draft.checkpoint(service.done(), idle);
}

/// Names those that take of the capacity by which all others wait, and that nothing moves: they are silent, failed, were
/// skipped, or lack a release on their node. What is in maintenance, or says itself that it has failed, is named with the
/// capacity.
fn left_out(draft: &mut Draft<'_>, service: &ServiceFleet) {
    let is_idle = |i: &Instance| {
        !i.is_in_service() && i.known() != Known::Silent && !i.is_in_maintenance() && i.failure().is_none()
    };
    draft.passes(silent(service));
    let exceptions = draft.exceptions();
    let reasons = failed_or_skipped(exceptions, |node| service.get(node).is_some_and(is_idle));
    reasons.into_iter().for_each(|reason| draft.wait(reason));
    let unstaged = service.unstaged().each;
    let unstaged = unstaged.filter(|instance| is_idle(instance) && !exceptions.is_exempt(&instance.node));
    draft.passes(none_unstaged(&draft.spec().release.tag, unstaged));
}

/// The database does not have what the new version needs: what is drained and not stopped goes back into rotation.
pub(super) fn recall(draft: &mut Draft<'_>, service: &ServiceFleet, releases: &[Release], because: &str) {
    let drained = |i: &&Instance| i.directive.as_ref().is_some_and(|d| d.disposition == Disposition::Drain);
    let orders: Vec<_> = service.ordered().each.filter(drained).map(Order::serve).collect();
    draft.order(&orders, releases, "recall", because);
    draft.checkpoint(service.done(), true);
}

/// Nothing became healthy within the progress deadline, and no person is waited for.
fn stalled(draft: &mut Draft<'_>, service: &ServiceFleet, stall_scope: &StallScope) {
    let reason = stall::stalled(&draft.view(), service);
    match stall_scope.is_ignored(&draft.view()) {
        true => {
            draft.wait(reason);
            draft.passes(silent(service));
        }
        false => failures::exceed_budget(draft, reason.to_string()),
    }
}

/// Whether the exposed waves are through; what follows then.
fn settle(draft: &mut Draft<'_>, around: &Moving<'_>, wave: u32, last: u32) {
    let service = around.service;
    let left = Left::of(&draft.view(), service, wave, last);
    if left.is_any() {
        if !draft.is_waiting() {
            draft.passes(left.answer(&draft.view(), service));
        }
        return;
    }
    if service.in_wave(wave) == 0 && service.has_waves_after(wave) {
        return super::enter::roll_again(draft, service, wave);
    }
    if !draft.passes(verified(&draft.view(), service, wave)) {
        return;
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

/// The last wave has passed: one transaction raises the floor and leaves the roll.
fn finish(draft: &mut Draft<'_>) {
    let next = match draft.upgrade.schema.as_ref().map(|s| s.order) {
        Some(MigrateOrder::AfterRoll) => ApprovalPoint::Migrate,
        _ => ApprovalPoint::Remove,
    };
    let to = draft.spec().to;
    let entered = match next {
        ApprovalPoint::Migrate => shared::floors_reached(draft, Some(to)),
        _ => Some(Commit::new()),
    };
    let Some(entered) = entered else { return };
    if draft.passes(approved(&draft.view(), next)) {
        let floor = if mutant::is("floor-is-not-raised") { draft.spec().from } else { to };
        let binding = draft.upgrade.schema.as_ref().filter(|_| next == ApprovalPoint::Migrate);
        let required = binding
            .map_or(ServiceVersion::ABSENT, |binding| migrate_floors::bound_of_own(draft.spec(), binding));
        let extra = draft.unless_joined(draft.window_above(entered, floor, to, required));
        draft.advance(Move::Rolled, extra, |_| (), "every instance is at the new version");
    }
}
