//! Configurations of agents that are wrong, and an agent that is one too many.

use std::process::Command;

use grenade_tests::world::program;

use super::super::fleet::{Fleet, run};
use super::{Wrong, revision};

/// What is replaced in a good configuration, by verb, with the exit code and the words.
const REPLACED: [(&str, &str, &str, i32, &[&str]); 6] = [
    ("run", "lease_ttl = \"3s\"", "lease_tll = \"3s\"", 2, &["lease_tll"]),
    ("run", "lease_ttl = \"3s\"", "lease_ttl = \"-3s\"", 2, &["-3s"]),
    ("run", "lease_ttl = \"3s\"", "lease_ttl = \"1s\"", 2, &["lease_ttl is 1s", "at least 2s"]),
    ("run", "fall = 2", "fall = \"two\"", 2, &["fall"]),
    (
        "check",
        "/nodes/node-1/pantry-api.disable",
        "/nodes/nowhere/pantry-api.disable",
        2,
        &["disable_file", "nowhere"],
    ),
    ("run", "version = 2", "version = 0", 2, &["2147483647"]),
];

/// Hooks without a stop.
const HOOKS: &str = "[service.pantry-api.driver.command]\nstart = [\"/bin/true\"]\n";

pub(super) async fn refused(fleet: &Fleet, wrong: &mut Wrong) {
    let good = std::fs::read_to_string(&fleet.agents[0].config).unwrap();
    let before = revision(fleet).await;
    for (verb, from, to, code, words) in REPLACED {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{from} is not in {good}");
        tried(fleet, wrong, verb, &text, code, words).await;
    }
    let (head, driver) = good.split_once("[service.pantry-api.driver.process]").unwrap();
    let rest = &driver[driver.find("[service.").unwrap()..];
    tried(
        fleet,
        wrong,
        "run",
        &format!("{head}{HOOKS}{rest}"),
        2,
        &["driver.command has no stop hook", "name a program"],
    )
    .await;
    // The same node from another directory: the store knows who has the name.
    let state = fleet.home("node-1").join("state");
    let second = good.replace(state.to_str().unwrap(), fleet.rig.world.path("second").to_str().unwrap());
    tried(fleet, wrong, "run", &second, 4, &["node-1", "two agents", "give one another name"]).await;
    // And from the same one: its lock does.
    tried(fleet, wrong, "run", &good, 4, &[state.to_str().unwrap()]).await;
    assert_eq!(revision(fleet).await, before, "something was written");
    let up = fleet.balancer.show_stat().await.unwrap();
    assert_eq!(up.of("node-1", "status"), Some("UP"));
}

async fn tried(fleet: &Fleet, wrong: &mut Wrong, verb: &str, text: &str, code: i32, words: &[&str]) {
    let path = fleet.rig.world.path("wrong.toml");
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(program::own("tidegate-agent").unwrap());
    command.arg(verb).arg("--config").arg(&path);
    let mut said = run(command).await;
    // `check` lists its findings as its output.
    said.err.push_str(&said.out);
    wrong.answered(text, &said, code, words);
}
