//! The late old node, three ways: it never gets into rotation at the old version once contract began, and where it is
//! only silent, contract waits until an operator has answered for it.

use std::process::Command;
use std::time::Duration;

use grenade_tests::world::program;

use super::fleet::{Fleet, Ground, ID, LEASE, Said, run};
use super::rotation_monitor::RotationMonitor;

const LATE: &str = "node-3";
const NAME: &str = "pantry-api/node-3";
/// By when the balancer has noticed a death, in milliseconds: fall × check interval is 400, and the monitor looks too.
const NOTICED: i64 = 1_000;
/// Two waves go through while one instance is out for good; each phase of interest waits for a person.
const SPEC: &str = "min_in_service: 1\nmax_unavailable: 2\napprovals: [roll]";
/// A decommission of an instance below the new version without saying how it was stopped.
const BARE: [&str; 5] = ["fleet", "decommission", NAME, "--why", "it is gone"];

/// Up to where the first wave would begin.
async fn before_the_roll(fleet: &Fleet) {
    fleet.upgrade(SPEC).await;
    fleet.waits_for(&["phase roll requires a manual approval"]).await;
}

/// The upgrade waits, names the late one, and has not contracted; only an operator who says how ends the wait.
async fn waits_for_a_person(fleet: &Fleet) {
    fleet.waits_for(&["no report from", LATE, "tidegate fleet decommission"]).await;
    // As long as the lease once more: no time makes it go on.
    tokio::time::sleep(LEASE).await;
    assert_eq!(fleet.contract_began().await, None);
    assert_eq!(fleet.status().await["upgrade"]["phase"], "roll");
    fleet.waits_for(&["no report from", LATE]).await;
    let bare = fleet.ask(&BARE).await;
    assert!(bare.code.is_some_and(|code| code != 0) && bare.err.contains("--stopped-how"), "{bare:#?}");
}

async fn answer_for_it(fleet: &Fleet, how: &str) {
    fleet.must(&[&BARE[..], &["--stopped-how", how]].concat()).await;
}

/// The node comes back as it was, and is refused; it is never seen in rotation, nor an answer of version 1.
async fn returns_and_is_refused(fleet: &Fleet, monitor: &RotationMonitor) {
    let began = fleet.contract_began().await.expect("contract has begun");
    let refused = |said: &Said| said.out.lines().any(|line| line.contains(NAME) && line.contains("refused"));
    let listed = fleet.until("the late node is refused", &["fleet", "list", "--all"], refused).await;
    assert!(listed.out.contains("below the floor 2"), "{listed:#?}");
    assert!(fleet.disable_file(LATE).exists(), "its disable-file stays");
    // Several times what the balancer needs to take one in.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let answers = monitor.answers_after(began);
    assert_eq!(answers.get(&1), None, "version 1 answered after the contract began: {answers:?}");
    assert!(answers.get(&2).is_some_and(|count| *count > 20), "{answers:?}");
    assert!(
        !monitor.was_up_after(LATE, began + NOTICED),
        "the late node was in rotation after the contract began"
    );
    let status = fleet.balancer.show_stat().await.unwrap();
    assert_eq!(status.of(LATE, "status"), Some("DOWN"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_stopped_returns_after_the_contract() {
    let mut fleet = Fleet::on(Ground::SMALL).await;
    let monitor = RotationMonitor::before(&fleet);
    before_the_roll(&fleet).await;
    fleet.agents[2].process.crash().unwrap();
    assert!(fleet.kill_service(LATE));
    fleet.silent(LATE).await;
    answer_for_it(&fleet, "power is off at the rack").await;
    fleet.approve("roll").await;
    fleet.accept_sessions().await;
    fleet.completed().await;
    let certificate = fleet.must(&["upgrade", "certificate", ID]).await;
    assert!(certificate.contains("power is off at the rack"), "the certificate quotes it: {certificate}");

    // What its init system would ask before it starts the service, while no agent runs yet.
    let mut admit = Command::new(program::own("tidegate-agent").unwrap());
    admit.args(["admit", "--service", "pantry-api", "--version", "1", "--config"]);
    admit.arg(&fleet.agents[2].config);
    let said = run(admit).await;
    assert_eq!((said.code, said.err.contains("below the floor 2")), (Some(3), true), "{said:#?}");

    fleet.agents[2].restart(&fleet.rig.world).unwrap();
    returns_and_is_refused(&fleet, &monitor).await;
    assert!(!fleet.kill_service(LATE), "the service was started");
    super::bad_input::certificate(&fleet, &certificate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgres_an_agent_is_dead_and_its_service_lives_on() {
    let mut fleet = Fleet::on(Ground { postgres: true, ..Ground::SMALL }).await;
    super::bad_input::wrong_password(&fleet).await;
    let monitor = RotationMonitor::before(&fleet);
    before_the_roll(&fleet).await;
    fleet.agents[2].process.crash().unwrap();
    fleet.silent(LATE).await;
    fleet.approve("roll").await;
    waits_for_a_person(&fleet).await;
    assert_eq!(monitor.times_out()[LATE], 0, "the service goes on");
    // A person who is wrong: the service still holds its session, and that alone keeps the contract away.
    answer_for_it(&fleet, "unplugged, or so I was told").await;
    fleet.waits_for(&["the certificate cannot be made", "pantry-api/1/node-3"]).await;
    tokio::time::sleep(LEASE).await;
    assert_eq!(fleet.contract_began().await, None);
    assert!(fleet.kill_service(LATE));
    fleet.completed().await;

    fleet.agents[2].restart(&fleet.rig.world).unwrap();
    returns_and_is_refused(&fleet, &monitor).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_cut_off_from_the_store_and_its_service_serves() {
    let fleet = Fleet::on(Ground::SMALL).await;
    let monitor = RotationMonitor::before(&fleet);
    before_the_roll(&fleet).await;
    fleet.line.cut();
    fleet.silent(LATE).await;
    fleet.approve("roll").await;
    waits_for_a_person(&fleet).await;
    assert_eq!(monitor.times_out()[LATE], 0, "the service goes on");
    assert!(fleet.kill_service(LATE));
    answer_for_it(&fleet, "killed by hand on the console").await;
    fleet.accept_sessions().await;
    fleet.completed().await;

    fleet.line.mend();
    returns_and_is_refused(&fleet, &monitor).await;
}
