//! The gate jobs that a spec requires, as findings of preflight.

use super::finding::{Finding, blocker, warning};
use crate::fleet::Fleet;
use crate::gate::verdict::passed::passed;
use tidegate_proto::Release;
use tidegate_proto::spec::Spec;

/// What a preview finds of the required verdicts: an upgrade that lacks a verdict can be started, and waits in preflight.
pub(super) fn findings(fleet: &Fleet, spec: &Spec) -> Vec<Finding> {
    if spec.requires_gate.is_empty() {
        return Vec::new();
    }
    // Where the release that runs is not known, another finding says why.
    let Some(former) = super::former(fleet, spec).map(|former| former.release) else { return Vec::new() };
    let reasons = passed(fleet, spec, &former).err().unwrap_or_default();
    let waits = reasons.iter().map(|reason| blocker(format!("the upgrade waits in preflight: {reason}")));
    let undigested = [former, spec.target()].into_iter().filter(|release| release.sha256.is_absent()).map(
        |Release { tag, version, .. }| {
            warning(format!(
                "{tag} has no sha256 (declared absent), so a required gate verdict identifies it by its version {version} alone"
            ))
        },
    );
    waits.chain(undigested).collect()
}
