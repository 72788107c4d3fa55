//! Releases, tags and manifests, read from the store by their keys: the view holds none of them. Every question
//! costs the same number of reads, however long the history is.

use super::super::{OperationError, store_error};
use crate::context::Context;
use serde_json::Value as Json;
use tidegate_planner::Stored;
use tidegate_proto::record::release::{ComputeRelease, TagRecord};
use tidegate_proto::{Digest, Key, ReleaseRevision, ReleaseTag, StreamName, Value};
use tidegate_store::Entry;

/// A release, with its mod_revision.
pub(super) async fn stored(
    context: &Context,
    stream: &StreamName,
    revision: ReleaseRevision,
) -> Result<Stored<ComputeRelease>, OperationError> {
    let key = Key::Release(stream.clone(), revision);
    let entry = context.store.get(&key).await.map_err(store_error("read the release"))?;
    let missing = || OperationError::NotFound(format!("{stream} has no revision {revision}"));
    of(entry.ok_or_else(missing)?)
}

pub(super) async fn release(
    context: &Context,
    stream: &StreamName,
    revision: ReleaseRevision,
) -> Result<ComputeRelease, OperationError> {
    Ok(stored(context, stream, revision).await?.record.body)
}

/// The release that an entry holds.
pub(super) fn of(entry: Entry) -> Result<Stored<ComputeRelease>, OperationError> {
    match entry.value {
        Ok(Value::Release(record)) => Ok(Stored { record, at: entry.mod_revision }),
        Ok(_) => Err(unreadable(&entry.key, "is no release")),
        Err(why) => Err(unreadable(&entry.key, &why.to_string())),
    }
}

/// Where the latest revision of a tag is; none = the tag was never released in this stream.
pub(super) async fn tag(
    context: &Context,
    stream: &StreamName,
    tag: &ReleaseTag,
) -> Result<Option<Stored<TagRecord>>, OperationError> {
    let key = Key::ReleaseTag(stream.clone(), tag.clone());
    let entry = context.store.get(&key).await.map_err(store_error("read the tag"))?;
    let read = entry.map(|entry| match entry.value {
        Ok(Value::ReleaseTag(record)) => Ok(Stored { record, at: entry.mod_revision }),
        Ok(_) => Err(unreadable(&entry.key, "is no tag")),
        Err(why) => Err(unreadable(&entry.key, &why.to_string())),
    });
    read.transpose()
}

pub(super) async fn manifest(context: &Context, digest: Digest) -> Result<Json, OperationError> {
    let key = Key::Manifest(digest);
    let entry = context.store.get(&key).await.map_err(store_error("read the manifest"))?;
    match entry.map(|entry| entry.value) {
        Some(Ok(Value::Manifest(record))) => Ok(record.body.manifest),
        Some(Ok(_)) => Err(unreadable(&key, "is no manifest")),
        Some(Err(why)) => Err(unreadable(&key, &why.to_string())),
        None => Err(unreadable(&key, "is missing, although a release names it")),
    }
}

fn unreadable(key: &Key, why: &str) -> OperationError {
    OperationError::Refused(format!("the record {key} {why}: a person must look at it"))
}
