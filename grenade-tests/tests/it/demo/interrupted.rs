//! Ctrl-C, SIGTERM and a crash at every stage: nothing that the demo started is left.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::running::Running;

/// Long enough to get to any stage on a busy machine.
const REACHED: Duration = Duration::from_secs(150);
/// Ending everything is a matter of seconds.
const ENDED: Duration = Duration::from_secs(25);
/// Small, so that each stage is soon reached; what happens is the same.
const SMALL: [&str; 3] = ["--instances=2", "--rows=2000", "--rate=50"];

async fn interrupt(stage: &str, signal: Signal) {
    interrupt_with(&SMALL, stage, signal).await;
}

async fn interrupt_with(arguments: &[&str], stage: &str, signal: Signal) {
    let mut demo = Running::start(arguments);
    demo.says(stage, REACHED).await;
    demo.signal(signal);
    let code = demo.ends(ENDED).await;
    let said = demo.said();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("interrupted by SIG"), "{said}");
    assert!(!demo.dir().join("report.json").exists(), "a run that was interrupted has no verdict");
}

macro_rules! at_each_stage {
    ($($name:ident: $stage:literal, $signal:ident;)*) => {
        $(#[tokio::test]
        async fn $name() {
            interrupt($stage, Signal::$signal).await;
        })*
    };
}

at_each_stage! {
    while_it_seeds: "a database of its own", INT;
    while_it_measures: "measuring alone", TERM;
    while_agents_start: "instances start at version 1", INT;
    before_the_upgrade: "before anything is upgraded", TERM;
    in_stage: "left        preflight", INT;
    in_the_first_wave: "waiting on  draining", INT;
    in_mid_replacement: "replacing", TERM;
    in_the_second_wave: "wave        2 of 2", INT;
    before_contract: "waiting on  phase contract requires", TERM;
    in_contract: "phase       contract", INT;
    after_the_upgrade: "the upgrade is over", TERM;
    while_the_last_answers_come: "waiting for the last answers", INT;
}

#[tokio::test]
async fn in_mid_fill() {
    let large = ["--instances=2", "--rows=100000", "--rate=50"];
    interrupt_with(&large, "phase       migrate", Signal::INT).await;
}

#[tokio::test]
async fn during_the_rollback() {
    let broken = ["--instances=2", "--rows=2000", "--rate=50", "--break-at=2"];
    interrupt_with(&broken, "phase       rolling-back", Signal::TERM).await;
}

#[tokio::test]
async fn a_hang_up_is_an_end_too() {
    interrupt("phase       roll", Signal::HUP).await;
}

#[tokio::test]
async fn a_coordinator_that_crashes_is_an_error_that_leaves_nothing() {
    let mut demo = Running::start(&SMALL);
    demo.says("waiting on  draining", REACHED).await;
    assert!(demo.count() >= 6, "a coordinator, two agents, two instances, a balancer: {}", demo.count());
    let coordinator = demo.pid_of("tidegate coordinator");
    let pid = Pid::from_raw(i32::try_from(coordinator).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let code = demo.ends(Duration::from_secs(60)).await;
    let said = demo.said();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("coordinator ended with"), "{said}");
    assert_eq!(demo.report()["outcome"], "failed", "{said}");
}
