//! Expand and migrate: the database is asked how far it is, ordered to continue, and believed only by its own history.

use super::super::Draft;
use super::enter::roll;
use super::{shared, stragglers};
use crate::action::SchemaJob;
use crate::gate::person::approved;
use crate::gate::schema::form;
use crate::gate::schema::{looks, lost, runs};
use crate::gate::version::all_at;
use crate::moment::SchemaFacts;
use crate::upgrade::is_unseen;
use crate::upgrade::phase::Move;
use tidegate_proto::commit::Commit;
use tidegate_proto::record::upgrade::MigrateOrder;
use tidegate_proto::spec::ApprovalPoint;

pub(super) fn expand(draft: &mut Draft<'_>) {
    if !run(draft, SchemaJob::Expand, |facts| facts.expanded) {
        return;
    }
    let because = "the database's history shows every expand step";
    match draft.upgrade.schema.as_ref().map(|s| s.order) {
        Some(MigrateOrder::BeforeRoll) => {
            let Some(entered) = shared::floors_reached(draft, None) else { return };
            if draft.passes(approved(&draft.view(), ApprovalPoint::Migrate)) {
                draft.advance(Move::Expanded, entered, |_| (), because);
            }
        }
        _ => roll(draft, Move::Expanded, because),
    }
}

pub(super) fn migrate(draft: &mut Draft<'_>) {
    let former = draft.upgrade.former.as_ref().map(|former| former.release.clone());
    if let Some(former) = former.filter(|_| draft.upgrade.waves.is_some()) {
        let target = draft.spec().target();
        let because = "an instance that joined gets the directive of the others";
        stragglers::move_keeping(draft, &target, &[former, target.clone()], because);
    }
    if !run(draft, SchemaJob::Migrate, |facts| facts.migrated) || draft.has_commits() {
        return;
    }
    let because = "the database's history shows every migrate step, verified";
    match draft.upgrade.schema.as_ref().map(|s| s.order) {
        Some(MigrateOrder::BeforeRoll) => roll(draft, Move::Migrated, because),
        // It may have fallen silent since the roll, or another one may have joined.
        _ => {
            let to = draft.spec().to;
            if draft.passes(all_at(&draft.view(), to))
                && draft.passes(approved(&draft.view(), ApprovalPoint::Remove))
            {
                draft.advance(Move::Migrated, Commit::new(), |_| (), because)
            }
        }
    }
}

/// Whether the database shows the job done; sees to it that it runs otherwise. Only what was seen for this decision
/// counts, and only where the database still shows what earlier phases did.
pub(super) fn run(draft: &mut Draft<'_>, job: SchemaJob, is_done: impl Fn(&SchemaFacts) -> bool) -> bool {
    // An instance waits for a look. Another job would end that.
    if draft.works_on_schema() {
        return false;
    }
    let Some(facts) = draft.fresh_facts() else {
        // A job that runs, or did not succeed, looks by itself before it does anything.
        match draft.facts().filter(|facts| facts.running.is_some() || facts.trouble.is_some()) {
            Some(facts) => see_to(draft, job, facts),
            None => look(draft),
        }
        return false;
    };
    if is_lost(draft, facts) {
        return false;
    }
    let done = is_done(facts);
    if !done {
        see_to(draft, job, facts);
    }
    done
}

/// Whether the database shows what the phase builds on, by a look for this very decision that is not older than a look
/// holds; waits otherwise.
pub(super) fn shows(draft: &mut Draft<'_>) -> Shown {
    if draft.upgrade.schema.is_none() {
        return Shown::Yes;
    }
    match draft.recent_facts() {
        None => {
            look(draft);
            Shown::Unknown
        }
        Some(facts) if is_lost(draft, facts) => Shown::Lost,
        Some(_) => Shown::Yes,
    }
}

/// The same for an instance that may be moved beside a job, which has looked before it began. Where no look holds, it asks
/// for none.
pub(super) fn shows_beside_a_job(draft: &mut Draft<'_>) -> Shown {
    let runs = draft.facts().is_some_and(|facts| facts.running.is_some());
    if runs || draft.upgrade.schema.is_none() {
        return Shown::Yes;
    }
    match draft.recent_facts() {
        None => Shown::Unknown,
        Some(facts) if is_lost(draft, facts) => Shown::Lost,
        Some(_) => Shown::Yes,
    }
}

/// Whether the last look, for this very decision, is not older than a look holds; has the database looked at again
/// otherwise.
pub(super) fn is_seen_recently(draft: &mut Draft<'_>) -> bool {
    let is_recent = draft.recent_facts().is_some();
    is_seen_or_looks(draft, is_recent)
}

/// Whether the last look, for this very decision, is recent enough to end the upgrade on it; has the database looked at
/// again otherwise. It is asked once nothing else is waited for: no later phase looks at the database.
pub(super) fn is_seen_at_the_end(draft: &mut Draft<'_>) -> bool {
    let is_recent = draft.last_facts().is_some();
    is_seen_or_looks(draft, is_recent)
}

/// What a look shows that is recent enough to end the upgrade on it, also that the database holds nothing that Tidegate ever
/// did; has the database looked at again where there is none.
pub(super) fn seen_at_the_end<'a>(draft: &mut Draft<'a>) -> Option<&'a SchemaFacts> {
    let seen = draft.last_seen();
    if seen.is_none() {
        look(draft);
    }
    seen
}

fn is_seen_or_looks(draft: &mut Draft<'_>, is_seen: bool) -> bool {
    if !is_seen {
        look(draft);
    }
    is_seen
}

/// What a database shows of what the phase builds on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Yes,
    /// It is looked at now, or does not answer.
    Unknown,
    /// It shows that something is gone that was there.
    Lost,
}

/// Has the database looked at for the decision before which the upgrade is.
pub(super) fn look(draft: &mut Draft<'_>) {
    draft.schema(SchemaJob::Look);
    draft.wait(looks(SchemaJob::Look.word(), draft.facts()));
}

/// Asks for a look at the database where none was seen since the store was reconciled.
pub(super) fn see_after_reconciliation(draft: &mut Draft<'_>) {
    if is_unseen(draft.fleet, draft.moment, draft.id, draft.upgrade) && !draft.works_on_schema() {
        draft.schema(SchemaJob::Look);
    }
}

/// Asks for a look at the database where the last one is older than a look holds, and another upgrade goes by it. This one
/// may be paused, or wait for instances, and look at nothing by itself.
pub(super) fn see_for_others(draft: &mut Draft<'_>) {
    let is_old = draft.upgrade.schema.is_some() && draft.recent_facts().is_none();
    if is_old && !draft.works_on_schema() && form::is_gone_by(&draft.view()) {
        draft.schema(SchemaJob::Look);
    }
}

/// Whether the database no longer shows what an earlier phase did: then it is looked at again, and nothing begins.
fn is_lost(draft: &mut Draft<'_>, facts: &SchemaFacts) -> bool {
    let Some(lost) = lost(&draft.view(), facts) else { return false };
    draft.schema(SchemaJob::Look);
    draft.wait(lost);
    true
}

/// Has the job run, and says how it goes.
pub(super) fn see_to(draft: &mut Draft<'_>, job: SchemaJob, facts: &SchemaFacts) {
    draft.schema(job);
    draft.wait(runs(job.word(), facts));
    draft.checkpoint(0, true);
}
