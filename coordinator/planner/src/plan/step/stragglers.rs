//! Instances that report another version after the last wave, or after a rollback has moved the others: they were away, or
//! their code was changed by hand. The window refuses their admission; they get the directive of the others and are
//! moved like them.

use super::super::Draft;
use super::moving::{Moving, move_instances};
use super::schema::{self, Shown};
use crate::action::SchemaJob;
use crate::fleet::{Instance, Known, Standing, moved_from};
use crate::gate::Answer;
use crate::gate::person::rollback;
use crate::gate::roll::none_failed_to_stage;
use crate::gate::schema::form;
use crate::gate::version::all_at;
use crate::upgrade::is_unseen;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Step};
use tidegate_proto::record::upgrade::PhaseName;
use tidegate_proto::{Release, ServiceVersion, mutant};

/// Moves every instance to the one release that is wanted now, and removes others.
pub(super) fn move_to(draft: &mut Draft<'_>, release: &Release, because: &str) {
    move_keeping(draft, release, std::slice::from_ref(release), because);
}

/// The same, while these releases are kept on the nodes.
pub(super) fn move_keeping(draft: &mut Draft<'_>, release: &Release, releases: &[Release], because: &str) {
    draft.direct(releases, because);
    let Some(service) = draft.service() else { return };
    if draft.has_commits() || mutant::is("stragglers-are-only-named") || !may_start(draft, release.version) {
        return;
    }
    // The former version uses no form that an upgrade of another service makes.
    let (shown, form) = match draft.upgrade.phase.name() {
        PhaseName::RollingBack => (Shown::Yes, Answer::open()),
        _ => (schema::shows_beside_a_job(draft), form::is_there(&draft.view(), SchemaJob::Look.word())),
    };
    if shown == Shown::Lost {
        return;
    }
    let moved_from = moved_from(draft.upgrade);
    let may_begin = |i: &Instance| {
        (is_elsewhere(i, release.version) || i.is_unreplaced(moved_from))
            && i.has_staged(std::slice::from_ref(release))
    };
    let around = Moving {
        moment: draft.moment,
        service,
        up_to: u32::MAX,
        target: release.clone(),
        releases: releases.to_vec(),
        moved_from,
        may_begin: &may_begin,
        has_failed: &|_| false,
        overdue: false,
        needs_look: shown == Shown::Unknown || !form.is_open,
    };
    let under_way = move_instances(draft, &around, service.each_standing(Standing::Ready, u32::MAX));
    if under_way.awaits_look {
        // A look ends the job of the phase, which may look for longer than a look holds: none where capacity holds the
        // instance.
        if shown == Shown::Unknown {
            schema::look(draft);
        }
        draft.passes(form);
    }
    // Who could not stage it is not begun with; only a person's retry has its agent try again.
    draft.passes(none_failed_to_stage(service, &release.tag));
}

/// Whether what the databases show allows to start this version; says what forbids it where another one runs. The phase of
/// an upgrade in a restored store says nothing of its database until that was seen.
fn may_start(draft: &mut Draft<'_>, version: ServiceVersion) -> bool {
    if draft.upgrade.phase.name() != PhaseName::RollingBack {
        // The job that looks at the database says why it has not been seen.
        return !is_unseen(draft.fleet, draft.moment, draft.id, draft.upgrade);
    }
    let databases = rollback::databases(&draft.view());
    if databases.is_open || all_at(&draft.view(), version).is_open {
        return databases.is_open;
    }
    draft.passes(databases);
    if draft.upgrade.schema.is_some() {
        draft.schema(SchemaJob::Look);
    }
    false
}

/// Whether it runs another version, was refused as one, or nothing starts the wanted one there. An unknown version alone
/// is no reason to restart an instance.
fn is_elsewhere(instance: &Instance, version: ServiceVersion) -> bool {
    let step = instance.report.as_ref().map(|report| &report.step);
    let refused = matches!(step, Some(Step::Refused { .. }));
    match instance.known() {
        // What is known is the lower of its report and its last admission: it may run a higher one that was refused.
        Known::At(known) => known != version || refused && instance.last_seen() != Some(version),
        Known::Unknown => refused || instance.has_nothing_to_start() || is_not_started(instance, version),
        Known::Silent => false,
    }
}

/// Whether its agent knows of nothing that ran there, and it was never admitted or has answered nothing well for some
/// seconds (a journal may be lost); or it is not healthy or stopped, and was last admitted as another version, or by no
/// record of this store: its agent and its own supervisor may not start that version, and its directive may not name it;
/// or it failed verifying, and another program has admitted the version since: its agent knows of no such release to start;
/// or its machine was booted since.
fn is_not_started(instance: &Instance, version: ServiceVersion) -> bool {
    let Some(report) = &instance.report else { return false };
    let last = instance.inventory.as_ref();
    let unhealthy = report.health == Health::Unhealthy;
    let unanswered = last.is_none() || unhealthy && instance.reports_answers();
    let is_new = report.step == Step::Starting && unanswered;
    let was_elsewhere = last.is_none_or(|last| last.version != version);
    let is_anothers = last.is_some_and(|last| last.at > report.admission);
    let has_failed = instance.has_failed_verifying();
    // Under a directive that it has had for long it is not verified again, so that no failure is reported.
    let ails = has_failed || unhealthy && instance.fault().is_some_and(|fault| fault.lasting);
    let is_stopped = report.step == Step::Stopped;
    let was_not_started = is_anothers && has_failed || is_down_since_a_boot(instance);
    let starts_nothing = was_elsewhere && (ails || is_stopped) || was_not_started;
    is_new || starts_nothing && instance.unreadable.is_empty()
}

/// Whether the machine of one under an order to serve, which starts nothing, was booted since it was admitted, and it failed
/// verifying or has had its fault for some time: the machine may start another release, which the window refuses. A person may
/// have put the version in place of that release, or that release answered the version.
fn is_down_since_a_boot(instance: &Instance) -> bool {
    let (Some(report), Some(last), Some(directive)) =
        (&instance.report, &instance.inventory, &instance.directive)
    else {
        return false;
    };
    let was_booted = last.identity.boot != report.identity.boot;
    let serves = matches!(directive.disposition, Disposition::Serve { .. });
    // One of the version may be on its way up while its fault is recent.
    let lasts = instance.fault().is_some_and(|fault| fault.lasting && !fault.recent);
    let is_down = report.health == Health::Unhealthy && (instance.has_failed_verifying() || lasts);
    was_booted && serves && is_down
}
