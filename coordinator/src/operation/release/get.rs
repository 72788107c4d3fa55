//! One release: by its revision, by its tag, or what is deployed.

use super::super::OperationError;
use super::{parse, read, revision, stream_name, view};
use crate::context::Context;
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::wire::v1::{GetReleaseRequest, ReleaseReply, ShowStreamRequest};
use tidegate_proto::{ReleaseTag, StreamName};

/// Finds a release.
pub async fn get_release(
    context: &Context,
    asked: &GetReleaseRequest,
) -> Result<ReleaseReply, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let release = find(context, &stream, asked.revision, &asked.tag).await?;
    let manifest = read::manifest(context, release.manifest).await?;
    Ok(ReleaseReply {
        stream: stream.to_string(),
        revision: release.revision.get(),
        release: view::text(&view::Release::of(&stream, &release, Some(manifest))),
        digest: release.digest.to_string(),
        ..ReleaseReply::default()
    })
}

/// What main traffic should go to: nothing but that, so that the answer changes only with it.
pub async fn active_release(
    context: &Context,
    asked: &ShowStreamRequest,
) -> Result<view::Pointer, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let view = context.mirror.view();
    let deployed = view.fleet.stream(&stream).and_then(|found| found.deployed.as_deref());
    deployed.map(|head| view::Pointer::to(&stream, head)).ok_or_else(|| nothing(&stream))
}

/// By revision; else by tag: its latest revision; else what is deployed.
pub(super) async fn find(
    context: &Context,
    stream: &StreamName,
    number: u64,
    tag: &str,
) -> Result<ComputeRelease, OperationError> {
    if number != 0 {
        return read::release(context, stream, revision(number)?).await;
    }
    if !tag.is_empty() {
        let tag: ReleaseTag = parse(tag)?;
        let found = read::tag(context, stream, &tag).await?;
        let missing = || OperationError::NotFound(format!("{stream} has no release with the tag {tag}"));
        return read::release(context, stream, found.ok_or_else(missing)?.revision).await;
    }
    deployed(context, stream)
}

/// What is deployed, as the view shows it.
fn deployed(context: &Context, stream: &StreamName) -> Result<ComputeRelease, OperationError> {
    let view = context.mirror.view();
    let head = view.fleet.stream(stream).and_then(|stream| stream.deployed.as_deref());
    head.map(|head| head.release.clone()).ok_or_else(|| nothing(stream))
}

fn nothing(of: &StreamName) -> OperationError {
    OperationError::NotFound(format!("nothing of {of} is deployed yet"))
}
