use super::{GOOD, at, findings, place};
use crate::gate::file::schema;

/// Fields with limits: the text of the example, a text with a value beyond them, the field, and the limits.
const LIMITS: [(&str, &str, &str, &str); 13] = [
    ("instances: 3", "instances: 1", "instances", "2 to 24"),
    ("instances: 3", "instances: 25", "instances", "2 to 24"),
    ("rate: 50", "rate: 0", "load.rate", "1 to 5000"),
    ("rate: 50", "rate: 5001", "load.rate", "1 to 5000"),
    ("rate: 50", "rate: -5", "load.rate", "1 to 5000"),
    ("status: [201]", "status: [199]", "load.steps.0.expect.status.0", "200 to 599"),
    ("- {base: 2, target: 1}", "- {base: 0, target: 1}", "arrangements.0.base", "1 to 23"),
    ("- {base: 2, target: 1}", "- {base: 2, target: 24}", "arrangements.0.target", "1 to 23"),
    ("\ntags: [", "\nimpact: {rate: 39}\ntags: [", "impact.rate", "40 to 5000"),
    ("\ntags: [", "\nimpact: {rate: 5001}\ntags: [", "impact.rate", "40 to 5000"),
    ("\ntags: [", "\nimpact: {looks: 0}\ntags: [", "impact.looks", "1 to 3"),
    ("\ntags: [", "\nimpact: {looks: 4}\ntags: [", "impact.looks", "1 to 3"),
    (
        "json: {name: \"{name}\", colour: \"{colour}\"}}\n",
        "upload: {bytes: 1073741825, over: 1s}}\n",
        "load.steps.0.request.upload.bytes",
        "0 to 1073741824",
    ),
];

#[test]
fn reader_and_schema_refuse_number_beyond_its_limits() {
    let schema = jsonschema::draft202012::new(&schema()).unwrap();
    for (old, new, field, limits) in LIMITS {
        assert!(GOOD.contains(old), "{old}");
        let text = GOOD.replacen(old, new, 1);
        let said = findings(&text);
        let number = said.split('`').nth(1).unwrap_or_default();
        let expected = format!("{field}: `{number}` is not allowed; a whole number from {limits} is");
        assert!(said.lines().any(|line| line.ends_with(&expected)), "{new}: {expected}\n{said}");
        let document = serde_saphyr::from_str(&text).unwrap();
        assert!(!schema.is_valid(&document), "the JSON Schema admits {new}");
    }
    let good = serde_saphyr::from_str(GOOD).unwrap();
    assert!(schema.is_valid(&good));
}

#[test]
fn share_beyond_its_limits_is_refused_by_the_schema_too() {
    let schema = jsonschema::draft202012::new(&schema()).unwrap();
    for (old, new, expected) in [
        ("keep_alive: 0.5", "keep_alive: 1.5", "load.keep_alive: 1.5; 0 to 1 is allowed"),
        ("\ntags: [", "\nhost: {steal: 101}\ntags: [", "host.steal: 0 to 100 percent is allowed"),
    ] {
        let text = GOOD.replacen(old, new, 1);
        assert!(findings(&text).contains(expected), "{new}: {}", findings(&text));
        assert!(!schema.is_valid(&serde_saphyr::from_str(&text).unwrap()), "{new}");
    }
}

#[test]
fn mix_of_too_many_instances_is_refused_with_its_place() {
    let text = GOOD.replace("- {base: 2, target: 1}", "- {base: 20, target: 5}");
    let said = findings(&text);
    let expected = place(&text, "{base: 20") + "arrangements[0]: has 25 instances; at most 24 are allowed";
    assert_eq!(said, expected);
}

#[test]
fn rate_too_low_for_zero_impact_is_named_where_it_is_written() {
    let tags = GOOD.lines().find(|line| line.starts_with("tags:")).unwrap();
    let text = GOOD.replace("rate: 50", "rate: 39").replace(tags, "tags: [zero-impact]");
    let said = findings(&text);
    assert!(
        said.starts_with(&(at(&text, "rate: 39") + "load.rate: 39 a second; zero-impact needs 40")),
        "{said}"
    );
}

#[test]
fn empty_file_names_what_prints_one() {
    for text in ["", "\n  \n", "# a gate\n---\n"] {
        let expected = "gate.yaml:1:1: is empty; `grenade init` prints a gate file to begin with";
        assert_eq!(findings(text), expected, "{text:?}");
    }
}
