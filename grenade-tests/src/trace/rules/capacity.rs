//! Capacity: a directive takes an instance out only while enough of the others are in service (rule 4).

use tidegate_proto::record::directive::Disposition;
use tidegate_proto::{Key, NodeId, Value};

use super::Judge;
use crate::trace::revision::Written;
use crate::trace::seen::{Instance, Seen};

impl Judge<'_> {
    /// An instance is taken out only while enough others stay, and with the budget's key in the same commit.
    pub(super) fn capacity(&mut self) {
        for Written { key, put, .. } in &self.revision.writes {
            let (Key::Directive(service, node), Some(put)) = (key, put) else { continue };
            if matches!(&put.value, Value::Directive(d) if matches!(d.body.disposition, Disposition::Serve { .. }))
            {
                // It lets in, and takes nothing out.
                continue;
            }
            let at = (service.clone(), node.clone());
            let serves = |seen: &Seen| seen.instances.get(&at).is_some_and(Instance::is_in_service);
            if !serves(self.before) || serves(self.after) {
                continue;
            }
            let taken = self.revision.writes.iter().any(|w| w.key == Key::Budget(service.clone()));
            self.holds(4, taken, || format!("{node} was taken out beside the budget"));
            let spec = self.after.active.get(service).and_then(|id| self.after.upgrades.get(id));
            let Some(spec) = spec.map(|upgrade| &upgrade.spec) else {
                self.holds(4, false, || format!("{node} was taken out by no upgrade"));
                continue;
            };
            let whole = self.after.fleet(service).count();
            // No coordinator had to know yet of those that fell out by themselves a moment ago.
            let fell_out = |(_, i): &(&NodeId, &Instance)| i.fell_out_after(self.known);
            let left = self.after.in_service(service) + self.after.fleet(service).filter(fell_out).count();
            let least = spec.min_in_service.rounded_up(whole);
            let (out, most) = (whole - left, spec.max_unavailable.rounded_down(whole).max(1));
            self.holds(4, left >= least, || format!("{left} serve after {node} was taken out, {least} must"));
            self.holds(4, out <= most, || format!("{out} are out after {node} was taken out, {most} may be"));
        }
    }
}
