//! Remove: the floor stands; the old code leaves the nodes. Then contract, on its certificate, or the end.

use super::super::{Draft, SchemaJob};
use super::enter::approved;
use super::{acknowledged, all_at, all_serving, direct, schema};
use crate::reason::{Reason, Sample};
use crate::upgrade::phase::Move;
use tidegate_proto::commit::Commit;
use tidegate_proto::spec::ApprovalPoint;

pub(super) fn remove(draft: &mut Draft<'_>) {
    let target = draft.spec().target();
    direct(draft, std::slice::from_ref(&target), "the old code is removed");
    let gone = removed(draft);
    let acknowledged = acknowledged(draft);
    let at_new = all_at(draft, target.version);
    if draft.has_commits() || !(gone && acknowledged && at_new) {
        return;
    }
    if draft.upgrade.schema.is_some() {
        if approved(draft, ApprovalPoint::Contract)
            && schema::run(draft, SchemaJob::Look, |facts| facts.migrated)
        {
            draft.certify();
            draft.wait(Reason::Schema {
                job: "contract".to_owned(),
                progress: "its certificate is being made".to_owned(),
            });
        }
        return;
    }
    if all_serving(draft) {
        draft.advance(
            Move::Removed,
            Commit::new(),
            |_| (),
            "every instance was seen at the new version, in rotation, healthy",
        );
    }
}

fn removed(draft: &mut Draft<'_>) -> bool {
    let Some(service) = draft.service() else { return false };
    let nodes = Sample::of(service.cluttered().iter(), service.cluttered().len());
    !draft.wait_for_any(nodes, |nodes| Reason::Removing { nodes })
}
