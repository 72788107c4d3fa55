//! The default form: six instances, everything built in.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::running::{Running, agrees};

/// A minute is what it takes on a machine of its own; tests share theirs.
const LIMIT: Duration = Duration::from_secs(150);

#[tokio::test]
async fn upgrade_completes_and_every_request_is_answered() {
    let mut demo = Running::start(&[]);
    let code = demo.ends(LIMIT).await;
    let (report, ledger, said) = (demo.report(), demo.ledger(), demo.said());
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(report["outcome"], "completed", "{report:#}");
    assert_eq!(report["instances"], 6);
    assert_eq!(report["spread"], json!({"before": {"1": 6}, "after": {"2": 6}}));
    assert_eq!(report["waves"], 5, "canary steps of six instances: 1, 1, 1, 2, 1");
    assert_eq!(report["requests"]["failed"], 0, "{said}");
    agrees(&report, &ledger);

    let phases: Vec<&str> =
        report["phases"].as_array().unwrap().iter().map(|phase| phase["phase"].as_str().unwrap()).collect();
    let order = ["stage", "expand", "migrate", "roll", "remove", "contract"]
        .map(|phase| phases.iter().position(|seen| *seen == phase));
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{phases:?}");
    assert!(report["phases"].as_array().unwrap().iter().all(|phase| phase["seconds"].is_f64()), "{report:#}");
    let (ideal, actual) =
        (report["ideal_seconds"].as_f64().unwrap(), report["actual_seconds"].as_f64().unwrap());
    assert!(
        ideal > 6.0 * 1.8 && actual >= ideal,
        "six slots of at least fall, rise and min_healthy_time, and no upgrade is faster than that: {report:#}"
    );
    for quantile in ["p50", "p99", "p999"] {
        assert!(report["latency_ms"][quantile].as_f64().unwrap() > 0.0, "{report:#}");
    }

    let certificate = report["certificate"].as_str().unwrap_or_else(|| panic!("no certificate: {report:#}"));
    let text = std::fs::read_to_string(demo.dir().join("certificate.json")).unwrap();
    let sealed: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(sealed["digest"], certificate);
    assert_eq!(sealed["certificate"]["upgrade"], "demo");

    // From 2 s before to 2 s after but for the last request's distance, at 100 a second or more, whatever happens.
    let span = ledger.iter().map(|request| request.scheduled_ms).fold(0.0, f64::max) / 1e3;
    assert!(span >= actual + 3.95, "the load ran for {span} s around an upgrade of {actual} s");
    assert!(ledger.len() as f64 / span >= 100.0, "{} requests in {span} s", ledger.len());
    let slow = ledger.iter().filter(|request| request.kind == "upload").count() as f64 / ledger.len() as f64;
    assert!((0.03..=0.07).contains(&slow), "{slow} of the requests were slow uploads, not one in twenty");
    for version in ["1", "2"] {
        let answered = ledger.iter().filter(|request| request.version == version).count();
        assert!(answered > 100, "version {version} answered {answered} requests");
    }
    for word in [
        "phase       roll",
        "wave        5 of 5",
        "waiting on  draining",
        "balancer says DOWN",
        "phase contract requires an approval",
        "version 2",
        "ideal",
    ] {
        assert!(said.contains(word), "the demo never said {word:?}:\n{said}");
    }
    for large in ["nodes", "store", "artifacts", "pantry.db", "alone.db"] {
        assert!(!demo.dir().join(large).exists(), "{large} stays only with --keep");
    }
    for readable in ["upgrade.yaml", "agent-node-1.toml", "coordinator.log"] {
        assert!(demo.dir().join(readable).exists(), "{readable} is not there to be read");
    }
}

#[tokio::test]
async fn failed_requests_are_counted_and_fail_any_outcome() {
    let mut demo = Running::start(&["--instances=2", "--rows=2000"]);
    demo.says("the upgrade is over", LIMIT).await;
    let pantry = demo.pid_of("pantry-v2 --listen");
    kill_process(Pid::from_raw(i32::try_from(pantry).unwrap()).unwrap(), Signal::KILL).unwrap();
    let code = demo.ends(LIMIT).await;
    let (report, said) = (demo.report(), demo.said());
    assert_eq!(code, Some(1), "{said}");
    let failed = agrees(&report, &demo.ledger()).get("failed").copied().unwrap_or(0);
    assert!(failed > 0, "an instance was killed under load and nothing failed: {said}");
    assert!(said.contains("called for is completed with no failed request"), "{said}");
}
