//! What one instance is served: which document is known from memory, and the document is one read.

use super::super::{OperationError, store_error};
use super::{find, parse, view};
use crate::room::Room;
use tidegate_planner::metadata;
use tidegate_proto::wire::v1::InstanceMetadataRequest;
use tidegate_proto::{GroupName, Key, NodeId, Value};

/// Answers for one instance.
pub async fn get(room: &Room, asked: &InstanceMetadataRequest) -> Result<view::Served, OperationError> {
    let (group, instance): (GroupName, NodeId) = (parse(&asked.group)?, parse(&asked.instance)?);
    let (version, exposing) = {
        let picture = room.mirror.picture();
        let stored = find(&picture.fleet, &group)?;
        if !metadata::is_member(&picture.fleet, &group, stored, &instance) {
            return Err(OperationError::NotFound(format!("{group} has no instance {instance}")));
        }
        let served = metadata::document_of(&picture.fleet, &group, stored, &instance);
        let exposing = stored.update.as_ref().map(|update| update.to);
        (served, exposing)
    };
    let version = version.ok_or_else(|| {
        OperationError::NotFound(format!("{group} has no document yet that {instance} may have"))
    })?;
    let key = Key::Document(group.clone(), version.generation);
    let entry = room.store.get(&key).await.map_err(store_error("read the document"))?;
    let document = match entry.map(|entry| entry.value) {
        Some(Ok(Value::Document(record))) => record.body.document,
        Some(Ok(_)) => return Err(unreadable(&key, "is no document")),
        Some(Err(why)) => return Err(unreadable(&key, &why.to_string())),
        // The leader is at least two updates ahead of what this coordinator sees.
        None => {
            return Err(OperationError::Unavailable(format!(
                "generation {} of {group} is there no longer, and this coordinator has not seen yet what follows it: ask again",
                version.generation
            )));
        }
    };
    Ok(view::Served {
        group,
        instance,
        generation: version.generation,
        exposed: exposing == Some(version),
        metadata: document,
    })
}

fn unreadable(key: &Key, why: &str) -> OperationError {
    OperationError::Refused(format!("the record {key} {why}: a person must look at it"))
}
