//! Records that no program of ours wrote: each is reported with its key, closes its gates, and crashes nothing.

use crate::world::{spec, store, world};
use etcd_client::GetOptions;
use tidegate_coordinator::operation::{self, OperationError};
use tidegate_proto::Key;
use tidegate_proto::wire::v1::{
    ExplainGroupRequest, ExplainReleaseRequest, FleetSpreadRequest, ShowStreamRequest, SkipInstanceRequest,
    Spread, UpgradeStatusRequest,
};
use tidegate_store::Scope;

async fn spread(coordinator: &crate::world::Coordinator) -> Spread {
    let asked = FleetSpreadRequest { service: "pantry-api".to_owned() };
    operation::fleet_spread(&coordinator.context, &asked).await.unwrap().services.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_record_closes_only_its_gates() {
    let (embedded, coordinator, _herd) = world(4).await;
    let mut kv = embedded.client().await.unwrap().kv_client();
    let cases: [(&str, Vec<u8>); 5] = [
        ("is not UTF-8", vec![0xff, 0xfe, b'{']),
        (
            "is malformed",
            br#"{"schema":1,"version":99999999999,"identity":{"nonce":"n","boot":"b"}}"#.to_vec(),
        ),
        ("is malformed", br#"{"schema":1,"version":"2","identity":{"nonce":"n","boot":"b"}}"#.to_vec()),
        ("is malformed", b"[]".to_vec()),
        ("bytes long", vec![b'x'; 1024 * 1024 + 1]),
    ];
    for (why, bytes) in cases {
        let put = kv.put("/tidegate/reports/pantry-api/n00002", bytes, None).await.unwrap();
        let at = tidegate_proto::Revision(put.header().unwrap().revision());
        assert!(coordinator.context.mirror.reaches_within(at, crate::world::LIMIT).await);
        let seen = spread(&coordinator).await;
        assert_eq!((seen.unknown, seen.in_service), (1, 3), "{why}: {seen:?}");
        assert_eq!(seen.unreadable.len(), 1, "{seen:?}");
        let reported = &seen.unreadable[0];
        assert!(reported.contains("reports/pantry-api/n00002") && reported.contains(why), "{reported}");
        let refused = coordinator.start_upgrade(&spec("min_in_service: 1"), "u1").await.unwrap_err();
        assert!(matches!(&refused, OperationError::Refused(why) if why.contains("n00002")), "{refused}");
    }
    for stranger in ["/tidegate/reports/pantry-api", "/tidegate/unheard/of", "/tidegate/reports/a/b/c"] {
        kv.put(stranger, "x", None).await.unwrap();
    }
    let put = kv.delete("/tidegate/reports/pantry-api/n00002", None).await.unwrap();
    let at = tidegate_proto::Revision(put.header().unwrap().revision());
    assert!(coordinator.context.mirror.reaches_within(at, crate::world::LIMIT).await);
    let seen = spread(&coordinator).await;
    assert_eq!((seen.unknown, seen.silent, seen.unreadable.len()), (0, 1, 0), "{seen:?}");
    assert!(coordinator.context.led_here().is_some());
    coordinator.stop().await;
    drop(store(&embedded).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn report_without_a_lease_is_ignored_and_named() {
    let (embedded, coordinator, _herd) = world(4).await;
    let mut kv = embedded.client().await.unwrap().kv_client();
    let forged = br#"{"schema":1,"version":1,"health":"healthy","rotation":"in","step":{"name":"serving"},
        "identity":{"nonce":"n","boot":"b"},"witness":{"term":"made-up","floor":2147483647}}"#;
    let put = kv.put("/tidegate/reports/pantry-api/n00002", forged.to_vec(), None).await.unwrap();
    let at = tidegate_proto::Revision(put.header().unwrap().revision());
    assert!(coordinator.context.mirror.reaches_within(at, crate::world::LIMIT).await);
    let seen = spread(&coordinator).await;
    assert_eq!((seen.unknown, seen.in_service), (1, 3), "{seen:?}");
    assert!(seen.unreadable[0].contains("reports/pantry-api/n00002 has no lease"), "{seen:?}");
    let contradicted = coordinator.context.mirror.view().fleet.contradicted_by().count();
    assert_eq!(contradicted, 0, "what it claims is not heard");
    coordinator.stop().await;
    drop(store(&embedded).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_whose_record_or_lock_cannot_be_read_says_so() {
    let (embedded, coordinator, herd) = world(3).await;
    let end = tokio_util::sync::CancellationToken::new();
    tokio::spawn(herd.run(end.clone()));
    let asked = spec("min_in_service: 1\napprovals: [roll]");
    coordinator.start_upgrade(&asked, "u1").await.unwrap();
    let mut kv = embedded.client().await.unwrap().kv_client();
    let explain = async || {
        let asked = tidegate_proto::wire::v1::ExplainUpgradeRequest { id: "u1".to_owned() };
        operation::explain_upgrade(&coordinator.context, &asked).await
    };
    let put = kv.put("/tidegate/active/pantry-api", "nonsense", None).await.unwrap();
    let at = tidegate_proto::Revision(put.header().unwrap().revision());
    assert!(coordinator.context.mirror.reaches_within(at, crate::world::LIMIT).await);
    let trouble = explain().await.unwrap().trouble.unwrap();
    assert!(trouble.contains("the record active/pantry-api is malformed"), "{trouble}");
    assert!(trouble.contains("restore its previous value"), "{trouble}");
    let put = kv.put("/tidegate/upgrades/u1", "nonsense", None).await.unwrap();
    let at = tidegate_proto::Revision(put.header().unwrap().revision());
    assert!(coordinator.context.mirror.reaches_within(at, crate::world::LIMIT).await);
    let reported = explain().await.unwrap_err().to_string();
    assert!(reported.contains("upgrade u1 does not move: the record upgrades/u1 is malformed"), "{reported}");
    end.cancel();
    coordinator.stop().await;
    drop(store(&embedded).await);
}

/// A node contradicts the store in a way that a second one supports, as after a restore from a backup.
#[tokio::test(flavor = "multi_thread")]
async fn unreconciled_store_is_named_before_an_unreadable_record() {
    let (embedded, coordinator, herd) = world(3).await;
    let end = tokio_util::sync::CancellationToken::new();
    let herding = tokio::spawn(herd.run(end.clone()));
    coordinator.start_upgrade(&spec("min_in_service: 1\napprovals: [roll]"), "u1").await.unwrap();
    end.cancel();
    herding.await.unwrap();
    let mut kv = embedded.client().await.unwrap().kv_client();
    let mut lease = embedded.client().await.unwrap().lease_client();
    let lease = lease.grant(60, None).await.unwrap().id();
    let claim = br#"{"schema":1,"version":1,"health":"healthy","rotation":"in","step":{"name":"serving"},
        "identity":{"nonce":"n","boot":"b"},"witness":{"term":"elsewhere"}}"#;
    for key in ["reports/pantry-api/n90001", "reports/pantry-api/n90002"] {
        let under = Some(etcd_client::PutOptions::new().with_lease(lease));
        kv.put(format!("/tidegate/{key}"), claim.to_vec(), under).await.unwrap();
    }
    let explain = async || {
        let asked = tidegate_proto::wire::v1::ExplainUpgradeRequest { id: "u1".to_owned() };
        operation::explain_upgrade(&coordinator.context, &asked).await
    };
    for key in ["active/pantry-api", "upgrades/u1"] {
        let put = kv.put(format!("/tidegate/{key}"), "nonsense", None).await.unwrap();
        let at = tidegate_proto::Revision(put.header().unwrap().revision());
        assert!(coordinator.context.mirror.reaches_within(at, crate::world::LIMIT).await);
        let reported = match explain().await {
            Ok(reply) => reply.trouble.unwrap(),
            Err(refused) => refused.to_string(),
        };
        let (first, then) = reported.split_once(". After that: ").unwrap_or_else(|| panic!("{reported}"));
        assert!(first.contains("`tidegate fleet reconcile`"), "{reported}");
        assert!(then.starts_with(&format!("the record {key} is malformed")), "{reported}");
        assert!(then.contains("restore its previous value"), "{reported}");
    }
    coordinator.stop().await;
    drop(store(&embedded).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_record_of_subject_is_listed_with_repair() {
    let (embedded, coordinator, _herd) = world(1).await;
    let leadership = coordinator.context.led_here().unwrap();
    let mut kv = embedded.client().await.unwrap().kv_client();
    let mut repairs = async |key: &str, refused: OperationError| {
        let now = kv.get(format!("/tidegate/{key}"), None).await.unwrap();
        let before = now.kvs()[0].mod_revision() - 1;
        let reported = refused.to_string();
        assert!(matches!(refused, OperationError::Refused(_)), "{reported}");
        assert!(reported.contains(&format!("the record {key} is malformed")), "{reported}");
        for command in [
            format!("`etcdctl get --rev={before} --print-value-only /tidegate/{key}`"),
            format!("`etcdctl put /tidegate/{key} < FILE`"),
        ] {
            assert!(reported.contains(&command), "{reported}");
        }
    };
    let mut spoil = embedded.client().await.unwrap().kv_client();
    for key in ["streams/compute", "groups/edge", "upgrades/u1"] {
        let put = spoil.put(format!("/tidegate/{key}"), "nonsense", None).await.unwrap();
        let at = tidegate_proto::Revision(put.header().unwrap().revision());
        assert!(coordinator.context.mirror.reaches_within(at, crate::world::LIMIT).await);
    }
    let stream = ExplainReleaseRequest { stream: String::new(), revision: 0 };
    let refused =
        operation::release::explain_release(&coordinator.context, &leadership, &stream).await.unwrap_err();
    repairs("streams/compute", refused).await;
    let group = ExplainGroupRequest { group: "edge".to_owned() };
    let refused =
        operation::metadata::explain_group(&coordinator.context, &leadership, &group).await.unwrap_err();
    repairs("groups/edge", refused).await;
    let asked = UpgradeStatusRequest { id: "u1".to_owned(), max_instances: 0 };
    let refused = operation::upgrade_status(&coordinator.context, &asked).await.unwrap_err();
    repairs("upgrades/u1", operation::hinted(&coordinator.context, &asked, refused)).await;
    let asked = ShowStreamRequest { stream: "compute".to_owned() };
    let refused = operation::release::show_stream(&coordinator.context, &asked).await.unwrap_err();
    repairs("streams/compute", operation::hinted(&coordinator.context, &asked, refused)).await;
    coordinator.stop().await;
    drop(store(&embedded).await);
}

/// Its transaction would compare the record as absent, and fail each time.
#[tokio::test(flavor = "multi_thread")]
async fn request_that_writes_an_unreadable_record_names_it() {
    let (embedded, coordinator, _herd) = world(3).await;
    coordinator.start_upgrade(&spec("min_in_service: 1\napprovals: [stage]"), "u1").await.unwrap();
    let leadership = coordinator.context.led_here().unwrap();
    let mut kv = embedded.client().await.unwrap().kv_client();
    let put = kv.put("/tidegate/exceptions/u1/n00002", "nonsense", None).await.unwrap();
    let at = tidegate_proto::Revision(put.header().unwrap().revision());
    assert!(coordinator.context.mirror.reaches_within(at, crate::world::LIMIT).await);
    let asked = SkipInstanceRequest {
        id: "u1".to_owned(),
        node: "n00002".to_owned(),
        why: "a disk".to_owned(),
        who: "op".to_owned(),
    };
    let refused = operation::skip_instance(&coordinator.context, &leadership, asked).await.unwrap_err();
    let reported = refused.to_string();
    assert!(matches!(refused, OperationError::Refused(_)), "{reported}");
    assert!(reported.contains("nothing was changed: the record exceptions/u1/n00002"), "{reported}");
    assert!(reported.contains("`etcdctl put /tidegate/exceptions/u1/n00002 < FILE`"), "{reported}");
    coordinator.stop().await;
    drop(store(&embedded).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_reasons_are_written_again_or_removed() {
    let (embedded, coordinator, _herd) = world(3).await;
    coordinator.start_upgrade(&spec("min_in_service: 1\napprovals: [stage]"), "u1").await.unwrap();
    let reader = store(&embedded).await;
    let becomes = async |id: &str, expected: Option<bool>| {
        let key = Key::Waiting(id.parse().unwrap());
        let waited = async {
            while reader.get(&key).await.unwrap().map(|entry| entry.value.is_ok()) != expected {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        let within = tokio::time::timeout(crate::world::LIMIT, waited).await;
        assert!(within.is_ok(), "{key} is not as expected: {expected:?}");
    };
    becomes("u1", Some(true)).await;
    let mut kv = embedded.client().await.unwrap().kv_client();
    for id in ["u1", "of-no-upgrade"] {
        kv.put(format!("/tidegate/waiting/{id}"), "nonsense", None).await.unwrap();
    }
    becomes("u1", Some(true)).await;
    becomes("of-no-upgrade", None).await;
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn coordinator_leads_beside_an_upgrade_that_no_version_reads() {
    let (embedded, first, _herd) = world(1).await;
    let mut kv = embedded.client().await.unwrap().kv_client();
    kv.put("/tidegate/upgrades/u1", "nonsense", None).await.unwrap();
    first.stop().await;
    let second = crate::world::Coordinator::start(&embedded, "two").await;
    second.leads().await;
    // A coordinator of the version that wrote it may lead.
    kv.put("/tidegate/upgrades/u1", r#"{"schema":99,"spec":"another form"}"#, None).await.unwrap();
    second.stop().await;
    let third = crate::world::Coordinator::start(&embedded, "three").await;
    let mut hindrance = third.context.hindrance.subscribe();
    let said = tokio::time::timeout(crate::world::LIMIT, hindrance.wait_for(Option::is_some)).await;
    let why = said.expect("it says so within the limit").unwrap().clone().unwrap();
    assert!(why.contains("the record upgrades/u1") && why.contains("schema number 99"), "{why}");
    assert!(third.context.trouble().is_some_and(|trouble| trouble.contains(&why)));
    assert!(third.context.led_here().is_none());
    third.stop().await;
}

/// Of a node whose user writes what it likes below `results/<node>/`.
fn stray(n: usize) -> String {
    format!("/tidegate/results/n1/stray-{n}")
}

#[tokio::test(flavor = "multi_thread")]
async fn results_without_a_task_are_dropped_and_removed() {
    let (embedded, coordinator, _herd) = world(1).await;
    let mut kv = embedded.client().await.unwrap().kv_client();
    let result = br#"{"schema":1,"outcome":{"name":"succeeded"},"at":1}"#;
    let large = vec![b'x'; 900_000];
    for n in 0..60 {
        let bytes = if n % 2 == 0 { result.to_vec() } else { large.clone() };
        kv.put(stray(n), bytes, None).await.unwrap();
    }
    let gone = async {
        loop {
            let left = kv
                .get("/tidegate/results/", Some(GetOptions::new().with_prefix().with_keys_only()))
                .await
                .unwrap();
            if left.count() == 0 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(crate::world::LIMIT, gone).await.expect("the leader removes them");
    let unreadable = coordinator.context.mirror.view().fleet.unreadable().count();
    assert_eq!(unreadable, 0, "none is kept");
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_of_one_node_beyond_a_thousand_are_not_read() {
    let embedded = tidegate_embedded_etcd::Embedded::in_memory();
    let mut kv = embedded.client().await.unwrap().kv_client();
    for n in 0..1200 {
        kv.put(stray(n), "{}", None).await.unwrap();
    }
    let listed = store(&embedded).await.list(&Scope::All).await.unwrap();
    assert_eq!((listed.entries.len(), listed.results.values().sum::<usize>()), (1000, 1200));
    let coordinator = crate::world::Coordinator::start(&embedded, "one").await;
    coordinator.leads().await;
    let gone = async {
        while kv
            .get("/tidegate/results/", Some(GetOptions::new().with_prefix().with_keys_only()))
            .await
            .unwrap()
            .count()
            > 0
        {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(crate::world::LIMIT, gone).await.expect("the leader removes them all");
    coordinator.stop().await;
}
