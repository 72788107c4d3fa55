//! Contract: runs on the stored certificate, to its end; it cannot be rolled back.

use super::super::Draft;
use super::remove::has_its_window;
use super::{schema, stragglers};
use crate::action::SchemaJob;
use crate::gate::roll::all_serving;
use crate::gate::version::all_at;
use crate::upgrade::phase::Move;
use tidegate_proto::Digest;
use tidegate_proto::commit::Commit;

pub(super) fn contract(draft: &mut Draft<'_>, certificate: Digest) {
    let target = draft.spec().target();
    stragglers::move_to(draft, &target, "the old code is removed");
    if draft.has_commits() {
        // The job goes on meanwhile: an instance that is moved was refused by the floor, and is no user of the schema.
        if !draft.works_on_schema() && !draft.facts().is_some_and(|facts| facts.contracted) {
            draft.schema(job(draft, certificate));
        }
        return;
    }
    let job = job(draft, certificate);
    if !schema::run(draft, job, |facts| facts.contracted) {
        return;
    }
    let (serving, at_new) =
        (draft.passes(all_serving(&draft.view())), draft.passes(all_at(&draft.view(), target.version)));
    // Instances may be waited for after contract, and the database may be replaced in that time.
    if serving && at_new && has_its_window(draft) && schema::is_seen_at_the_end(draft) {
        let because = "the database's history shows every contract step, and every instance was seen at the new version, in rotation, healthy";
        draft.advance(Move::Contracted, Commit::new(), |body| body.certificate = Some(certificate), because);
    }
}

/// Contract; or, where rows came between the certificate and its first step, first the fill.
fn job(draft: &Draft<'_>, certificate: Digest) -> SchemaJob {
    match draft.fresh_facts() {
        Some(facts) if facts.expanded && !facts.migrated && !facts.contracted => SchemaJob::Migrate,
        _ => SchemaJob::Contract { certificate },
    }
}
