//! Reports that no agent of ours wrote: each closes the gates, is reported with its key, and crashes nothing.

use super::super::fleet::{Fleet, Said};
use super::{Wrong, etcdctl};

const KEY: &str = "/tidegate/reports/pantry-api/node-9";

pub(super) async fn close_gates(fleet: &Fleet, wrong: &mut Wrong) {
    let absurd = br#"{"schema":1,"version":99999999999,"identity":{"nonce":"n","boot":"b"}}"#;
    let cases: [(&str, Vec<u8>); 5] = [
        ("is malformed", absurd.to_vec()),
        ("is malformed", br#"{"schema":1,"version":"2","identity":{"nonce":"n","boot":"b"}}"#.to_vec()),
        ("is malformed", br#"{"schema":1,"version":-1,"identity":{"nonce":"n","boot":"b"}}"#.to_vec()),
        ("is not UTF-8", vec![0xff, 0xfe, b'{']),
        ("bytes long", vec![b'x'; 1024 * 1024 + 1]),
    ];
    let path = fleet.rig.world.path("good.yaml");
    std::fs::write(&path, fleet.spec("min_in_service: 2")).unwrap();
    let start = ["upgrade", "start", path.to_str().unwrap(), "--id", "u-closed"];
    for (why, bytes) in cases {
        etcdctl(fleet, &["put", KEY], Some(&bytes)).await;
        let seen = |said: &Said| said.out.contains("reports/pantry-api/node-9") && said.out.contains(why);
        fleet.until("the record is named", &["fleet", "spread", "pantry-api"], seen).await;
        wrong.answered(why, &fleet.ask(&start).await, 3, &["node-9"]);
    }
    etcdctl(fleet, &["del", KEY], None).await;
    let clean = |said: &Said| said.code == Some(0) && !said.out.contains("unreadable");
    fleet.until("it is gone", &["fleet", "spread", "pantry-api"], clean).await;
    assert!(fleet.leads(0).await, "the coordinator still leads");
    assert!(fleet.must(&["upgrade", "list"]).await.lines().all(|line| !line.contains("u-closed")));
}
