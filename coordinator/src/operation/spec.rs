//! The spec of an upgrade as an operator writes it: YAML to a valid [`Spec`], or every flaw with its place.

use super::{OperationError, body};
use tidegate_planner::document;
use tidegate_proto::spec::Spec;

/// The largest spec (the longest real ones have some fifty lines).
const MOST_BYTES: usize = 64 * 1024;

/// A commented example that is itself a valid spec.
pub const EXAMPLE: &str = include_str!("spec/example.yaml");

/// The JSON Schema of a spec.
pub fn schema() -> serde_json::Value {
    tidegate_proto::schema::of_file::<Spec>("Tidegate spec", "The spec of an upgrade, as a YAML file.")
}

/// Reads a spec.
///
/// # Errors
/// `BadInput` with line and column for what cannot be read, or with every flaw of what can; `TooLarge`.
pub fn parse(text: &str) -> Result<Spec, OperationError> {
    if text.len() > MOST_BYTES {
        return Err(OperationError::TooLarge(format!(
            "the spec is {} bytes long, at most {MOST_BYTES} are allowed",
            text.len()
        )));
    }
    let spec: Spec = document::yaml(text)
        .map_err(|e| OperationError::BadInput(format!("the spec cannot be read: {}", readable(&e))))?;
    let flaws: Vec<String> = spec.flaws().iter().map(|flaw| format!("  {flaw}")).collect();
    if flaws.is_empty() {
        return Ok(spec);
    }
    Err(OperationError::BadInput(format!("the spec is not valid:\n{}", flaws.join("\n"))))
}

/// What went wrong, with line and column also where the library's own words leave them out.
fn readable(error: &serde_saphyr::Error) -> String {
    let text = body::of_yaml(error);
    let text = text.trim();
    match error.location() {
        Some(at) if !text.contains("line") => format!("{text} (line {}, column {})", at.line(), at.column()),
        _ => text.to_owned(),
    }
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
    fn what_cannot_be_read_is_named_with_its_place() {
        let unknown = parse("service: a\nfrom: 1\nto: 2\nrelase: {tag: x}\n").unwrap_err().to_string();
        assert!(unknown.contains("relase") && unknown.contains("4:1"), "{unknown}");
    }
}
