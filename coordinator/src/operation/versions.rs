//! Which versions of a service run: distinct, lowest, highest, and how many instances cannot be asked.

use super::answer::short;
use super::{OperationError, spread};
use crate::room::Room;
use tidegate_proto::ServiceVersion;
use tidegate_proto::wire::v1::{FleetVersionsReply, FleetVersionsRequest};

/// The versions of one service.
pub async fn fleet_versions(
    room: &Room,
    asked: &FleetVersionsRequest,
) -> Result<FleetVersionsReply, OperationError> {
    let picture = room.mirror.picture();
    let service = spread::known(&picture.fleet, &asked.service)?;
    let spread = service.spread();
    let distinct: Vec<u32> = spread.by_version.keys().copied().map(ServiceVersion::get).collect();
    Ok(FleetVersionsReply {
        service: service.name().to_string(),
        minimum: distinct.first().copied(),
        maximum: distinct.last().copied(),
        distinct,
        silent: short(spread.silent),
        unknown: short(spread.unknown),
        revision: picture.fleet.revision().0,
    })
}
