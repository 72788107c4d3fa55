//! Why an upgrade does not move: what it waits for, who can end the wait, which command helps.

use super::{OperationError, answer, find, upgrade_id};
use crate::context::Context;
use crate::report::View;
use tidegate_proto::wire::v1::{ExplainUpgradeReply, ExplainUpgradeRequest};
use tidegate_proto::{Key, UpgradeId};

/// Explains what an upgrade waits for.
pub async fn explain_upgrade(
    context: &Context,
    asked: &ExplainUpgradeRequest,
) -> Result<ExplainUpgradeReply, OperationError> {
    let id = upgrade_id(&asked.id)?;
    let trouble = context.trouble();
    let view = context.mirror.view();
    if let Some(why) = unreadable(&view, &Key::Upgrade(id.clone())) {
        let why = in_order(trouble, Some(why)).unwrap_or_default();
        return Err(OperationError::Refused(format!("upgrade {id} does not move: {why}")));
    }
    let upgrade = find(&view.fleet, &id)?;
    let lock = Key::Active(upgrade.spec.service.clone());
    let lock = unreadable(&view, &lock).or_else(|| lost(&view, &id, &lock));
    let waiting = view.waiting.get(&id).map(|stored| stored.record.body.clone());
    Ok(ExplainUpgradeReply {
        upgrade: Some(answer::summary(&view.fleet, &id, upgrade)),
        at: waiting.as_ref().map(|waiting| waiting.at.0),
        more: waiting.as_ref().map_or(0, |waiting| waiting.more),
        reasons: waiting
            .map(|waiting| waiting.reasons.into_iter().map(Into::into).collect())
            .unwrap_or_default(),
        leaving: view.fleet.service(&upgrade.spec.service).map(answer::leaving).unwrap_or_default(),
        trouble: in_order(trouble, lock).filter(|_| !upgrade.phase.is_over()),
    })
}

/// What stops every upgrade is named before what is wrong with a record of this one: a store that was restored is
/// reconciled first, because the restored copy may be what brought that record.
fn in_order(trouble: Option<String>, record: Option<String>) -> Option<String> {
    match (trouble, record) {
        (Some(trouble), Some(record)) => Some(format!("{trouble}. After that: {record}")),
        (trouble, record) => trouble.or(record),
    }
}

/// What is wrong with a record that the upgrade cannot move without, and what to do.
fn unreadable(view: &View, key: &Key) -> Option<String> {
    let (key, why, at) = view.fleet.unreadable().find(|(bad, ..)| *bad == key)?;
    Some(format!(
        "the record {key} {why} (revision {at}): find out who wrote it, and put back what it was before, from a backup of that key \
         (`etcdctl put`)"
    ))
}

/// An upgrade that is not over and holds no lock is moved by nobody.
fn lost(view: &View, id: &UpgradeId, lock: &Key) -> Option<String> {
    let service = &view.fleet.upgrade(id)?.spec.service;
    let holder = view.fleet.lock(service).map(|(holder, _)| holder);
    (holder != Some(id)).then(|| {
        let found = holder.map_or_else(|| "is gone".to_owned(), |holder| format!("names upgrade {holder}"));
        format!(
            "the record {lock}, which this upgrade requires, {found}: it was removed or replaced; put it back"
        )
    })
}
