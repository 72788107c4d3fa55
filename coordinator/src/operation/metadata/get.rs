//! What one instance is served: which document is known from memory, and the document is one read.

use super::super::{OperationError, store_error};
use super::{find, parse, view};
use crate::context::Context;
use serde_json::Value as Json;
use std::time::Duration;
use tidegate_planner::metadata;
use tidegate_proto::metadata::document_digest;
use tidegate_proto::record::group::DocumentVersion;
use tidegate_proto::wire::v1::InstanceMetadataRequest;
use tidegate_proto::{GroupName, Key, NodeId, Revision, Value};
use tidegate_store::Snapshot;
use tokio::time::Instant;

/// How long the watch may take to show what a read has shown already.
const CATCH_UP: Duration = Duration::from_secs(2);

/// Answers for one instance, from no older state of the group than the store had when it was asked: an instance that asks
/// one coordinator after another is not served a former document again.
pub async fn instance_metadata(
    context: &Context,
    asked: &InstanceMetadataRequest,
) -> Result<view::Served, OperationError> {
    let (group, instance): (GroupName, NodeId) = (parse(&asked.group)?, parse(&asked.instance)?);
    let late = Instant::now() + CATCH_UP;
    loop {
        let shown = Shown::of(context, &group, &instance)?;
        let document = Key::Document(group.clone(), shown.version.generation);
        let keys = [Key::Group(group.clone()), document.clone()];
        let read = context.store.get_many(&keys).await.map_err(store_error("read the document"))?;
        let is_current = read.get(&keys[0]).is_some_and(|entry| entry.mod_revision == shown.at);
        if is_current {
            let metadata = document_in(read, &document)?;
            if document_digest(&metadata) != shown.version.digest {
                return Err(unreadable(&document, "is not the document that its group's record names"));
            }
            let generation = shown.version.generation;
            return Ok(view::Served { group, instance, generation, exposed: shown.exposed, metadata });
        }
        let left = late.saturating_duration_since(Instant::now());
        if left.is_zero() || !context.mirror.reaches_within(read.revision, left).await {
            return Err(OperationError::Unavailable(format!(
                "this coordinator has not seen the newest record of {group} within {CATCH_UP:?}: ask again"
            )));
        }
    }
}

/// What the watch shows of a group to one instance.
struct Shown {
    version: DocumentVersion,
    exposed: bool,
    /// Which record of the group says so.
    at: Revision,
}

impl Shown {
    fn of(context: &Context, group: &GroupName, instance: &NodeId) -> Result<Self, OperationError> {
        let view = context.mirror.view();
        let stored = find(&view.fleet, group)?;
        if !metadata::is_member(&view.fleet, group, stored, instance) {
            return Err(OperationError::NotFound(format!("{group} has no instance {instance}")));
        }
        let served = metadata::document_of(&view.fleet, group, stored, instance);
        let version = served
            .map_err(|unknown| {
                OperationError::Refused(format!(
                    "what {instance} is served of {group} is not known: {unknown}. A person must look at exposed/{group}/, \
                     or cancel the update (`tidegate metadata cancel {group} --why …`)"
                ))
            })?
            .ok_or_else(|| {
                OperationError::NotFound(format!("{group} has no document yet that {instance} may have"))
            })?;
        let exposed = stored.update.as_ref().is_some_and(|update| update.to == version);
        Ok(Self { version, exposed, at: stored.at })
    }
}

fn document_in(read: Snapshot, key: &Key) -> Result<Json, OperationError> {
    match read.entries.into_iter().find(|entry| entry.key == *key).map(|entry| entry.value) {
        Some(Ok(Value::Document(record))) => Ok(record.body.document),
        Some(Ok(_)) => Err(unreadable(key, "is no document")),
        Some(Err(why)) => Err(unreadable(key, &why.to_string())),
        None => Err(unreadable(key, "is missing")),
    }
}

fn unreadable(key: &Key, why: &str) -> OperationError {
    OperationError::Refused(format!("the record {key} {why}: a person must look at it"))
}
