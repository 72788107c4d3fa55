use super::{GOOD, findings};
use crate::gate::file::{Gate, parse};
use std::path::Path;

const FIELD: &str = "max_unavailable: 1";

/// The example with other fields of the upgrade.
fn upgraded(fields: &str) -> String {
    assert!(GOOD.contains(FIELD));
    GOOD.replacen(FIELD, fields, 1)
}

fn gate(fields: &str) -> Gate {
    parse(&upgraded(fields), Path::new("gate.yaml"), Path::new("/")).unwrap()
}

/// Text of the example, what takes its place, where the finding is, and what it says.
const WRONG: [(&str, &str, &str, &str); 12] = [
    (
        "min_healthy_time: 500ms",
        "min_healthy_time: 500",
        "min_healthy_time: 500",
        "upgrade.health.min_healthy_time: \"500\" is not a duration",
    ),
    (
        FIELD,
        "max_unavailble: 1",
        "max_unavailble: 1",
        "upgrade.max_unavailble: unknown field `max_unavailble`; allowed are strategy, min_in_service, max_unavailable, ",
    ),
    (
        FIELD,
        "drain: {settle: 2s, evidence: magic}",
        "evidence: magic",
        "upgrade.drain.evidence: `magic` is not allowed; one of `haproxy`, `settle` is",
    ),
    (
        FIELD,
        "strategy: rollng",
        "strategy: rollng",
        "upgrade.strategy: `rollng` is not allowed; one of `rolling`, `canary`, `immediate` is",
    ),
    (
        FIELD,
        "max_unavailable: two",
        "max_unavailable: two",
        "upgrade.max_unavailable: \"two\" is not an amount",
    ),
    (
        FIELD,
        "strategy: {rolling: {batch: 0}}",
        "rolling: {batch",
        "upgrade.strategy.rolling.batch: is 0: 1 or more",
    ),
    (FIELD, "from: 1", "from: 1", "upgrade.from: is filled in by the runner"),
    (
        FIELD,
        "requires_gate: []",
        "requires_gate: []",
        "upgrade.requires_gate: is not allowed: the coordinator of a gate job has no recorded verdicts",
    ),
    (
        "healthy_deadline: 30s",
        "healthy_deadline: 100ms",
        "healthy_deadline: 100ms",
        "upgrade.health.healthy_deadline: 100ms is not above min_healthy_time",
    ),
    (
        FIELD,
        "max_unavailable: 3",
        "max_unavailable: 3",
        "upgrade.max_unavailable: 3 of 3 instances leaves none in service; 1 to 2 is allowed",
    ),
    (
        FIELD,
        "max_unavailable: 100%",
        "max_unavailable: 100%",
        "upgrade.max_unavailable: 100% of 3 instances leaves none in service; 1 to 2 is allowed",
    ),
    (
        FIELD,
        "min_in_service: 70%",
        "min_in_service: 70%",
        "upgrade.min_in_service: 70% of 3 instances leaves none to take out; 0 to 2 is allowed",
    ),
];

#[test]
fn field_of_the_upgrade_that_is_wrong_is_named_with_its_place() {
    for (old, new, begin, expected) in WRONG {
        assert!(GOOD.contains(old), "{old}");
        let text = GOOD.replacen(old, new, 1);
        let line = text.lines().position(|line| line.contains(begin)).unwrap();
        let column = text.lines().nth(line).unwrap().find(begin).unwrap();
        let said = findings(&text);
        let found = said.lines().find(|found| found.contains(expected));
        let found = found.unwrap_or_else(|| panic!("{expected}\nis not in\n{said}"));
        assert!(found.starts_with(&format!("gate.yaml:{}:", line + 1)), "{new}: {found}");
        if !new.contains("batch") {
            let place = format!("gate.yaml:{}:{}: {expected}", line + 1, column + 1);
            assert!(found.starts_with(&place), "{place}\n{found}");
        }
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn least_in_service_is_all_but_those_that_may_be_out() {
    for (fields, most_out, least) in [
        (FIELD, 1, 2),
        ("max_unavailable: 2", 2, 1),
        ("max_unavailable: 67%", 2, 1),
        ("max_unavailable: 50%", 1, 2),
        // Tidegate takes it as 1: else nothing could be upgraded.
        ("max_unavailable: 10%", 1, 2),
        ("strategy: immediate", 1, 2),
        ("max_unavailable: 2\n  min_in_service: 0", 2, 0),
        ("max_unavailable: 2\n  min_in_service: 50%", 2, 2),
    ] {
        let gate = gate(fields);
        assert_eq!((gate.most_out(), gate.least_in_service()), (most_out, least), "{fields}");
    }
}

#[test]
fn fields_of_the_upgrade_go_into_the_spec_as_they_are() {
    let fields =
        gate("max_unavailable: 67%\n  strategy: {canary: {}}\n  failures: {per_wave: 1}").upgrade.fields();
    assert_eq!(fields["max_unavailable"], "67%");
    assert_eq!(fields["strategy"]["canary"]["steps"][4], "rest");
    assert_eq!(fields["failures"]["per_wave"], 1);
    assert_eq!(fields["health"]["min_healthy_time"], "500ms");
    assert!(!fields.contains_key("min_in_service") && !fields.contains_key("drain"), "{fields:?}");
}
