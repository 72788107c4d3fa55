//! Orders that agents have declined. The same order at once could be declined at once, and so on without an end: an instance
//! rests after a decline, and others go before it.

use crate::fleet::{Instance, ServiceFleet};
use crate::moment::Moment;
use tidegate_proto::{InstanceId, Span, mutant};

/// How long an instance rests.
pub(super) const REST: Span = Span::from_millis(5_000);

/// Whether its agent has declined its last directive a short time ago: it is not ordered again yet.
pub(super) fn rests(moment: &Moment, service: &ServiceFleet, instance: &Instance) -> bool {
    if !instance.has_declined() || mutant::is("declined-order-is-given-at-once") {
        return false;
    }
    let id = InstanceId::new(service.name().clone(), instance.node.clone());
    moment.declined_ms.get(&id).is_some_and(|ms| Span::from_millis(*ms) < REST)
}
