//! An upgrade that skips a level: the target is not the version after the base. Tidegate accepts a spec of one hop only
//! (`to` is `from` + 1), so the runner gives Tidegate the number after the base's for the target.

use tidegate_proto::ServiceVersion;

use crate::gate::file::service::Service;
use crate::load::findings::Findings;

impl Service {
    /// The versions between base and target, in words; `None`: the target is the next one.
    pub fn skipped(&self) -> Option<String> {
        skipped(self.base.number, self.target.number)
    }

    /// The number by which Tidegate knows a version of this gate.
    pub fn in_tidegate(&self, version: ServiceVersion) -> u32 {
        if version == self.target.number { self.base.number.get() + 1 } else { version.get() }
    }
}

fn skipped(base: ServiceVersion, target: ServiceVersion) -> Option<String> {
    let (first, last) = (base.get() + 1, target.get().saturating_sub(1));
    match last.checked_sub(first)? {
        0 => Some(format!("version {first}")),
        _ => Some(format!("versions {first} to {last}")),
    }
}

/// The target must be above the base, and a level is skipped only where that is declared.
pub(super) fn check(base: ServiceVersion, target: ServiceVersion, declared: bool, findings: &mut Findings) {
    const TARGET: &str = "service.target.number";
    let next = base.get() + 1;
    if target <= base {
        findings
            .add(TARGET, format!("{target} is not above that of the base ({base}); {next} is the next one"));
        return;
    }
    match (skipped(base, target), declared) {
        (Some(between), false) => findings.add(
            TARGET,
            format!(
                "{target} after {base} skips {between}, which must be declared: write `skip_level: true` in `service`, or \
                 make the target {next}. Tidegate itself accepts a spec of one hop only (`to` is `from` + 1): where a skip \
                 is declared, the runner numbers the target {next} in Tidegate"
            ),
        ),
        (None, true) => findings.add(
            "service.skip_level",
            format!("is true, but no version is between {base} and {target}: remove it"),
        ),
        _ => {}
    }
}
