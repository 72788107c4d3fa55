//! `--break-at`: a new version that never becomes ready must leave nothing behind but the old one.

use std::time::Duration;

use serde_json::json;

use super::running::{Running, agrees};

#[tokio::test]
async fn broken_third_instance_is_rolled_back_without_failed_request() {
    let mut demo = Running::start(&["--break-at=3", "--keep"]);
    let code = demo.ends(Duration::from_secs(150)).await;
    let (report, said) = (demo.report(), demo.said());
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(report["outcome"], "rolled-back", "{report:#}");
    assert_eq!(report["spread"], json!({"before": {"1": 6}, "after": {"1": 6}}));
    assert_eq!(report["requests"]["failed"], 0, "{said}");
    assert_eq!(report["certificate"], json!(null));
    let ledger = demo.ledger();
    agrees(&report, &ledger);
    assert!(ledger.iter().any(|request| request.version == "2"), "version 2 never served");
    let starts = std::fs::read_to_string(demo.dir().join("starts-of-version-2")).unwrap();
    let mut nodes: Vec<&str> = starts.lines().filter_map(|line| line.split(' ').next()).collect();
    nodes.dedup();
    assert_eq!(nodes.len(), 3, "version 2 was tried beyond the instance that failed: {starts}");
    assert!(demo.dir().join("nodes").exists(), "--keep keeps everything");
}
