//! Why an upgrade does not move: what it waits for, who can end the wait, which command helps.

use super::{OperationError, answer, find, parse, unreadable};
use crate::context::Context;
use crate::report::View;
use tidegate_proto::wire::v1::{ExplainUpgradeReply, ExplainUpgradeRequest};
use tidegate_proto::{Key, UpgradeId};

/// Explains what an upgrade waits for.
pub async fn explain_upgrade(
    context: &Context,
    asked: &ExplainUpgradeRequest,
) -> Result<ExplainUpgradeReply, OperationError> {
    let id: UpgradeId = parse(&asked.id)?;
    unreadable::refuse(context, &format!("upgrade {id} does not move"), &[Key::Upgrade(id.clone())])?;
    let trouble = context.trouble();
    let view = context.mirror.view();
    let upgrade = find(&view.fleet, &id)?;
    let lock = Key::Active(upgrade.spec.service.clone());
    let lock = unreadable::advice(context, &view, &lock).or_else(|| lost(&view, &id, &lock));
    let waiting = view.waiting.get(&id).map(|stored| stored.record.body.clone());
    Ok(ExplainUpgradeReply {
        upgrade: Some(answer::summary(&view.fleet, &id, upgrade)),
        at: waiting.as_ref().map(|waiting| waiting.at.0),
        more: waiting.as_ref().map_or(0, |waiting| waiting.more),
        reasons: waiting
            .map(|waiting| waiting.reasons.into_iter().map(Into::into).collect())
            .unwrap_or_default(),
        leaving: view.fleet.service(&upgrade.spec.service).map(answer::leaving).unwrap_or_default(),
        trouble: unreadable::in_order(trouble, lock).filter(|_| !upgrade.phase.is_over()),
    })
}

/// An upgrade that is not over and holds no lock is not advanced by any leader.
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
