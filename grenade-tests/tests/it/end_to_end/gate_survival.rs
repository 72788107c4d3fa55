//! A gate from version 1 to version 3, with a survival check over HTTP. The target loses what was stored.

use std::path::Path;

use super::gate_job::{contains, done, shortened};

const SKIPS: &str = include_str!("../../../gates/skip-level.yaml");

#[tokio::test]
async fn lost_resource_fails_after_an_upgrade_that_skips_a_level() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates");
    let gate = shortened(&SKIPS.replace("{here}", &here.display().to_string()));
    let gate = gate.replace("--version, \"3\"", "--version, \"3\", --fault, forgetful");
    let done = done(&gate.replace(", zero-downtime]", "]")).await;
    let found = done.failed("supports-upgrade");
    contains(&found, &["step 1 of verify-after: PUT /items/", "status 404", "(node-"]);
    let report = done.report();
    assert_eq!((report["from"].as_u64(), report["to"].as_u64()), (Some(1), Some(3)));
    assert_eq!(
        (report["skipped"].as_str(), report["upgrade"]["ended"].as_str()),
        (Some("version 2"), Some("completed"))
    );
    let before = &report["upgrade"]["survival"][0];
    assert_eq!((before["stage"].as_str(), before["wrong"].is_null()), (Some("before the upgrade"), true));
    let ledger = std::fs::read_to_string(done.artifacts.join("requests.csv")).unwrap();
    for version in ["1", "3"] {
        assert!(
            ledger.lines().any(|line| line.split(',').nth(10) == Some(version)),
            "no answer of {version}"
        );
    }
    contains(
        &done.said,
        &["from version 1 to 3 (skips version 2)", "ok      the resources of the survival check: while no"],
    );
}
