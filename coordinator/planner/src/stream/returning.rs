//! Rollbacks that wait for an image: what they hold back, and how they are made. The gate is `gate::release::deploy`.

use crate::gate::Reason;
use crate::release::status::Refused;
use crate::stream::change::Change;
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus, TagRecord};
use tidegate_proto::record::stream::{Head, Stream};
use tidegate_proto::{Key, ReleaseRevision, StreamName};

/// The first release that a failed rollback holds back.
pub fn held_by(stream: &Stream, failed: &Head) -> Option<ReleaseRevision> {
    let rollback = failed.returns() && failed.release.status == ReleaseStatus::Error;
    let moving = stream.pending.iter().chain(stream.canary.as_deref()).map(|head| head.release.revision);
    moving.filter(|revision| rollback && *revision < failed.release.revision).min()
}

/// How to go back without a prewarm.
pub(crate) fn emergency(name: &StreamName, target: ReleaseRevision) -> String {
    format!(
        "Where you know that the image is there: `tidegate release rollback {target} --stream {name} --no-prewarm --why …`"
    )
}

/// What a person does about a rollback without a prewarm whose image is being removed.
pub(crate) fn while_removed(reason: &Reason) -> String {
    format!(
        "its image is being removed ({reason}); what is deployed stays. Roll back once that task has ended (`tidegate task list`), or without `--no-prewarm`, which waits for it and warms the image up again"
    )
}

/// Adds a revision with an old body that goes out at once; its number.
pub(crate) fn again(
    change: &mut Change<'_>,
    wanted: &ComputeRelease,
    who: &str,
) -> Result<ReleaseRevision, Refused> {
    let revision = created_with_body(change, wanted, who);
    change.goes_out(revision)?;
    Ok(revision)
}

/// Adds a revision with an old body; its number.
pub(crate) fn created_with_body(
    change: &mut Change<'_>,
    wanted: &ComputeRelease,
    who: &str,
) -> ReleaseRevision {
    let revision = ReleaseRevision::after(change.stream.latest.as_ref().map(|latest| latest.revision));
    change.created(ComputeRelease {
        revision,
        rollback_of: Some(wanted.revision),
        status: ReleaseStatus::Pending,
        because: String::new(),
        by: who.to_owned(),
        created_at: change.moment.wall,
        approved: None,
        deployed_at: None,
        ..wanted.clone()
    });
    // A commit that writes a tag's record rewrites the stream too, so the stream's compare is enough.
    let key = Key::ReleaseTag(change.name.clone(), wanted.tag.clone());
    let body = TagRecord { revision, version: wanted.version };
    change.also(|commit| commit.put(key, body));
    revision
}
