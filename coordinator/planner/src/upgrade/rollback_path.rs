//! Whether an upgrade can be rolled back: its phase has an edge for that, and every contracted schema allows the
//! version to which it leads.

use super::phase::{Move, Refused, transition};
use crate::contracted;
use crate::fleet::Fleet;
use tidegate_proto::record::upgrade::{Phase, Upgrade};

/// Where turning back leads, or why it does not exist.
pub fn rollback_path(fleet: &Fleet, upgrade: &Upgrade, because: &str) -> Result<Phase, Refused> {
    let next = transition(&upgrade.phase, Move::RollBack(because.to_owned()), upgrade.schema.as_ref())?;
    // As long as the floor is the former version's, no certificate that it is gone can exist.
    let window = fleet.service(&upgrade.spec.service).and_then(|service| service.window());
    let raised = window.is_some_and(|window| window.floor > upgrade.spec.from);
    if raised && let Some(forbidden) = contracted::forbids(fleet, &upgrade.spec.service, upgrade.spec.from) {
        return Err(Refused::Contracted(forbidden.to_string()));
    }
    Ok(next)
}
