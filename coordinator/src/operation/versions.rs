//! Which versions of a service run: distinct, lowest, highest, and how many instances cannot be asked.

use super::answer::short;
use super::{OperationError, spread};
use crate::context::Context;
use tidegate_proto::ServiceVersion;
use tidegate_proto::wire::v1::{FleetVersionsReply, FleetVersionsRequest};

/// The versions of one service.
pub async fn fleet_versions(
    context: &Context,
    asked: &FleetVersionsRequest,
) -> Result<FleetVersionsReply, OperationError> {
    let view = context.mirror.view();
    let service = spread::known(&view.fleet, &asked.service)?;
    let spread = service.spread();
    let distinct: Vec<u32> = spread.by_version.keys().copied().map(ServiceVersion::get).collect();
    Ok(FleetVersionsReply {
        service: service.name().to_string(),
        minimum: distinct.first().copied(),
        maximum: distinct.last().copied(),
        distinct,
        silent: short(spread.silent),
        unknown: short(spread.unknown),
        revision: view.fleet.revision().0,
    })
}
