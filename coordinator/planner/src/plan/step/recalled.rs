//! Orders back into rotation, most of them for want of capacity. Where health goes up and down, the next drain at once would
//! be withdrawn at once, and so on without an end: a service rests after such an order, and takes none out.

use super::declined::REST;
use crate::fleet::{Sample, ServiceFleet};
use crate::gate::Reason;
use crate::gate::roll::RollGate;
use crate::moment::Moment;
use tidegate_proto::{Span, mutant};

/// Why none is taken out yet: instances were ordered back into rotation a short time ago.
pub(super) fn rest(moment: &Moment, service: &ServiceFleet) -> Option<Reason> {
    let passed = moment.recalled_ms.get(service.name()).copied().map(Span::from_millis)?;
    if passed >= REST || mutant::is("recalled-one-is-drained-at-once") {
        return None;
    }
    let last = service.last_recall()?;
    let of_it = service.recalled().each.filter(|i| i.directive.as_ref().is_some_and(|d| d.at == last));
    let nodes = Sample::counted(of_it.map(|instance| &instance.node));
    Some(Reason::from(RollGate::Recalled { nodes, rest: REST }))
}
