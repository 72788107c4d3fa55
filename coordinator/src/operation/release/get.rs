//! One release: by its revision, by its tag, or what is deployed.

use super::super::OperationError;
use super::{parse, read, revision, stream_name, view};
use crate::room::Room;
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::wire::v1::{GetReleaseRequest, ReleaseReply, ShowStreamRequest};
use tidegate_proto::{ReleaseTag, StreamName};

/// Finds a release.
pub async fn get_release(room: &Room, asked: &GetReleaseRequest) -> Result<ReleaseReply, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let release = find(room, &stream, asked.revision, &asked.tag).await?;
    let manifest = read::manifest(room, release.manifest).await?;
    Ok(ReleaseReply {
        stream: stream.to_string(),
        revision: release.revision.get(),
        release: view::text(&view::Release::of(&stream, &release, Some(manifest))),
        digest: release.digest.to_string(),
        ..ReleaseReply::default()
    })
}

/// What main traffic should go to: nothing but that, so that the answer changes only with it.
pub async fn active_release(room: &Room, asked: &ShowStreamRequest) -> Result<view::Pointer, OperationError> {
    let stream = stream_name(&asked.stream)?;
    let picture = room.mirror.picture();
    let deployed = picture.fleet.stream(&stream).and_then(|found| found.deployed.as_deref());
    deployed.map(|head| view::Pointer::to(&stream, head)).ok_or_else(|| nothing(&stream))
}

/// By revision; else by tag: its latest revision; else what is deployed.
pub(super) async fn find(
    room: &Room,
    stream: &StreamName,
    number: u64,
    tag: &str,
) -> Result<ComputeRelease, OperationError> {
    if number != 0 {
        return read::release(room, stream, revision(number)?).await;
    }
    if !tag.is_empty() {
        let tag: ReleaseTag = parse(tag)?;
        let found = read::tag(room, stream, &tag).await?;
        let missing = || OperationError::NotFound(format!("{stream} has no release with the tag {tag}"));
        return read::release(room, stream, found.ok_or_else(missing)?.revision).await;
    }
    deployed(room, stream)
}

/// What is deployed, as the picture shows it.
fn deployed(room: &Room, stream: &StreamName) -> Result<ComputeRelease, OperationError> {
    let picture = room.mirror.picture();
    let head = picture.fleet.stream(stream).and_then(|stream| stream.deployed.as_deref());
    head.map(|head| head.release.clone()).ok_or_else(|| nothing(stream))
}

fn nothing(of: &StreamName) -> OperationError {
    OperationError::NotFound(format!("nothing of {of} is deployed yet"))
}
