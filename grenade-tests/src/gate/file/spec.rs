//! The fields of the upgrade spec in a gate file.

use serde_json::{Value, json};
use tidegate_planner::document::Finding;
use tidegate_proto::spec::Spec;

use crate::gate::file::capacity;
use crate::gate::written::upgrade::UpgradeFields;
use crate::load::findings::Findings;

/// The section of a gate file.
const SECTION: &str = "upgrade";
/// Fields of a spec that a gate file cannot have, and why.
const NOT_HERE: [(&str, &str); 6] = [
    ("service", OF_RUNNER),
    ("from", OF_RUNNER),
    ("to", OF_RUNNER),
    ("release", OF_RUNNER),
    ("schema", OF_RUNNER),
    (
        "requires_gate",
        "is not allowed: the coordinator of a gate job has no recorded verdicts, so the upgrade would never begin",
    ),
];
const OF_RUNNER: &str = "is filled in by the runner";

/// The fields must be valid together, and with so many instances.
pub fn spec(fields: &UpgradeFields, instances: u32, findings: &mut Findings) {
    let mut whole = fields.fields();
    let runner = json!({
        "service": "service", "from": 1, "to": 2, "release": {"tag": "service-2", "sha256": "0".repeat(64)},
    });
    whole.extend(runner.as_object().cloned().unwrap_or_default());
    match serde_json::from_value::<Spec>(Value::Object(whole)) {
        Err(error) => findings.add(SECTION, error),
        Ok(spec) => {
            spec.flaws()
                .iter()
                .for_each(|flaw| findings.add(&format!("{SECTION}.{}", flaw.field), &flaw.what));
        }
    }
    capacity::check(fields, instances, findings);
}

/// The findings; of a field that a spec has, but not a gate file, with the reason.
pub(super) fn explained(findings: Vec<Finding>) -> Vec<Finding> {
    let explained = |mut finding: Finding| {
        if let Some(what) = not_here(&finding.what) {
            finding.what = what;
        }
        finding
    };
    findings.into_iter().map(explained).collect()
}

fn not_here(what: &str) -> Option<String> {
    let (field, _) = what.split_once(": unknown field ")?;
    let (section, name) = field.rsplit_once('.')?;
    let (_, why) = NOT_HERE.iter().find(|(field, _)| *field == name)?;
    (section.rsplit('.').next() == Some(SECTION)).then(|| format!("{field}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field that a spec gains is either filled in by the runner or one of a gate file.
    #[test]
    fn every_field_of_a_spec_is_allowed_or_explained() {
        let fields =
            |schema: Value| schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let mut of_spec = fields(tidegate_proto::schema::of_file::<Spec>("", ""));
        let mut of_gate = fields(tidegate_proto::schema::of_file::<UpgradeFields>("", ""));
        of_gate.extend(NOT_HERE.map(|(field, _)| field.to_owned()));
        of_spec.sort_unstable();
        of_gate.sort_unstable();
        assert_eq!(of_spec, of_gate);
    }
}
