//! Whole upgrades over agents that obey at once.

use crate::openapi::Door;
use crate::world::{Coordinator, LIMIT, spec, store, world};
use std::sync::Arc;
use std::time::Duration;
use tidegate_coordinator::leadership::Leadership;
use tidegate_coordinator::operation;
use tidegate_coordinator::record::retention;
use tidegate_proto::record::MAX_RECORD_BYTES;
use tidegate_proto::record::active::Active;
use tidegate_proto::record::upgrade::{Failure, Phase, Upgrade};
use tidegate_proto::record::window::Window;
use tidegate_proto::wire::v1::UpgradeStatusReply;
use tidegate_proto::wire::v1::{
    ApproveUpgradeRequest, StartUpgradeRequest, UpgradeHistoryRequest, WatchUpgradeRequest,
    upgrade_seen::Seen,
};
use tidegate_proto::{Commit, Key, Value};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_completes_within_its_unavailability_budget() {
    let (_embedded, coordinator, herd) = world(6).await;
    let least = herd.least.clone();
    let end = CancellationToken::new();
    tokio::spawn(herd.run(end.clone()));
    let started =
        coordinator.start_upgrade(&spec("strategy: {canary: {}}\nmin_in_service: 4"), "u1").await.unwrap();
    assert_eq!(started.id, "u1");
    let mut reported =
        operation::watch_upgrade(&coordinator.context, &WatchUpgradeRequest { id: "u1".to_owned() })
            .await
            .unwrap();
    let status = coordinator.reaches("u1", "completed").await;
    assert_eq!(status.spread.unwrap().by_version, [(2, 6)].into());
    assert!(
        *least.lock().unwrap() >= 5,
        "one at a time, and {} were in rotation at the least",
        least.lock().unwrap()
    );

    let (mut events, mut last) = (0, None);
    while let Some(seen) = reported.recv().await {
        events += usize::from(matches!(seen.seen, Some(Seen::Event(_))));
        last = seen.seen;
    }
    assert!(matches!(last, Some(Seen::Over(over)) if over.phase == "completed"), "the last word is the end");
    let history =
        operation::upgrade_history(&coordinator.context, &UpgradeHistoryRequest { id: "u1".to_owned() })
            .await
            .unwrap();
    assert_eq!(history.len(), events, "a watcher sees every event once");
    end.cancel();
    coordinator.stop().await;
}

/// As where the store was restored to a copy from before the upgrade.
#[tokio::test(flavor = "multi_thread")]
async fn watch_of_an_upgrade_that_the_store_lost_ends() {
    let (embedded, coordinator, _herd) = world(3).await;
    coordinator.start_upgrade(&spec("approvals: [stage]"), "u1").await.unwrap();
    let asked = WatchUpgradeRequest { id: "u1".to_owned() };
    let mut reported = operation::watch_upgrade(&coordinator.context, &asked).await.unwrap();
    assert!(reported.recv().await.is_some(), "it was started");
    let record = Key::Upgrade("u1".parse().unwrap());
    store(&embedded).await.commit(&Commit::new().delete(record)).await.unwrap();
    let ended = async { while reported.recv().await.is_some() {} };
    timeout(LIMIT, ended).await.expect("no end of the upgrade is waited for");
    coordinator.stop().await;
}

/// Command lines that know no `PreviewUpgrade` ask so: it must never start anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_a_dry_run_starts_nothing() {
    let (embedded, coordinator, _herd) = world(3).await;
    let leadership = coordinator.context.led_here().unwrap();
    let dry =
        StartUpgradeRequest { spec: spec(""), id: "u1".to_owned(), who: "op".to_owned(), dry_run: true };
    let reported = operation::start_upgrade(&coordinator.context, &leadership, dry).await.unwrap();
    assert_eq!((reported.id.as_str(), reported.revision, reported.waves.is_empty()), ("", 0, false));
    let record = Key::Upgrade("u1".parse().unwrap());
    assert!(store(&embedded).await.get(&record).await.unwrap().is_none());
    coordinator.start_upgrade(&spec(""), "u1").await.unwrap();
    assert!(store(&embedded).await.get(&record).await.unwrap().is_some());
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_never_becomes_healthy_is_rolled_back() {
    let (_embedded, coordinator, herd) = world(6).await;
    let end = CancellationToken::new();
    tokio::spawn(herd.break_at_2(2).run(end.clone()));
    coordinator.start_upgrade(&spec("min_in_service: 4"), "u1").await.unwrap();
    let status = coordinator.reaches("u1", "rolled-back").await;
    assert_eq!(status.spread.unwrap().by_version, [(1, 6)].into());
    assert!(status.because.unwrap().contains("n00002"), "the instance that failed is named");
    end.cancel();
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_coordinator_completes_what_one_began() {
    let (embedded, first, herd) = world(5).await;
    let end = CancellationToken::new();
    tokio::spawn(herd.run(end.clone()));
    let second = Coordinator::start(&embedded, "two").await;
    first.start_upgrade(&spec("approvals: [remove]"), "u1").await.unwrap();
    first.reaches("u1", "roll").await;
    first.stop().await;
    second.leads().await;
    let leadership = second.context.led_here().unwrap();
    second.reaches("u1", "roll").await;
    let asked = |phase: &str| tidegate_proto::wire::v1::ApproveUpgradeRequest {
        id: "u1".to_owned(),
        phase: phase.to_owned(),
        note: "seen".to_owned(),
        who: "op".to_owned(),
        accepts: Vec::new(),
    };
    // The approval is refused until it is waited for: the roll comes first.
    let mut sync_status = second.context.mirror.sync_status();
    let approved = async {
        while operation::approve_upgrade(&second.context, &leadership, asked("remove")).await.is_err() {
            sync_status.changed().await.unwrap();
        }
    };
    tokio::time::timeout(crate::world::LIMIT, approved).await.expect("remove waits for a person");
    second.reaches("u1", "completed").await;
    end.cancel();
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_a_former_leader_have_no_reasons() {
    let (_embedded, coordinator, herd) = world(3).await;
    let end = CancellationToken::new();
    tokio::spawn(herd.run(end.clone()));
    coordinator.start_upgrade(&spec("approvals: [stage]"), "u1").await.unwrap();
    let context = coordinator.context.clone();
    let has_reasons = || {
        let text = context.metrics.text(&context.mirror.view()).unwrap();
        text.contains("tidegate_waiting{")
    };
    let waits = async {
        while !has_reasons() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, waits).await.expect("stage waits for a person");
    coordinator.stop().await;
    assert!(!has_reasons());
    end.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_instances_in_waves_of_hundreds() {
    let (embedded, coordinator, herd) = world(2000).await;
    let end = CancellationToken::new();
    tokio::spawn(herd.run(end.clone()));
    let strategy = "strategy: {rolling: {batch: \"20%\"}}\nmin_in_service: \"50%\"\nmax_unavailable: \"20%\"";
    coordinator.start_upgrade(&spec(strategy), "u1").await.unwrap();
    let over = coordinator.is_over_within("u1", Duration::from_secs(180)).await;
    assert_eq!(over, "Completed");
    let status = coordinator.status("u1").await;
    assert_eq!(status.upgrade.unwrap().waves, 5);
    assert_eq!(status.spread.unwrap().by_version, [(2, 2000)].into());
    assert_eq!((status.instances.len(), status.more_instances), (1000, 1000));
    end.cancel();
    coordinator.stop().await;
    drop(store(&embedded).await);
}

/// The largest fleet that is promised, in waves of thousands: each of them takes many commits and pages.
#[tokio::test(flavor = "multi_thread")]
async fn long_twenty_thousand_instances_in_waves_of_thousands() {
    const FLEET: usize = 20_000;
    let (_embedded, coordinator, herd) = world(FLEET).await;
    let (end, least) = (CancellationToken::new(), herd.least.clone());
    tokio::spawn(herd.run(end.clone()));
    let strategy = "strategy: {canary: {}}\nmin_in_service: \"50%\"\nmax_unavailable: \"10%\"";
    coordinator.start_upgrade(&spec(strategy), "u1").await.unwrap();
    let over = coordinator.is_over_within("u1", Duration::from_secs(1200)).await;
    assert_eq!(over, "Completed");
    let status = coordinator.status("u1").await;
    assert_eq!(status.upgrade.unwrap().waves, 5, "1, 1 %, 5 %, 20 % and the rest");
    assert_eq!(status.spread.unwrap().by_version, [(2, FLEET as u32)].into());
    let least = *least.lock().unwrap();
    assert!(least >= FLEET - FLEET / 10, "{least} were in rotation at the least");
    end.cancel();
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_alone_removes_oldest_events() {
    let (embedded, coordinator, herd) = world(6).await;
    let end = CancellationToken::new();
    tokio::spawn(herd.run(end.clone()));
    coordinator.start_upgrade(&spec(""), "u1").await.unwrap();
    coordinator.reaches("u1", "completed").await;
    let asked = UpgradeHistoryRequest { id: "u1".to_owned() };
    let before = operation::upgrade_history(&coordinator.context, &asked).await.unwrap();
    let deposed = coordinator.context.led_here().unwrap();
    let reads = &coordinator.context.store;
    assert_eq!(retention::trim(reads, &deposed, before.len()).await.unwrap(), 0);

    store(&embedded).await.commit(&Commit::new().delete(Key::Leader)).await.unwrap();
    assert!(retention::trim(reads, &deposed, 3).await.is_err());
    assert_eq!(operation::upgrade_history(&coordinator.context, &asked).await.unwrap(), before);

    let elected = |leadership: &Option<Arc<Leadership>>| {
        leadership.as_ref().is_some_and(|leadership| leadership.leading != deposed.leading)
    };
    let mut leaderships = coordinator.context.leadership.clone();
    let leader = timeout(LIMIT, leaderships.wait_for(elected)).await.unwrap().unwrap().clone().unwrap();
    assert_eq!(retention::trim(reads, &leader, 3).await.unwrap(), before.len() - 3);
    let after = operation::upgrade_history(&coordinator.context, &asked).await.unwrap();
    assert_eq!(after, before[before.len() - 3..]);
    end.cancel();
    coordinator.stop().await;
}

/// An upgrade that holds so many failures, as an earlier version kept them, that its record cannot be rewritten.
fn full(like: &Upgrade) -> Upgrade {
    let mut full = like.clone();
    full.spec.service = "a-first".parse().unwrap();
    full.phase = Phase::Roll { wave: 0 };
    let failure = |reason| Failure { wave: 0, reason, accepted: false, returning: false, resumed: 0 };
    let size = |full: &Upgrade| Value::from(full.clone()).encode().len();
    for n in 0..2_000 {
        full.failed.insert(format!("n{n:05}").parse().unwrap(), failure("x".repeat(400)));
    }
    let rest = MAX_RECORD_BYTES - size(&full) - 200;
    full.failed.insert("the-last".parse().unwrap(), failure("x".repeat(rest)));
    assert!((MAX_RECORD_BYTES - 200..=MAX_RECORD_BYTES).contains(&size(&full)));
    full
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_with_full_record_blocks_no_other_subject() {
    let (embedded, coordinator, herd) = world(3).await;
    let end = CancellationToken::new();
    coordinator.start_upgrade(&spec("approvals: [stage]"), "u1").await.unwrap();
    let store = store(&embedded).await;
    let read = store.get(&Key::Upgrade("u1".parse().unwrap())).await.unwrap().unwrap();
    let Ok(Value::Upgrade(record)) = read.value else { panic!("no upgrade") };
    let (bad, service): (tidegate_proto::UpgradeId, tidegate_proto::ServiceName) =
        ("bad".parse().unwrap(), "a-first".parse().unwrap());
    let commit = Commit::new()
        .put(Key::Upgrade(bad.clone()), full(&record.body))
        .put(Key::Window(service.clone()), Window::open(bad.clone()))
        .put(Key::Active(service), Active { upgrade: bad.clone() });
    let written = store.commit(&commit).await.unwrap().revision;
    coordinator.context.mirror.reaches(written).await;
    // Its first action, a pause beyond the failure budget, fails in every turn.
    tokio::spawn(herd.run(end.clone()));
    let leadership = coordinator.context.led_here().unwrap();
    let approve = ApproveUpgradeRequest {
        id: "u1".to_owned(),
        phase: "stage".to_owned(),
        who: "op".to_owned(),
        ..ApproveUpgradeRequest::default()
    };
    let mut sync_status = coordinator.context.mirror.sync_status();
    while operation::approve_upgrade(&coordinator.context, &leadership, approve.clone()).await.is_err() {
        sync_status.changed().await.unwrap();
    }
    let door = Door::of_releases(&coordinator).await;
    door.create_requiring_2(9057, "pantry-api").await;
    coordinator.reaches("u1", "completed").await;
    door.becomes(&coordinator, 1, "deployed").await;
    assert_eq!(coordinator.status("bad").await.upgrade.unwrap().phase, "roll");
    let refused =
        |reply: &UpgradeStatusReply| reply.waiting.iter().any(|reason| reason.kind == "store-refused");
    while !refused(&coordinator.status("bad").await) {
        sync_status.changed().await.unwrap();
    }
    end.cancel();
    coordinator.stop().await;
}
