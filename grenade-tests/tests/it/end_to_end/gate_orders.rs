//! Two services, upgraded in each order on real processes. The base of one of them cannot read what the target of the other
//! one writes: the order decides.

use std::path::Path;

use grenade_tests::gate::databases::Databases;
use grenade_tests::gate::file;
use grenade_tests::gate::orders::{ordered, orders};
use grenade_tests::gate::report::progress::Progress;
use grenade_tests::gate::verdict::Word;
use grenade_tests::gate::verdict::orders::in_each_order;

use super::gate_job::{LIMIT, contains, shortened};
use crate::rig::Rig;

const TWO: &str = include_str!("../../../gates/two-services.yaml");

#[tokio::test]
async fn reader_that_is_upgraded_last_fails_and_upgraded_first_passes() {
    let rig = Rig::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates");
    let (own, companion) = TWO.split_once("\ncompanions:\n").unwrap();
    let strict = companion.replacen("--version, \"1\"", "--version, \"1\", --fault, strict", 1);
    let text = format!("{own}\ncompanions:\n{strict}").replace("instances: 2", "instances: 3");
    let text = shortened(&text)
        .replace("mixed: 4s", "mixed: 1s")
        .replace("min_healthy_time: 500ms", "min_healthy_time: 100ms");
    let gate = file::parse(&text, Path::new("gate.yaml"), &here).unwrap();
    let (world, progress) = (&rig.world, Progress::new(LIMIT));
    let databases = Databases::start(world, &gate).await.unwrap();
    let mut all = Vec::new();
    for (n, order) in orders(2).iter().enumerate() {
        all.push(ordered(world, &gate, &databases, &progress, (n + 1, order)).await.unwrap());
    }
    let checks = in_each_order(&all, &gate.host);
    let of = |check: &str| checks.iter().find(|one| one.check == check).unwrap();
    for order in ["items before mirror", "mirror before items"] {
        let completes = of(&format!("{order}: each upgrade completes"));
        assert_eq!(completes.verdict, Word::Pass, "{checks:#?}");
    }
    let failed = of("items before mirror: every request");
    assert_eq!(failed.verdict, Word::Fail, "{checks:#?}");
    contains(
        &failed.found,
        &[
            "first: mirrored ",
            "mirror-",
            "at version 1, written by version 2",
            "it went to mirror, with items",
        ],
    );
    let other: Vec<_> =
        checks.iter().filter(|check| check.check.starts_with("mirror before items")).collect();
    assert_eq!(other.len(), 4);
    assert!(other.iter().all(|check| check.verdict == Word::Pass), "{other:#?}");
}
