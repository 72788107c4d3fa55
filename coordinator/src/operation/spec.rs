//! The spec of an upgrade as an operator writes it: YAML to a valid [`Spec`], or every flaw with its place.

use super::OperationError;
use crate::leadership::now;
use tidegate_migrations::UNRECORDED;
use tidegate_planner::document::{self, Finding};
use tidegate_proto::UpgradeId;
use tidegate_proto::record::window::{BY_OPERATOR, BY_RECONCILIATION, BY_RELEASES};
use tidegate_proto::spec::Spec;

/// The largest spec (the longest real ones have some fifty lines).
pub const MOST_BYTES: usize = 64 * 1024;

/// Words that stand for an upgrade's ID where no upgrade did something: it set a window, or expanded a schema. An upgrade of
/// such an ID that is there already goes on.
const RESERVED: [&str; 4] = [BY_OPERATOR, BY_RECONCILIATION, BY_RELEASES, UNRECORDED];

/// A commented example that is itself a valid spec.
pub const EXAMPLE: &str = include_str!("spec/example.yaml");

/// The JSON Schema of a spec.
pub fn schema() -> serde_json::Value {
    tidegate_proto::schema::of_file::<Spec>("Tidegate spec", "The spec of an upgrade, as a YAML file.")
}

/// Reads a spec.
///
/// # Errors
/// `BadInput` with everything that is wrong with it, each with line and column; `TooLarge`.
pub fn parse(text: &str) -> Result<Spec, OperationError> {
    if text.len() > MOST_BYTES {
        return Err(OperationError::TooLarge(format!(
            "the spec is {} bytes long, at most {MOST_BYTES} are allowed",
            text.len()
        )));
    }
    check(text).map_err(|findings| {
        let findings: Vec<String> = findings.iter().map(|finding| format!("  {finding}")).collect();
        OperationError::BadInput(format!("the spec is not valid:\n{}", findings.join("\n")))
    })
}

/// Reads a spec that is not too large.
///
/// # Errors
/// Everything that is wrong with it. What its fields mean together is looked at once each of them is well formed.
pub fn check(text: &str) -> Result<Spec, Vec<Finding>> {
    let (spec, located): (Spec, _) = document::checked(text, EXAMPLE)?;
    let flaws = spec.flaws();
    if flaws.is_empty() {
        return Ok(spec);
    }
    Err(flaws.into_iter().map(|flaw| located.finding(flaw.field, flaw.what)).collect())
}

/// The ID of an upgrade by this spec: the requested one, or where that is empty, one made for it.
pub(super) fn name(requested: &str, spec: &Spec) -> Result<UpgradeId, OperationError> {
    match requested {
        "" => Ok(a_name_for(spec)),
        word if RESERVED.contains(&word) => Err(OperationError::BadInput(format!(
            "no upgrade may have the ID {word}: records use the word for what no upgrade did; choose another ID"
        ))),
        id => super::parse(id),
    }
}

/// A name that a person recognises: service, version and time.
fn a_name_for(spec: &Spec) -> UpgradeId {
    let time =
        jiff::Timestamp::from_millisecond(now().0).unwrap_or_default().strftime("%Y%m%d-%H%M%S").to_string();
    let service: String = spec.service.as_str().chars().take(30).collect();
    format!("{service}-{}-{time}", spec.to)
        .parse()
        .expect("the beginning of a name, digits and dashes are a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_a_valid_spec() {
        let spec = parse(EXAMPLE).unwrap();
        assert_eq!(spec.service.as_str(), "pantry-api");
    }

    #[test]
    fn words_for_what_no_upgrade_did_are_refused_as_ids() {
        let spec = parse(EXAMPLE).unwrap();
        for word in ["operator", "reconciliation", "compute-releases", "unrecorded"] {
            let refused = name(word, &spec).unwrap_err().to_string();
            assert!(refused.contains(word) && refused.contains("choose another ID"), "{refused}");
        }
        for id in ["unrecorded-2", "operators", "Unrecorded"] {
            assert_eq!(name(id, &spec).unwrap().as_str(), id);
        }
        assert!(name("", &spec).unwrap().as_str().starts_with("pantry-api-2-"));
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_place() {
        let unknown = parse("service: a\nfrom: 1\nto: 2\nrelase: {tag: x}\n").unwrap_err().to_string();
        assert!(unknown.contains("relase") && unknown.contains("4:1"), "{unknown}");
    }

    #[test]
    fn value_of_another_kind_is_named_with_what_is_allowed() {
        let said =
            |more: &str| parse(&format!("service: a\nfrom: 1\nto: 2\n{more}\n")).unwrap_err().to_string();
        for (more, place) in [
            ("failure_domain: [rack]", "4:1: failure_domain: a list is not allowed; a single value is"),
            ("failures: 3", "4:1: failures: `3` is not allowed; a mapping (`key: value`) is"),
            (
                "failures: {per_wave: -1}",
                "4:12: failures.per_wave: `-1` is not allowed; a whole number from 0 to 4294967295 is",
            ),
            (
                "failures: {then: cry}",
                "4:12: failures.then: `cry` is not allowed; one of `rollback`, `pause` is",
            ),
            ("approvals: expand", "4:1: approvals: `expand` is not allowed; a list is"),
            ("strategy: {blue: {}}", "4:1: strategy: `blue` is not allowed; one of `rolling`, "),
            ("service: b", "4:1: the key `service` is there twice"),
        ] {
            let said = said(more);
            assert!(said.contains(&format!("  {place}")), "{place}\n{said}");
        }
    }

    #[test]
    fn every_finding_is_listed_with_its_place() {
        let text = "service: no name\nfrom: 1\nto: [2]\nrelase: {tag: x}\nhealth:\n  healthy_deadline: soon\n  min: 1s\n\
                    approvals: [expand, never]\n";
        let said = parse(text).unwrap_err().to_string();
        for place in [
            "  1:1: service: ",
            "  3:1: to: ",
            "  4:1: relase: ",
            "  6:3: health.healthy_deadline: ",
            "  7:3: health.min: ",
            "  8:21: approvals.1: ",
            "  1:1: release: ",
        ] {
            assert!(said.contains(place), "{place}: {said}");
        }
        assert!(said.contains("6:3: health.healthy_deadline: ") && said.contains("\"soon\""), "{said}");
        let said =
            parse(&EXAMPLE.replace("to: 2", "to: 4").replace("max_unavailable: 1", "max_unavailable: 0"));
        let said = said.unwrap_err().to_string();
        assert!(said.contains(": to: from 1 to 4") && said.contains(": max_unavailable: is 0"), "{said}");
    }
}
