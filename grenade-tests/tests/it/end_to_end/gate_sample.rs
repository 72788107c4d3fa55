//! The gate of the sample service: Tidegate's own migrations under frozen mixes, upgrades that are rolled back before expand
//! and before migrate, and one that is rolled back in mid-roll and begun again.

use std::path::Path;

use super::gate_job::{contains, done, shortened};

const GATE: &str = include_str!("../../../gates/pantry-sqlite.yaml");

#[tokio::test]
async fn sample_passes_and_is_rolled_back_before_expand_and_migrate() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample");
    let gate = shortened(&GATE.replace("../sample", &sample.display().to_string()));
    let gate = gate.replace("{base: 2, target: 1}", "{base: 1, target: 1}");
    let back = "rollback_from: [expand, migrate]\nfaults:\n  - {when: {upgraded: 1}, do: roll-back}";
    let done = done(&gate.replace("\ntags:", &format!("\n{back}\ntags:"))).await;
    assert_eq!(done.code, Some(0), "{}", done.said);
    let report = done.report();
    for (n, point) in ["expand", "migrate"].into_iter().enumerate() {
        let back = &report["rollbacks"][n];
        assert_eq!((back[0].as_str(), back[1]["ended"].as_str()), (Some(point), Some("rolled-back")));
    }
    contains(
        &done.said,
        &["contract ran on a certificate that is true", "1 at the base beside 1 at the target"],
    );
}
