//! An upgrade that was started while its database was away is bound to its schema in preflight.

use super::super::Draft;
use super::schema::see_to;
use crate::action::SchemaJob;
use crate::gate::person::finding;
use crate::moment::SchemaFacts;
use crate::upgrade::schema_lock;
use tidegate_proto::commit::Commit;

/// Whether the upgrade has the schema that its spec names, and its lock; sees to it where it has not.
pub(super) fn bound(draft: &mut Draft<'_>) -> bool {
    let (fleet, spec) = (draft.fleet, draft.spec());
    if spec.schema.is_none() || draft.upgrade.schema.is_some() {
        return true;
    }
    let nothing = SchemaFacts::default();
    let facts = draft.facts().unwrap_or(&nothing);
    if !facts.obstacles.is_empty() {
        facts.obstacles.iter().for_each(|obstacle| draft.wait(finding(obstacle, None)));
        // Looked at again until a person has removed them.
        draft.schema(SchemaJob::Bind);
        return false;
    }
    let Some(found) = facts.found.clone() else {
        see_to(draft, SchemaJob::Bind, facts);
        return false;
    };
    if let Err(not_free) = schema_lock::free(fleet, spec, &found) {
        draft.wait(finding(&not_free, not_free.until()));
        return false;
    }
    let extra = schema_lock::take(fleet, Commit::new(), draft.id, spec, &found);
    let what = format!("bound to schema {}", found.id);
    draft.rewrite(extra, |body| body.schema = Some(found), what, "bound", "its database answers");
    false
}
