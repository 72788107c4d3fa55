//! Drains that nothing asked for: an upgrade takes an instance out of rotation that serves at its new version.

use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, Value};

use super::rules::Broken;
use super::seen::Seen;
use super::{Trace, Written};

impl Trace {
    /// Every directive that drained, stopped or replaced an instance which served at the version that its upgrade goes to.
    /// In a rollback it is drained again for the former version, which is counted as such.
    pub fn needless_drains(&self) -> Vec<Broken> {
        let (mut needless, mut before) = (Vec::new(), Seen::default());
        for revision in &self.revisions {
            for Written { key, put, .. } in &revision.writes {
                let (Key::Directive(service, node), Some(Value::Directive(directive))) =
                    (key, put.as_ref().map(|put| &put.value))
                else {
                    continue;
                };
                if matches!(directive.body.disposition, Disposition::Serve { .. }) {
                    continue;
                }
                let id = before.active.get(service);
                let Some(upgrade) = id.and_then(|id| before.upgrades.get(id)) else { continue };
                let wanted = match &upgrade.phase {
                    Phase::RollingBack { .. } => upgrade.spec.from,
                    _ => upgrade.spec.to,
                };
                let instance = before.instances.get(&(service.clone(), node.clone()));
                if instance.is_some_and(|instance| instance.serves(wanted)) {
                    let what = format!("{node} serves at {wanted} and was taken out in {}", upgrade.phase);
                    needless.push(Broken { at: revision.number, rule: 4, what });
                }
            }
            before.take_in(revision);
        }
        needless
    }
}
