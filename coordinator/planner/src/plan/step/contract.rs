//! Contract: runs on the stored certificate, to its end; there is no way back from here.

use super::super::{Draft, SchemaJob};
use super::{all_serving, schema};
use crate::upgrade::phase::Move;
use tidegate_proto::Digest;
use tidegate_proto::commit::Commit;

pub(super) fn contract(draft: &mut Draft<'_>, certificate: Digest) {
    if schema::run(draft, SchemaJob::Contract { certificate }, |facts| facts.contracted) && all_serving(draft)
    {
        draft.advance(Move::Contracted, Commit::new(), |_| (), "the database's history shows every contract step, and every instance was seen at the new version, in rotation, healthy");
    }
}
