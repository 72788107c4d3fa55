//! Expand and migrate: the database is asked how far it is, told to go on, and believed only by its own history.

use super::super::{Draft, SchemaJob};
use super::enter::{approved, roll};
use crate::moment::SchemaFacts;
use crate::reason::Reason;
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
        Some(MigrateOrder::BeforeRoll) if approved(draft, ApprovalPoint::Migrate) => {
            draft.advance(Move::Expanded, Commit::new(), |_| (), because)
        }
        Some(MigrateOrder::BeforeRoll) => {}
        _ => roll(draft, Move::Expanded, because),
    }
}

pub(super) fn migrate(draft: &mut Draft<'_>) {
    if !run(draft, SchemaJob::Migrate, |facts| facts.migrated) {
        return;
    }
    let because = "the database's history shows every migrate step, verified";
    match draft.upgrade.schema.as_ref().map(|s| s.order) {
        Some(MigrateOrder::BeforeRoll) => roll(draft, Move::Migrated, because),
        _ if approved(draft, ApprovalPoint::Remove) => {
            draft.advance(Move::Migrated, Commit::new(), |_| (), because)
        }
        _ => {}
    }
}

/// Whether the database shows the job done; sees to it that it runs otherwise.
pub(super) fn run(draft: &mut Draft<'_>, job: SchemaJob, is_done: impl Fn(&SchemaFacts) -> bool) -> bool {
    let Some(facts) = draft.facts() else {
        draft.schema(SchemaJob::Look);
        draft.wait(Reason::Schema {
            job: job.word().to_owned(),
            progress: "the database is being looked at".to_owned(),
        });
        return false;
    };
    if is_done(facts) {
        return true;
    }
    see_to(draft, job, facts);
    false
}

/// Has the job run, and says how it goes.
pub(super) fn see_to(draft: &mut Draft<'_>, job: SchemaJob, facts: &SchemaFacts) {
    draft.schema(job);
    draft.wait(match (&facts.trouble, &facts.running) {
        (Some(why), _) => Reason::SchemaTrouble { job: job.word().to_owned(), why: why.clone() },
        (None, Some(progress)) => Reason::Schema { job: job.word().to_owned(), progress: progress.clone() },
        (None, None) => Reason::Schema { job: job.word().to_owned(), progress: "about to begin".to_owned() },
    });
    draft.checkpoint(0, true);
}
