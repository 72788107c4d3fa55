//! Which upgrades there are.

use super::{OperationError, answer, parse_given};
use crate::context::Context;
use tidegate_proto::wire::v1::{ListUpgradesReply, ListUpgradesRequest};
use tidegate_proto::{ServiceName, UpgradeId};

/// The most on one page.
const MOST: usize = 1000;

/// Lists upgrades by id, a page at a time.
pub async fn list_upgrades(
    context: &Context,
    asked: &ListUpgradesRequest,
) -> Result<ListUpgradesReply, OperationError> {
    let service: Option<ServiceName> = parse_given(&asked.service)?;
    let after: Option<UpgradeId> = parse_given(&asked.after)?;
    let limit = match asked.limit {
        0 => 100,
        limit => (limit as usize).min(MOST),
    };
    let view = context.mirror.view();
    let wanted = view.fleet.upgrades().filter(|(id, upgrade)| {
        after.as_ref().is_none_or(|after| *id > after)
            && service.as_ref().is_none_or(|service| upgrade.spec.service == *service)
            && !(asked.active && upgrade.phase.is_over())
    });
    let mut upgrades: Vec<_> =
        wanted.take(limit + 1).map(|(id, upgrade)| answer::summary(&view.fleet, id, upgrade)).collect();
    let more = upgrades.len() > limit;
    upgrades.truncate(limit);
    Ok(ListUpgradesReply { upgrades, more })
}
