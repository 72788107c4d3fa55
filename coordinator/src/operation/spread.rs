//! How many instances of a service are at each version.

use super::{OperationError, answer, parse};
use crate::context::Context;
use tidegate_proto::ServiceName;
use tidegate_proto::wire::v1::{FleetSpreadReply, FleetSpreadRequest};

/// The spread of one service, or of all.
pub async fn fleet_spread(
    context: &Context,
    asked: &FleetSpreadRequest,
) -> Result<FleetSpreadReply, OperationError> {
    let view = context.mirror.view();
    let fleet = &view.fleet;
    let services = if asked.service.is_empty() {
        fleet.services().map(|service| answer::spread(fleet, service)).collect()
    } else {
        vec![answer::spread(fleet, known(fleet, &asked.service)?)]
    };
    Ok(FleetSpreadReply { services, revision: fleet.revision().0 })
}

/// Finds a service by its name; at least one agent has reported it.
pub(super) fn known<'a>(
    fleet: &'a tidegate_planner::Fleet,
    name: &str,
) -> Result<&'a tidegate_planner::ServiceFleet, OperationError> {
    let name: ServiceName = parse(name)?;
    fleet.service(&name).ok_or_else(|| {
        let names: Vec<_> = fleet.services().map(|service| service.name().to_string()).collect();
        let known = if names.is_empty() {
            "no service is known yet".to_owned()
        } else {
            format!("known are {}", names.join(", "))
        };
        OperationError::NotFound(format!("no agent has ever reported a service {name}: {known}"))
    })
}
