//! Rollback: the old release is staged again where it is missing, instances are moved back from the point of failure, then
//! the ceiling is lowered, expand is undone, and the window is put back as it was.

use super::super::Draft;
use super::failures::{self, Failed, has_failed_returning};
use super::moving::{Moving, move_instances};
use super::{abort, gone, schema, shared, stragglers};
use crate::action::SchemaJob;
use crate::contracted;
use crate::fleet::{Instance, Standing, moved_from};
use crate::gate::Reason;
use crate::gate::person::rollback;
use crate::gate::roll::stall::is_overdue;
use crate::gate::roll::{all_serving, removed, restaged};
use crate::gate::schema::form;
use crate::gate::store::unreadable_in;
use crate::gate::version::{self, acknowledged, all_at};
use crate::moment::SchemaFacts;
use crate::release::{floor, need};
use crate::upgrade::phase::Move;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::upgrade::{Former, Upgrade};
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, ServiceName, ServiceVersion, mutant};

/// Turns back: the floor is withdrawn in the same transaction, unless a compute release needs it (rule 8).
pub(crate) fn begin_rollback(draft: &mut Draft<'_>, why: String) {
    if !draft.passes(rollback::begins(&draft.view(), &why)) {
        return;
    }
    let now = draft.service().and_then(|s| s.window()).map(|window| (window.floor, window.ceiling));
    let from = draft.spec().from;
    // Before preflight was left the window is not this upgrade's, and stays as it is.
    let extra = match (&draft.upgrade.former, now) {
        (Some(_), Some((_, ceiling))) => draft.window(Commit::new(), from, ceiling),
        _ => Commit::new(),
    };
    draft.advance(Move::RollBack(why.clone()), extra, |body| body.paused = None, &why);
}

/// Whether the window is that of a rollback: the floor is the old version, and after the move the ceiling too. A
/// reconciliation of the store raises both to what agents had obeyed. They are lowered again, because until then no
/// instance is admitted at the old version.
fn has_its_window(draft: &mut Draft<'_>, is_back: bool) -> bool {
    let from = draft.spec().from;
    let now = draft.service().and_then(|s| s.window()).map(|window| (window.floor, window.ceiling));
    let Some((floor, ceiling)) = now else { return true };
    // What is back already stays.
    if !is_back && !draft.passes(rollback::databases(&draft.view())) {
        // Another database may take its place.
        if draft.upgrade.schema.is_some() {
            draft.schema(SchemaJob::Look);
        }
        return false;
    }
    let then = (from, if is_back && !mutant::is("ceiling-is-not-lowered") { from } else { ceiling });
    if (floor, ceiling) == then {
        return true;
    }
    if draft.passes(rollback::lowers_raised_floor(&draft.view(), floor)) {
        draft.set_window(then.0, then.1, "it was raised during the rollback, and must admit the old version");
    }
    false
}

/// The old release is present again wherever something else runs. Silent ones are waited for later, not here.
pub(super) fn restage(draft: &mut Draft<'_>) {
    let Some((service, former)) = draft.service().zip(draft.upgrade.former.clone()) else { return };
    if !has_its_window(draft, false) {
        return;
    }
    draft.direct(
        &[former.release.clone(), draft.spec().target()],
        "the old code is staged again where it is missing",
    );
    let is_present = draft.passes(restaged(draft.upgrade, service, &former.release.tag));
    if is_present && !draft.has_commits() {
        draft.advance(Move::RollbackStepDone, Commit::new(), |_| (), "the old code is present");
    }
}

/// Instances go back, last exposed first, broken ones before all: they cost no budget and are not waited for.
pub(super) fn roll(draft: &mut Draft<'_>) {
    let Some((service, former)) = draft.service().zip(draft.upgrade.former.clone()) else { return };
    if !has_its_window(draft, false) {
        return;
    }
    let releases = vec![former.release.clone(), draft.spec().target()];
    draft.direct(&releases, "an instance that joined gets the directive of the others");
    if draft.has_commits() {
        return;
    }
    let exceptions = draft.exceptions();
    let has_failed = |i: &Instance| has_failed_returning(exceptions, i);
    let back = Moving {
        moment: draft.moment,
        service,
        up_to: u32::MAX,
        target: former.release.clone(),
        releases,
        moved_from: moved_from(draft.upgrade),
        may_begin: &|_| true,
        has_failed: &has_failed,
        // What is unhealthy then goes back although too few others are in rotation: a fleet that is unhealthy as a whole
        // can be rolled back.
        overdue: is_overdue(&draft.view()) && !draft.has_progressed(service.done()),
        needs_look: false,
    };
    let under_way = move_instances(draft, &back, service.each_standing(Standing::Ready, u32::MAX).rev());
    if draft.has_commits() || failures::record(draft, &under_way, Failed::Returning) {
        return;
    }
    if under_way.is_any() {
        draft.passes(version::silent(service));
    } else {
        let (serving, back) = (
            draft.passes(all_serving(&draft.view())),
            draft.passes(all_at(&draft.view(), former.release.version)),
        );
        if serving && back {
            let from = draft.spec().from;
            let ceiling = if mutant::is("ceiling-is-not-lowered") { draft.spec().to } else { from };
            let extra = draft.unless_joined(draft.window(Commit::new(), from, ceiling));
            let because = "every instance was seen back on the old version, in rotation";
            draft.advance(Move::RollbackStepDone, extra, |_| (), because);
        }
    }
    draft.checkpoint(service.done(), !under_way.is_any());
}

/// The ceiling is the old version again; every instance knows it, and the new code is gone.
pub(super) fn lower(draft: &mut Draft<'_>) {
    let Some(former) = draft.upgrade.former.clone() else { return };
    if !has_its_window(draft, true) {
        return;
    }
    stragglers::move_to(draft, &former.release, "the new code is removed");
    let clean = draft.service().is_some_and(|service| draft.passes(removed(service)));
    let known = draft.passes(acknowledged(&draft.view()));
    let back = draft.passes(all_at(&draft.view(), former.release.version));
    if clean && known && back && !draft.has_commits() {
        let because = "the ceiling is lowered and acknowledged";
        leave(draft, &former, InPlace::default(), Commit::new(), because);
    }
}

/// Expand is undone: contract, mirrored. It stays where another service that shares the schema uses what it made, or has a
/// window that admits no version without it: the old version runs beside it as it did before. Where that service is being
/// rolled back as well, the undo waits for it.
pub(super) fn undo(draft: &mut Draft<'_>) {
    let Some(former) = draft.upgrade.former.clone() else { return abort::undo(draft) };
    if !has_its_window(draft, true) {
        return;
    }
    stragglers::move_to(draft, &former.release, "the new code is removed");
    let undone = |facts: &SchemaFacts| facts.clean || mutant::is("expand-is-not-undone");
    let back = draft.passes(all_at(&draft.view(), former.release.version));
    if let Some(user) = shared::uses_new_form(draft) {
        let is_back = back && !draft.has_commits() && draft.passes(all_serving(&draft.view()));
        if is_back && let Some(facts) = schema::seen_at_the_end(draft) {
            leave_form(draft, &former, user, facts);
        }
        return;
    }
    let none_is_leaving = draft.passes(form::none_is_leaving(&draft.view()));
    let is_known = draft.passes(form::sharing_is_known(&draft.view()));
    let are_stopped = draft.passes(form::gone_are_stopped(&draft.view()));
    if !are_stopped {
        // The database may show that there is nothing to undo.
        schema::is_seen_recently(draft);
    }
    let may_undo = back && none_is_leaving && is_known && are_stopped && !draft.has_commits();
    let is_undone = may_undo && schema::run(draft, SchemaJob::Undo, undone);
    // Instances may be waited for after the undo, and the database may be replaced in that time.
    if is_undone && draft.passes(all_serving(&draft.view())) && schema::is_seen_at_the_end(draft) {
        let left = draft.facts().map(|facts| facts.left.clone()).unwrap_or_default();
        let mut because = "the database's history shows expand undone".to_owned();
        if !left.is_empty() {
            because.push_str(&format!("; left in place: {}", left.join(", ")));
        }
        leave(draft, &former, InPlace { what: left, form: false }, Commit::new(), &because);
    }
}

/// What the undo leaves in the database.
#[derive(Default)]
struct InPlace {
    /// In words.
    what: Vec<String>,
    /// Whether that is all that the new version of a sharing service uses.
    form: bool,
}

/// Ends the undo where a service that shares the schema uses the new form from this version on: what the database has of it
/// stays. The database may have been replaced by one that lacks the form; or nothing of it is this upgrade's own, because a
/// former attempt has left it for the same reason.
fn leave_form(
    draft: &mut Draft<'_>,
    former: &Former,
    (service, version): (&ServiceName, ServiceVersion),
    facts: &SchemaFacts,
) {
    let compared = shared::same_window(draft.fleet, service);
    if (facts.clean && !facts.expanded) || facts.unclaimed {
        let what: Vec<String> = match facts.unclaimed {
            true => facts.trouble.iter().cloned().collect(),
            false => facts.left.clone(),
        };
        let because = format!(
            "the database has nothing that expand made, although {service} shares the schema and uses it from version {version} on"
        );
        return leave(draft, former, InPlace { what, form: false }, compared, &because);
    }
    let left = format!(
        "everything that expand made: {service} shares the schema and uses it from version {version} on"
    );
    let form = form::is_whole(draft.upgrade, service, facts);
    let because = format!("left in place: {left}");
    leave(draft, former, InPlace { what: vec![left], form }, compared, &because);
}

/// One step back, with what else is compared; where it is the last, the window is put back as it was.
fn leave(draft: &mut Draft<'_>, former: &Former, left: InPlace, compared: Commit, because: &str) {
    let upgrade = draft.upgrade;
    let next =
        crate::upgrade::phase::transition(&upgrade.phase, Move::RollbackStepDone, upgrade.schema.as_ref());
    let over = next.is_ok_and(|phase| phase.is_over());
    if over
        && (!draft.passes(all_serving(&draft.view()))
            || !shared::windows_reopened(draft)
            || gone::direct(draft, &former.release))
    {
        return;
    }
    let extra = match over.then(|| restored(draft, former)) {
        None => compared,
        Some(Ok(commit)) => commit.with(compared),
        Some(Err(reason)) => return draft.wait(reason),
    };
    let record = |body: &mut Upgrade| {
        if let Some(schema) = &mut body.schema {
            (schema.left, schema.form_left) = (left.what, left.form);
        }
    };
    draft.advance(Move::RollbackStepDone, extra, record, because);
}

/// The window as it was; where there was none, one that admits every version that releases leave. It stays at the old
/// version alone where that would admit what a schema that was contracted meanwhile cannot bear. Or why it is not known how
/// far the floor may fall.
fn restored(draft: &Draft<'_>, former: &Former) -> Result<Commit, Reason> {
    if mutant::is("window-is-not-restored") {
        return Ok(Commit::new());
    }
    let Some((service, now)) = draft.service().and_then(|s| s.window().map(|now| (s, now))) else {
        return Ok(Commit::new());
    };
    let key = Key::Window(service.name().clone());
    let body = match (former.window, &former.window_set_by) {
        (Some((floor, ceiling)), Some(set_by)) => {
            Window { floor, ceiling, set_by: set_by.clone(), contracted: None }
        }
        _ => Window::open(draft.id.clone()),
    };
    let body = Window { contracted: contracted::bound(draft.fleet, service.name()), ..body };
    let body = floor::put_back(draft.fleet, service.name(), body, now.floor);
    if body.floor < contracted::lowest_floor(draft.fleet, service.name()) {
        return Ok(Commit::new());
    }
    let commit = match body.floor < now.floor {
        true => need::same(draft.fleet, Commit::new(), service.name()),
        false => Commit::new(),
    };
    if let Some(reason) = unreadable_in(draft.fleet, &commit) {
        return Err(reason);
    }
    let commit = commit.when(Precondition::At(key.clone(), now.at));
    Ok(contracted::compared(draft.fleet, commit).put(key, now.record.with(body)))
}
