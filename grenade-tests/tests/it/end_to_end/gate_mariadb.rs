//! Gates over MariaDB: a service that changes its schema itself passes, under Tidegate and by hand; a change that one of
//! the versions cannot bear fails, and is named.

use std::path::Path;

use super::gate_job::{contains, done, shortened};

const BY_TIDEGATE: &str = include_str!("../../../gates/mariadb.yaml");
const BY_HAND: &str = include_str!("../../../gates/mariadb-by-hand.yaml");

fn gate(text: &str) -> String {
    let gates = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates");
    let here = gates.display().to_string();
    let text = text.replace("{here}", &here).replace("steps_from: ", &format!("steps_from: {here}/"));
    shortened(&text).replace("rollback_from: [roll]\n", "")
}

/// A fault in the commands that have these words.
fn with_fault(gate: &str, words: &str, fault: &str) -> String {
    assert!(gate.contains(words));
    gate.replace(words, &format!("{words}, --fault, {fault}"))
}

#[tokio::test]
async fn service_with_schema_commands_passes_on_mariadb() {
    let done = done(&gate(BY_TIDEGATE)).await;
    assert_eq!(done.code, Some(0), "{}", done.said);
    let report = done.report();
    assert_eq!(report["upgrade"]["ended"], "completed");
    let checks = report["tags"].to_string();
    assert!(!checks.contains("certificate"), "nothing on MariaDB is certified: {checks}");
    for log in ["schema-0.log", "schema-1.log", "contract-0.log", "mariadb.log"] {
        assert!(done.artifacts.join(log).exists(), "{log} is missing");
    }
    contains(&done.said, &["while no instance runs", "each reads what the other wrote"]);
}

#[tokio::test]
async fn rolling_restart_by_hand_passes_on_mariadb() {
    let done = done(&gate(BY_HAND)).await;
    assert_eq!(done.code, Some(0), "{}", done.said);
    assert_eq!(done.report()["upgrade"]["phases"][0][0], "procedure");
    assert!(done.artifacts.join("contract-0.log").exists(), "nothing was contracted");
}

#[tokio::test]
async fn migrate_that_drops_what_the_old_version_reads_fails() {
    let done = done(&with_fault(&gate(BY_TIDEGATE), "notes.py\", migrate", "hasty")).await;
    for tag in ["rolling", "zero-downtime"] {
        let found = done.failed(tag);
        contains(&found, &["first: ", "at version 1", "status 500: ", "Unknown column 'done'"]);
    }
    contains(&done.failed("zero-downtime"), &["node-"]);
}

#[tokio::test]
async fn rows_that_the_old_version_cannot_read_fail_on_mariadb() {
    let gate = gate(BY_HAND).replace("[rolling, zero-downtime]", "[rolling]");
    let done = done(&with_fault(&gate, "--version, \"2\"", "foreign")).await;
    contains(&done.failed("rolling"), &["at version 1, written by version 2: wrong content: /done is"]);
}
