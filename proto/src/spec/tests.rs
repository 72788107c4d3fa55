use super::*;
use serde_json::json;

fn minimal() -> serde_json::Value {
    json!({
        "service": "pantry-api", "from": 1, "to": 2,
        "release": {"tag": "pantry-2.0.0", "sha256": "0".repeat(64)},
    })
}

fn spec(change: impl FnOnce(&mut serde_json::Value)) -> Result<Spec, serde_json::Error> {
    let mut value = minimal();
    change(&mut value);
    serde_json::from_value(value)
}

#[test]
fn absent_field_has_the_documented_default() {
    let spec = spec(|_| ()).unwrap();
    assert_eq!(spec.strategy, Strategy::Rolling { batch: Amount::Count(1) });
    assert_eq!(spec.max_unavailable, Amount::Count(1));
    assert_eq!(spec.failures.then, Then::Rollback);
    assert!(spec.flaws().is_empty());
}

#[test]
fn canary_without_steps_is_heats() {
    let spec = spec(|v| v["strategy"] = json!({"canary": {}})).unwrap();
    let Strategy::Canary { steps } = spec.strategy else { panic!("not canary") };
    assert_eq!(steps.iter().map(ToString::to_string).collect::<Vec<_>>(), ["1", "1%", "5%", "20%", "rest"]);
}

#[test]
fn a_wrong_type_or_an_unknown_field_is_refused() {
    for (field, value) in [
        ("from", json!("1")),
        ("to", json!(2.0)),
        ("from", json!(0)),
        ("max_unavailable", json!("0%")),
        ("max_unavailable", json!("101%")),
        ("max_unavailable", json!(-1)),
        ("health", json!({"min_healthy_time": "-10s"})),
        ("surprise", json!(1)),
        ("drain", json!({"evidence": "prayer"})),
        ("strategy", json!({"rolling": {"batches": 1}})),
        ("requires_gate", json!({"tag": "rolling", "from": 1, "to": 2})),
        ("requires_gate", json!([{"tag": "zero-errors", "from": 1, "to": 2}])),
        ("requires_gate", json!([{"tag": "rolling", "from": 1}])),
        ("requires_gate", json!([{"tag": "rolling", "from": 1, "to": 2, "sha256": "a"}])),
    ] {
        assert!(spec(|v| v[field] = value.clone()).is_err(), "{field}: {value} was accepted");
    }
}

#[test]
fn flaws_name_the_field_and_what_is_allowed() {
    let cases: [(&str, serde_json::Value, &str); 8] = [
        ("to", json!(1), "to: 1 is not above `from` (1)"),
        ("to", json!(3), "to: from 1 to 3 is more than one hop"),
        ("max_unavailable", json!(0), "max_unavailable: is 0"),
        (
            "strategy",
            json!({"canary": {"steps": ["rest", 1]}}),
            "strategy.canary.steps: has a step after rest",
        ),
        ("health", json!({"healthy_deadline": "1s"}), "health.healthy_deadline: 1s is not above"),
        ("approvals", json!(["contract"]), "approvals: names a schema phase"),
        (
            "requires_gate",
            json!([{"tag": "rolling", "from": 2, "to": 3}]),
            "requires_gate: rolling from 2 to 3 is a verdict on another hop: from 1 to 2 is",
        ),
        (
            "requires_gate",
            json!([{"tag": "rolling", "from": 1, "to": 2}, {"tag": "rolling", "from": 1, "to": 2}]),
            "requires_gate: rolling is named twice",
        ),
    ];
    for (field, value, expected) in cases {
        let flaws = spec(|v| v[field] = value.clone()).unwrap().flaws();
        let texts: Vec<String> = flaws.iter().map(ToString::to_string).collect();
        assert!(texts.iter().any(|t| t.starts_with(expected)), "{field}: {value}: {texts:?}");
    }
}

#[test]
fn spec_without_a_required_gate_has_the_digest_that_it_had() {
    let plain = spec(|_| ()).unwrap();
    assert!(!serde_json::to_string(&plain).unwrap().contains("requires_gate"));
    let gated = spec(|v| v["requires_gate"] = json!([{"tag": "rolling", "from": 1, "to": 2}])).unwrap();
    assert_ne!(plain.digest(), gated.digest());
}
