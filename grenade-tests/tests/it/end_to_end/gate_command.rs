//! Gates whose load is another program's: its ledger is judged as our own is, and a bad one is named with its line.

use std::path::Path;

use super::gate_job::{contains, done, shortened};

const BY_COMMAND: &str = include_str!("../../../gates/command-load.yaml");

fn gate() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates");
    let gate = shortened(&BY_COMMAND.replace("{here}", &here.display().to_string()));
    gate.replace("before: 1s", "before: 3s")
}

#[tokio::test]
async fn load_by_command_is_counted_and_passes() {
    let done = done(&gate()).await;
    assert_eq!(done.code, Some(0), "{}", done.said);
    let ledger = std::fs::read_to_string(done.artifacts.join("requests-command.csv")).unwrap();
    assert_eq!(done.report()["upgrade"]["load"]["sent"], ledger.lines().count() - 1);
    contains(
        &done.said,
        &[
            "ok      the load's command sends all the time",
            "0 of",
            "ok      the resources of the survival check",
        ],
    );
}

#[tokio::test]
async fn error_that_only_the_command_saw_fails_and_is_named() {
    // One answer of a hundred is wrong: enough of them are sent to see some at version 2.
    let often = gate().replace(", \"40\"]", ", \"100\"]");
    let faulty = often.replace("--version, \"2\"", "--version, \"2\", --fault, errors");
    let failed = done(&faulty).await;
    // On a busy machine a request without an answer may be the first to fail; the wrong answer is named beside it.
    contains(&failed.failed("zero-downtime"), &["create ", "status 500: it broke", "at version 2", "node-"]);
    // Nothing is upgraded where the ledger is none.
    let words = "[sh, -c, \"echo seq,status > $0; exec sleep 60\", \"{ledger}\", \"{url}\", \"{began_ms}\"]";
    let gate = gate();
    let lines = gate.lines().map(|line| match line.contains("load.py") {
        true => format!("  command: {words}\n"),
        false => format!("{line}\n"),
    });
    let refused = done(&lines.collect::<String>()).await;
    assert_eq!(refused.code, Some(4), "{}", refused.said);
    contains(
        &refused.said,
        &["requests-command-alone.csv:1: the columns are `seq,status`; needed are `seq,scheduled_ms,"],
    );
    assert!(!refused.artifacts.join("upgrade.yaml").exists(), "something was upgraded");
}
