//! How many instances an upgrade of a gate may take out of service at once.

use tidegate_proto::Amount;

use crate::gate::written::upgrade::UpgradeFields;
use crate::load::findings::Findings;

/// How many may be out of rotation at once, as Tidegate rounds it: down, and at least one.
pub(super) fn most_out(fields: &UpgradeFields, instances: u32) -> u32 {
    let most = fields.max_unavailable.unwrap_or(Amount::Count(1)).rounded_down(instances as usize).max(1);
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// How many must stay in rotation, as Tidegate rounds it: up.
pub(super) fn least_in_service(least: Amount, instances: u32) -> u32 {
    u32::try_from(least.rounded_up(instances as usize)).unwrap_or(u32::MAX)
}

/// An upgrade must leave an instance in service, and take one out.
pub(super) fn check(fields: &UpgradeFields, instances: u32, findings: &mut Findings) {
    let most = instances - 1;
    if let Some(amount) = fields.max_unavailable.filter(|_| most_out(fields, instances) > most) {
        let found =
            format!("{amount} of {instances} instances leaves none in service; 1 to {most} is allowed");
        findings.add("upgrade.max_unavailable", found);
    }
    if let Some(amount) = fields.min_in_service.filter(|least| least_in_service(*least, instances) > most) {
        let found =
            format!("{amount} of {instances} instances leaves none to take out; 0 to {most} is allowed");
        findings.add("upgrade.min_in_service", found);
    }
}
