//! The answer to a request that changed a stream. A failure after the commit is not an error: a caller that gets an
//! error takes the change for not made, and retries.

use super::super::OperationError;
use super::{read, view};
use crate::context::Context;
use crate::telemetry::Chain;
use serde_json::Value as Json;
use tidegate_planner::ask::release::Asked;
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::wire::v1::ReleaseReply;
use tidegate_proto::{Commit, Digest, Key, ReleaseRevision, Revision, StreamName, Value, Write};

/// The answer, with the release concerned as it is now; where the store does not give it back, as it was written.
pub(super) async fn reply(
    context: &Context,
    (asked, at): (Asked, Revision),
    what: String,
) -> Result<ReleaseReply, OperationError> {
    let mut reply = ReleaseReply {
        stream: asked.stream.to_string(),
        changed: asked.commit.is_some(),
        what,
        store_revision: at.0,
        ..ReleaseReply::default()
    };
    let Some(revision) = asked.revision else { return Ok(reply) };
    reply.revision = revision.get();
    let read = read::release(context, &asked.stream, revision).await;
    let known = || known(context, &asked, revision);
    let Some(release) = or_written(read.map(Some), &asked.commit, known, &mut reply)? else {
        return Ok(reply);
    };
    let read = read::manifest(context, release.manifest).await;
    let put = || asked.commit.as_ref().and_then(|commit| manifest_in(commit, release.manifest));
    let manifest = or_written(read.map(Some), &asked.commit, put, &mut reply)?;
    reply.release = view::text(&view::Release::of(&asked.stream, &release, manifest));
    reply.digest = release.digest.to_string();
    Ok(reply)
}

/// What was read; after a commit what is known of it without a read, with a warning that says why.
fn or_written<T>(
    read: Result<Option<T>, OperationError>,
    commit: &Option<Commit>,
    known: impl FnOnce() -> Option<T>,
    reply: &mut ReleaseReply,
) -> Result<Option<T>, OperationError> {
    match read {
        Err(error) if commit.is_some() => {
            let why = Chain(&error).to_string();
            tracing::warn!(why, "the change was made, and could not be read back");
            reply.warnings.push(format!("the change was made; the answer shows it as written: {why}"));
            Ok(known())
        }
        read => read,
    }
}

/// A release as it is known without a read, after a commit: from the stream as this coordinator sees it, or as it was
/// written.
pub(super) fn known(context: &Context, asked: &Asked, revision: ReleaseRevision) -> Option<ComputeRelease> {
    let view = context.mirror.view();
    let head = view.fleet.stream(&asked.stream).and_then(|stream| stream.head(revision));
    head.map(|head| head.release.clone())
        .or_else(|| release_in(asked.commit.as_ref()?, &asked.stream, revision))
}

fn release_in(commit: &Commit, stream: &StreamName, revision: ReleaseRevision) -> Option<ComputeRelease> {
    commit.writes.iter().find_map(|write| match write {
        Write::Put(Key::Release(of, at), Value::Release(record)) if of == stream && *at == revision => {
            Some(record.body.clone())
        }
        _ => None,
    })
}

fn manifest_in(commit: &Commit, digest: Digest) -> Option<Json> {
    commit.writes.iter().find_map(|write| match write {
        Write::Put(Key::Manifest(of), Value::Manifest(record)) if *of == digest => {
            Some(record.body.manifest.clone())
        }
        _ => None,
    })
}
