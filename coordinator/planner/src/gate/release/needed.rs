//! Whether a floor may be lowered: not below what a compute release needs (rule 8).

use super::ReleaseGate;
use crate::fleet::Fleet;
use crate::gate::{NeededBy, Reason, StoreGate};
use tidegate_proto::{Key, ServiceName, ServiceVersion, mutant};

/// Why a service's floor may not be lowered to `floor`; none = it may, under `release::need::same`.
pub(crate) fn forbids(fleet: &Fleet, service: &ServiceName, floor: ServiceVersion) -> Option<Reason> {
    let key = Key::Need(service.clone());
    if let Some(why) = fleet.unreadable_at(&key) {
        return Some(Reason::Store(StoreGate::Unreadable { key: key.to_string(), why: why.to_string() }));
    }
    if mutant::is("need-is-not-asked") {
        return None;
    }
    let (stream, holder) = fleet.need(service)?.highest()?;
    (holder.minimum > floor).then(|| {
        Reason::Release(ReleaseGate::Needed {
            service: service.clone(),
            floor,
            by: Box::new(NeededBy {
                stream: stream.clone(),
                revision: holder.revision,
                tag: holder.tag.clone(),
                hold: holder.hold,
                needs: holder.minimum,
            }),
        })
    })
}
