//! Edited scenarios are refused with the field, and every drawn one is played.

use super::super::draw;
use super::*;
use serde_json::{Value, json};

/// A world whose first service has the first schema, and in which a fault is written.
fn world() -> Scenario {
    let suits = |one: &Scenario| one.services[0].schema == Some(0) && !one.faults.is_empty();
    (1..).map(draw::scenario).find(suits).unwrap()
}

/// What is said of the world with another value at one place.
fn refused(at: &str, found: Value) -> String {
    let mut edited = serde_json::to_value(world()).unwrap();
    match edited.pointer_mut(at) {
        Some(value) => *value = found,
        None => edited[&at[1..]] = found,
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), edited.to_string()).unwrap();
    let why = format!("{:#}", read(file.path()).unwrap_err());
    assert!(why.contains(file.path().to_str().unwrap()), "{why}");
    why
}

#[test]
fn edited_scenario_is_refused_with_the_field_that_is_wrong() {
    let edits = [
        ("/zones", json!([]), "zones: it has no node"),
        ("/services", json!([]), "services: it has no service"),
        ("/upgrades", json!([]), "it has no upgrade"),
        ("/coordinators", json!(0), "coordinators: 0; 1 to 9 is allowed"),
        ("/latency", json!(101), "latency: 101; 0 to 100 is allowed"),
        ("/max_request", json!(1), "max_request: 1; at least 65536 is allowed"),
        ("/frob", json!(1), "unknown field `frob`"),
        ("/services/0/name", json!(""), "services[0].name: "),
        ("/services/0/nodes", json!([]), "services[0].nodes: at least one is needed"),
        ("/services/0/nodes", json!([99]), "services[0].nodes[0]: 99; 0 to "),
        ("/services/0/schema", json!(7), "services[0].schema: 7; 0 to "),
        ("/services/0/lease", json!(0), "services[0].lease: 0; 2 to 60 is allowed"),
        (
            "/schemas/0/rows",
            json!(1_u64 << 63),
            "schemas[0].rows: 9223372036854775808; 0 to 10000 is allowed",
        ),
        ("/upgrades/0/service", json!(7), "upgrades[0].service: 7; 0 to "),
        ("/upgrades/0/from", json!(9), "upgrades[0].from: 9; "),
        ("/upgrades/0/strategy", json!({"frob": 1}), "unknown variant `frob`, expected one of `rolling`"),
        ("/upgrades/0/then", json!("explode"), "upgrades[0].then: \"explode\": unknown variant"),
        ("/upgrades/0/approvals", json!(["lunch"]), "upgrades[0].approvals[0]: \"lunch\": unknown variant"),
        ("/upgrades/0/min_in_service", json!(1_000_000), "upgrades[0].min_in_service: 1000000; 0 to "),
        ("/upgrades/0/max_unavailable", json!(0), "upgrades[0].max_unavailable: 0; at least 1 is allowed"),
        ("/mishaps/0/upgrade", json!(77), "mishaps[0].upgrade: 77; 0 to "),
        ("/mishaps/0/phase", json!("lunch"), "mishaps[0].phase: \"lunch\": unknown variant"),
        ("/mishaps/0/after", json!(u64::MAX), "mishaps[0].after: 18446744073709551615; 0 to "),
    ];
    for (at, found, expected) in edits {
        let why = refused(at, found);
        assert!(why.contains(expected), "{at}: {why}");
    }
}

#[test]
fn drawn_scenarios_are_never_refused() {
    let drawn: Vec<Scenario> = (1..=2_000).map(draw::scenario).collect();
    let near_them = (1..=500).filter_map(|seed| draw::near(seed, &drawn));
    for one in drawn.iter().cloned().chain(near_them) {
        let checked = check(&one);
        assert!(checked.is_ok(), "seed {}: {:#}", one.seed, checked.unwrap_err());
    }
}

#[test]
fn faults_are_read_under_either_name() {
    let mut value = serde_json::to_value(world()).unwrap();
    let faults = value.as_object_mut().unwrap().remove("mishaps").unwrap();
    value["faults"] = faults;
    let read: Scenario = serde_json::from_value(value).unwrap();
    assert_eq!(read, world());
}
