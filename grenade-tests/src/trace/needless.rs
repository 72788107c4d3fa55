//! Drains that nothing asked for: an upgrade takes an instance out of rotation that serves at the version which it is to have.

use std::collections::BTreeSet;

use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, Value};

use super::instance::Instance;
use super::rules::{Broken, is_an_operators_request};
use super::seen::Seen;
use super::{Trace, Written};

impl Trace {
    /// Every directive that drained, stopped or replaced an instance which served at the version that its upgrade goes to. In a
    /// rollback that is the former version, and what was to be replaced with the new one may only say that it runs the former.
    /// What came into service a moment ago was not known to serve, and an order that presumes it out is declined by its agent.
    /// An instance that a person retries is ordered by that person, and so is what a person puts back.
    pub fn needless_drains(&self) -> Vec<Broken> {
        let (mut needless, mut before, mut moved) = (Vec::new(), Seen::default(), BTreeSet::new());
        for revision in &self.revisions {
            let known = self.known_at(revision.number);
            let is_foreign = self.by_hand.contains(&revision.number) || self.lies.contains(&revision.number);
            let is_asked = is_foreign || revision.writes.iter().any(is_an_operators_request);
            for Written { key, put, .. } in &revision.writes {
                let (Key::Directive(service, node), Some(Value::Directive(directive))) =
                    (key, put.as_ref().map(|put| &put.value))
                else {
                    continue;
                };
                let order = &directive.body;
                let at = (service.clone(), node.clone());
                let id = before.active.get(service);
                let Some((id, upgrade)) = id.and_then(|id| Some((id, before.upgrades.get(id)?))) else {
                    continue;
                };
                // What the store before a copy had ordered is not known.
                let (wanted, may_be_another) = match &upgrade.phase {
                    Phase::RollingBack { .. } => {
                        let was_moved = moved.contains(&(at.clone(), id.clone()));
                        (upgrade.spec.from, was_moved || self.copied.is_some())
                    }
                    _ => (upgrade.spec.to, false),
                };
                if matches!(&order.disposition, Disposition::Replace { release } if release.version == upgrade.spec.to)
                {
                    moved.insert((at.clone(), id.clone()));
                }
                let takes_out = !matches!(order.disposition, Disposition::Serve { .. });
                let serves = |instance: &Instance| instance.serves(wanted) && !instance.came_in_after(known);
                let is_needless = takes_out && !order.presumes_out && !may_be_another && !is_asked;
                if is_needless && before.instances.get(&at).is_some_and(serves) {
                    let what = format!("{node} serves at {wanted} and was taken out in {}", upgrade.phase);
                    needless.push(Broken { at: revision.number, rule: 4, what });
                }
            }
            before.take_in(revision);
        }
        needless
    }
}
