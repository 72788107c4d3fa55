//! A health check that is wrong, in an upgrade that is right: also its steps are those that are documented.

use serde_json::json;

use super::gate_job::{contains, done, with_fault};

const DOCUMENTED: &str = "
documented:
- tidegate upgrade start … --id gate
- python3 …/items.py --expand --db …
- tidegate upgrade approve gate roll …
";

#[tokio::test]
async fn health_check_that_ignores_the_disable_file_fails() {
    let done = done(&format!("{}{DOCUMENTED}", with_fault(2, "deaf"))).await;
    let first =
        "target-1 at version 2: asked GET /health with the disable-file; the first answer: status 200, ";
    let found = ["version 2 follows the disable-file", first, "503 is right"];
    contains(&done.failed("zero-downtime"), &found);
    // Everything else is as it should be, also the steps.
    let report = done.report();
    let tag = report["tags"].as_array().unwrap().iter().find(|tag| tag["tag"] == "supports-upgrade").unwrap();
    let check = "the documented steps are those that were executed";
    let check = tag["checks"].as_array().unwrap().iter().find(|one| one["check"] == check).unwrap();
    assert_eq!(
        (&check["verdict"], &check["found"]),
        (&json!("pass"), &json!("all of 3 steps")),
        "{report:#}"
    );
    let steps = report["upgrade"]["steps"].as_array().unwrap();
    let at: Vec<f64> = steps.iter().map(|step| step["at_ms"].as_f64().unwrap()).collect();
    assert!(
        at.is_sorted() && at[0] >= 1_000.0 && steps.iter().all(|step| step["failed"].is_null()),
        "{steps:#?}"
    );
}
