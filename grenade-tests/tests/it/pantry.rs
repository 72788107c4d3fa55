//! The sample service by itself: what it answers, refuses, and how it starts and ends.

use std::time::Duration;

use grenade_tests::fixture::load::version_of;
use grenade_tests::load::wire;
use grenade_tests::world::wait::{get, wait_for};
use grenade_tests::world::{Spawn, program};
use http::Method;
use serde_json::json;

use crate::rig::{LIMIT, Rig, ask, json};

#[tokio::test]
async fn bad_input_gets_one_sentence_and_changes_nothing() {
    let rig = Rig::new();
    let database = rig.sqlite(10).await;
    let pantry = rig.pantry(1, "n1", &database).await;
    let at = pantry.plan.address;
    let cases = [
        (Method::POST, "/images", "{", 400, "not JSON"),
        (Method::POST, "/images", "[1]", 400, "not an object"),
        (Method::POST, "/images", r#"{"public":true}"#, 400, "`name` is missing"),
        (Method::POST, "/images", r#"{"name":7}"#, 400, "a string is allowed"),
        (Method::POST, "/images", r#"{"name":""}"#, 400, "1 to 255 bytes"),
        (Method::POST, "/images", r#"{"name":"a","id":"a b"}"#, 400, "no identifier"),
        (Method::POST, "/images", r#"{"name":"a","public":"yes"}"#, 400, "true or false"),
        (Method::POST, "/images", r#"{"name":"a","public":true,"is_public":false}"#, 400, "contradict"),
        (Method::POST, "/images", r#"{"name":"a","visibility":"public"}"#, 400, "not a field"),
        (Method::POST, "/images", r#"{"name":"a","id":"seed-00000003"}"#, 409, "already"),
        (Method::PUT, "/images/none", r#"{"name":"a"}"#, 404, "there is no image"),
        (Method::PUT, "/images/none/members/m", "", 404, "there is no image"),
        (Method::GET, "/images?limit=0", "", 400, "1 to 1000"),
        (Method::GET, "/images?limit=many", "", 400, "1 to 1000"),
        (Method::GET, "/images?marker=%2F", "", 400, "no identifier"),
    ];
    let before = json(at, Method::GET, "/images?limit=1000", "", 200).await;
    for (method, path, body, status, says) in cases {
        let said = json(at, method, path, body, status).await["error"].to_string();
        assert!(said.contains(says), "{path} {body}: {said}");
    }
    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(100_000));
    let said = json(at, Method::POST, "/images", &long, 400).await["error"].to_string();
    assert!(said.contains("at most 65536 bytes"), "{said}");
    assert_eq!(json(at, Method::GET, "/images?limit=1000", "", 200).await, before);
}

#[tokio::test]
async fn operator_endpoints_report_the_state() {
    let rig = Rig::new();
    let database = rig.sqlite(10).await;
    let pantry = rig.pantry(1, "n1", &database).await;
    let at = pantry.plan.address;
    let version = json(at, Method::GET, "/version", "", 200).await;
    assert_eq!(version, json!({"service": "pantry-api", "version": 1, "release": "pantry-1.0.0"}));
    assert_eq!(get(at, "/healthcheck").await.unwrap(), (200, "OK".to_owned()));
    std::fs::write(&pantry.plan.disable_file, "").unwrap();
    assert_eq!(get(at, "/healthcheck").await.unwrap(), (503, "DISABLED BY FILE".to_owned()));
    assert_eq!(get(at, "/ready").await.unwrap().0, 200, "a disabled instance is ready all the same");
    std::fs::remove_file(&pantry.plan.disable_file).unwrap();
    assert_eq!(get(at, "/healthcheck").await.unwrap().0, 200);
    let answer = ask(at, Method::GET, "/images/seed-00000001", "").await;
    assert_eq!((version_of(&answer), answer.header("x-pantry-node")), (Some(1), Some("n1")));
}

#[tokio::test]
async fn an_upload_in_flight_is_counted_and_outlives_sigterm() {
    let rig = Rig::new();
    let database = rig.sqlite(10).await;
    let pantry = rig.pantry(1, "n1", &database).await;
    let at = pantry.plan.address;
    let size = 49_152;
    let file = wire::slow(size, Duration::from_millis(1_200));
    let upload = tokio::spawn(wire::send(at, Method::PUT, "/images/seed-00000001/file", file));
    wait_for("one request in flight", LIMIT, || async {
        match get(at, "/in-flight").await?.1.as_str() {
            r#"{"in_flight":1}"# => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await
    .unwrap();
    let status = pantry.stop().await.unwrap();
    assert_eq!(status.code(), Some(0));
    let answer = upload.await.unwrap().expect("the upload was answered before the end");
    assert_eq!(answer.status, 200);
    assert!(wire::send(at, Method::GET, "/ready", wire::nothing()).await.is_err(), "it still listens");
    let again = rig.pantry(1, "n2", &database).await;
    let image = json(again.plan.address, Method::GET, "/images/seed-00000001", "", 200).await;
    assert_eq!(image["size"], json!(size), "what was acknowledged is there");
}

#[tokio::test]
async fn a_broken_release_works_up_to_its_first_broken_instance() {
    let rig = Rig::new();
    let database = rig.sqlite(10).await;
    let ledger = rig.world.path("starts");
    let mut held = Vec::new();
    for (node, ready) in [("a", true), ("b", true), ("c", false), ("a", true), ("d", false)] {
        let plan = rig.plan(1, node, &database);
        let spawn = Spawn::new(&format!("broken-{node}"), &program::own("pantry-v1").unwrap())
            .args(["--listen", &plan.address.to_string(), "--database", &database, "--node", node])
            .arg("--disable-file")
            .arg(&plan.disable_file)
            .args(["--broken-from", "3", "--start-ledger"])
            .arg(&ledger);
        held.push(rig.world.spawn(spawn).unwrap());
        let seen = wait_for("a settled answer", LIMIT, || async {
            let health = get(plan.address, "/healthcheck").await?;
            let settled = health.0 == 200 || health.1.contains("broken");
            if settled { Ok(health) } else { Err(health.1) }
        })
        .await
        .unwrap();
        assert_eq!(seen.0 == 200, ready, "{node}: {seen:?}");
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_a_reason_and_no_end() {
    let rig = Rig::new();
    let database = format!("sqlite:{}", rig.world.path("late.db").display());
    let mut pantry =
        grenade_tests::fixture::pantry::Pantry::spawn(&rig.world, rig.plan(1, "n1", &database)).unwrap();
    let at = pantry.plan.address;
    wait_for("the reason", LIMIT, || async {
        let (status, said) = get(at, "/ready").await?;
        if status == 503 && said.contains("unable to open") { Ok(()) } else { Err(said) }
    })
    .await
    .unwrap();
    grenade_tests::fixture::pantry::seed(&rig.world, &database, 1).await.unwrap();
    pantry.ready().await.unwrap();
    let again = grenade_tests::fixture::pantry::seed(&rig.world, &database, 1).await.unwrap_err();
    assert!(again.to_string().contains("already holds"), "{again}");
}

#[tokio::test]
async fn a_restart_is_measured_alone() {
    let rig = Rig::new();
    let database = rig.sqlite(10).await;
    let plan = rig.plan(1, "n1", &database);
    let restart = grenade_tests::fixture::pantry::measure_restart(&rig.world, plan.clone()).await.unwrap();
    for took in [restart.stop, restart.start_to_ready] {
        assert!(took > Duration::ZERO && took < LIMIT, "{restart:?}");
    }
    assert!(get(plan.address, "/ready").await.is_err(), "it was left running");
}
