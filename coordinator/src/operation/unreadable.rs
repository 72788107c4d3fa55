//! A record that cannot be read: what is wrong with it, and how its previous value is restored.

use super::OperationError;
use crate::context::Context;
use crate::report::View;
use tidegate_proto::Key;

/// What is wrong with a record that cannot be read, and what to do; none = it can be read, or is not there.
pub(super) fn advice(context: &Context, view: &View, key: &Key) -> Option<String> {
    let (_, why, at) = view.fleet.unreadable().find(|(unreadable, ..)| *unreadable == key)?;
    let (full, before) = (context.store.prefix().key(key), at.0 - 1);
    Some(format!(
        "the record {key} {why} (revision {at}): find out which program wrote it, and restore its previous value: \
         `etcdctl get --rev={before} --print-value-only {full}` shows it unless it was compacted, else take it from a backup; \
         `etcdctl put {full} < FILE` writes it"
    ))
}

/// What stops everything is named before what is wrong with one record: a store that was restored is reconciled first,
/// because the restored copy may be what brought that record.
pub(super) fn in_order(trouble: Option<String>, record: Option<String>) -> Option<String> {
    match (trouble, record) {
        (Some(trouble), Some(record)) => Some(format!("{trouble}. After that: {record}")),
        (trouble, record) => trouble.or(record),
    }
}

/// Refuses a request if one of its records cannot be read. It reads the view: the caller must not hold one.
pub(super) fn refuse(context: &Context, what: &str, keys: &[Key]) -> Result<(), OperationError> {
    let trouble = context.trouble();
    let view = context.mirror.view();
    match keys.iter().find_map(|key| advice(context, &view, key)) {
        Some(record) => {
            let why = in_order(trouble, Some(record)).unwrap_or_default();
            Err(OperationError::Refused(format!("{what}: {why}")))
        }
        None => Ok(()),
    }
}
