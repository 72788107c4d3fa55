//! An upgrade that a person ends in preflight has moved no instance. Where the store was restored to that phase, or is blank
//! and the upgrade was started in it once more, the database may show what the same upgrade expanded before: that is
//! undone, unless an instance uses it, which preflight does not move back, or may start to use it: nothing runs there, and
//! the window admits a later version; or it has instances, and the window admits later versions alone.

use super::super::Draft;
use super::{schema, shared};
use crate::action::SchemaJob;
use crate::fleet::{Instance, ServiceFleet};
use crate::gate::roll::stall::is_overdue;
use crate::gate::schema::form;
use crate::gate::store::{unknown_and_disregarded, unreadable_in};
use crate::gate::version;
use crate::moment::SchemaFacts;
use crate::upgrade::phase::Move;
use tidegate_proto::commit::Commit;
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::{ServiceName, ServiceVersion, mutant};

/// Ends the upgrade once the database shows nothing that it expanded, or an instance uses it; or after the progress
/// deadline, where all that is waited for are instances on which nothing runs.
pub(super) fn undo(draft: &mut Draft<'_>) {
    if let Some(facts) = draft.last_facts().filter(|facts| is_undone(facts)) {
        let because = "the database's history shows nothing that this upgrade expanded";
        return end(draft, Commit::new(), facts.left.clone(), because);
    }
    if let Some((service, user)) = in_use(draft) {
        let compared = shared::same_window(draft.fleet, service);
        if let Some(unread) = unreadable_in(draft.fleet, &compared) {
            return draft.wait(unread);
        }
        let left = format!("everything that expand made: {user}");
        let because = format!("left in place: {left}");
        return end(draft, compared, vec![left], &because);
    }
    let (from, deadline) = (draft.spec().from, draft.spec().health.progress_deadline);
    let none_above = draft
        .service()
        .is_none_or(|service| draft.passes(version::none_may_be_above(service, from, deadline)));
    if !none_above {
        let disregarded = unknown_and_disregarded(draft.fleet, &draft.spec().service);
        disregarded.into_iter().for_each(|reason| draft.wait(reason));
    }
    let none_is_leaving = draft.passes(form::none_is_leaving(&draft.view()));
    let is_known = draft.passes(form::sharing_is_known(&draft.view()));
    let are_stopped = draft.passes(form::gone_are_stopped(&draft.view()));
    if none_above && none_is_leaving && is_known && are_stopped {
        // The turn may have been held since the last look.
        if schema::run(draft, SchemaJob::Undo, is_undone) {
            schema::is_seen_at_the_end(draft);
        }
        return;
    }
    // A look is enough where there is nothing to undo.
    let is_seen = match draft.fresh_facts().is_some_and(is_undone) {
        true => schema::is_seen_at_the_end(draft),
        false => schema::is_seen_recently(draft),
    };
    let idle = draft.service().filter(|_| !none_above).and_then(version::idle_alone);
    // The deadline is that of instances on which nothing runs: what else was waited for does not count.
    let Some(idle) = idle else { return draft.checkpoint(0, true) };
    if is_seen && is_overdue(&draft.view()) {
        let service = &draft.spec().service;
        let left = format!(
            "everything that expand made: nothing runs on {idle}, and the window of {service} admits a version above {from} there"
        );
        let because = format!("left in place: {left}");
        return end(draft, Commit::new(), vec![left], &because);
    }
    draft.checkpoint(0, false);
}

fn is_undone(facts: &SchemaFacts) -> bool {
    facts.clean || mutant::is("expand-is-not-undone")
}

/// The service that uses what expand made, or will use it, and how, in words.
fn in_use<'a>(draft: &Draft<'a>) -> Option<(&'a ServiceName, String)> {
    let (service, from) = (&draft.spec().service, draft.spec().from);
    let instances = draft.service().into_iter().flat_map(ServiceFleet::instances);
    let seen: Vec<ServiceVersion> = instances.filter_map(Instance::last_seen).collect();
    if let Some(version) = seen.iter().find(|version| **version > from) {
        return Some((service, format!("{service} runs version {version}")));
    }
    let floor = draft.service().and_then(ServiceFleet::window).map(|window| window.floor);
    if let Some(floor) = floor.filter(|floor| *floor > from && !seen.is_empty()) {
        return Some((service, format!("the window of {service} admits no version below {floor}")));
    }
    let (service, version) = shared::uses_new_form(draft)?;
    Some((service, format!("{service} shares the schema and uses it from version {version} on")))
}

fn end(draft: &mut Draft<'_>, compared: Commit, left: Vec<String>, because: &str) {
    let record = |body: &mut Upgrade| {
        if let Some(schema) = &mut body.schema {
            schema.left = left;
        }
    };
    draft.advance(Move::RollbackStepDone, compared, record, because);
}
