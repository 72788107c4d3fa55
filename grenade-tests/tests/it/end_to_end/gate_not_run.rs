//! Gate jobs that cannot be run to a verdict: the error names the field of the gate file with its place.

use super::gate_job::{contains, done, gate, place, with_fault};

#[tokio::test]
async fn version_that_is_never_ready_is_no_verdict_and_shows_its_log() {
    let gate = with_fault(2, "stillborn").replace("  ready: /ready", "  ready: /ready\n  start_timeout: 3s");
    let done = done(&gate).await;
    assert_eq!(done.code, Some(4), "{}", done.said);
    let place = place(&gate, "  target:", "command:") + "service.target.command: waited";
    contains(&done.said, &["the target alone", &place, "to be ready", "/ready answers 503"]);
}

#[tokio::test]
async fn version_that_answers_another_number_is_no_verdict() {
    let gate = with_fault(1, "liar");
    let done = done(&gate).await;
    assert_eq!(done.code, Some(4), "{}", done.said);
    let place =
        place(&gate, "  base:", "number:") + "service.base.number: the command of version 1 starts one";
    contains(&done.said, &["the base alone", &place, "that says it is version 2"]);
    let junit = std::fs::read_to_string(done.artifacts.join("junit.xml")).unwrap();
    contains(&junit, &["errors=\"1\"", "<error type=\"not-run\"", "that says it is version 2"]);
}

#[tokio::test]
async fn load_that_fails_against_the_base_alone_is_no_verdict() {
    let done = done(&gate().replace("status: [201]", "status: [202]")).await;
    assert_eq!(done.code, Some(4), "{}", done.said);
    contains(&done.said, &["load.steps[0]: the load fails against the base alone", "create", "status 201"]);
    assert!(!done.artifacts.join("upgrade.yaml").exists(), "something was upgraded");
}

#[tokio::test]
async fn missing_program_is_named_before_anything_is_started() {
    let gate = gate().replace("[python3, ", "[no-such-python, ");
    let done = done(&gate).await;
    assert_eq!(done.code, Some(4), "{}", done.said);
    let missing = "the program `no-such-python` is not installed";
    for (section, line, field) in [
        ("  base:", "command:", "service.base.command"),
        ("  target:", "command:", "service.target.command"),
        ("  init:", "[no-such", "database.init[0]"),
        ("\nsurvival:", "create:", "survival.create"),
    ] {
        contains(&done.said, &[&format!("{}{field}: {missing}", place(&gate, section, line))]);
    }
    assert!(!done.said.contains("each version alone"), "something was started: {}", done.said);
}
