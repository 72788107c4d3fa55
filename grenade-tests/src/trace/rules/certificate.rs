//! What must be so when contract begins (rule 1).

use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::{Digest, ServiceVersion, UpgradeId};

use super::Judge;
use crate::trace::instance::{Instance, is_of_its_agent};

impl Judge<'_> {
    /// The certificate is stored, no instance below the floor was seen, and every instance has acknowledged the floor.
    pub(super) fn contract(&mut self, id: &UpgradeId, upgrade: &Upgrade, certificate: &Digest) {
        let pages = self.after.certificates.get(id);
        let text: String =
            pages.into_iter().flat_map(|pages| pages.values()).map(|p| p.text.as_str()).collect();
        self.holds(1, Digest::of(text.as_bytes()) == *certificate, || {
            format!("the certificate of {id} is not what contract was entered with")
        });
        let shared = upgrade.spec.schema.iter().flat_map(|schema| &schema.shared_with);
        for (service, needs) in std::iter::once((&upgrade.spec.service, &upgrade.spec.to)).chain(shared) {
            // Entering contract writes the window again, with what is contracted from now on: the floor is the former one.
            let window = self.before.windows.get(service);
            let (floor, at) = window.map_or((None, 0), |window| (Some(window.body.floor), window.revision));
            self.holds(1, floor.is_some_and(|floor| floor >= *needs), || {
                format!("{id} entered contract, the floor of {service} is {floor:?}, {needs} is needed")
            });
            let behind: Vec<String> = self
                .after
                .fleet(service)
                .filter(|(_, instance)| !is_beyond(instance, *needs, at))
                .map(|(node, _)| format!("{service}/{node}"))
                .collect();
            self.holds(1, behind.is_empty() || self.of_former_view, || {
                format!(
                    "{id} entered contract, and {} did not acknowledge the floor at {needs}",
                    behind.join(", ")
                )
            });
        }
    }
}

/// What an instance said last: at least this version, admitted, and the window of this revision acknowledged. A report
/// that is gone since is harmless, because a return needs an admission.
fn is_beyond(instance: &Instance, version: ServiceVersion, window: i64) -> bool {
    let (Some(last), Some(inventory)) = (&instance.last_report, &instance.inventory) else { return false };
    let report = &last.body;
    inventory.body.version >= version
        && report.admission.0 == inventory.revision
        && is_of_its_agent(&inventory.body, report)
        // What ended since it was read for the certificate has no version now, and needs an admission to come back.
        && report.version.is_none_or(|running| running >= version)
        && report.window.0 == window
}
