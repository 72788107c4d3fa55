//! `--real`: the same on three members of etcd, PostgreSQL and HAProxy.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::running::{Running, agrees};

#[tokio::test]
async fn an_upgrade_completes_on_real_etcd_postgresql_and_haproxy() {
    let mut demo = Running::start(&["--real"]);
    let code = demo.ends(Duration::from_secs(170)).await;
    let (report, said) = (demo.report(), demo.said());
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(report["outcome"], "completed", "{report:#}");
    assert_eq!(report["spread"], json!({"before": {"1": 6}, "after": {"2": 6}}));
    assert_eq!(report["requests"]["failed"], 0, "{said}");
    assert!(report["certificate"].is_string(), "{report:#}");
    agrees(&report, &demo.ledger());
    assert!(said.contains("three members of etcd, PostgreSQL, HAProxy"), "{said}");
}

#[tokio::test]
async fn an_interrupt_ends_the_real_servers_too() {
    let mut demo = Running::start(&["--real", "--instances=2", "--rows=2000", "--rate=50"]);
    demo.says("waiting on  draining", Duration::from_secs(120)).await;
    demo.signal(Signal::INT);
    assert_eq!(demo.ends(Duration::from_secs(30)).await, Some(130), "{}", demo.said());
}
