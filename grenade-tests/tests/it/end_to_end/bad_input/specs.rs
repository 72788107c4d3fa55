//! Specs that are wrong.

use super::super::fleet::{Fleet, NOWHERE, STRANGER, Said};
use super::{Wrong, revision, rolled_back};

/// What is added to a good spec, the exit code, and what the message says.
const ADDED: [(&str, i32, &[&str]); 10] = [
    ("relase: {}", 2, &["unknown field", "relase", ":9:"]),
    ("min_in_service: many", 2, &["min_in_service", "percentage", ":9:"]),
    ("min_in_service: \"0%\"", 2, &["\"1%\" to \"100%\"", ":9:"]),
    ("max_unavailable: \"101%\"", 2, &["\"1%\" to \"100%\"", ":9:"]),
    ("max_unavailable: -1", 2, &["-1", "whole number", ":9:"]),
    ("max_unavailable: 0", 2, &["max_unavailable", "1 or more"]),
    ("strategy: {rolling: {batch: \"-1%\"}}", 2, &[":9:"]),
    ("approvals: [lunch]", 2, &["lunch", ":9:"]),
    ("min_in_service: 3\nmax_unavailable: 1", 3, &["min_in_service 3 of 3", "lower it"]),
    ("min_in_service: 4", 3, &["min_in_service 4 of 3", "lower it"]),
];

/// What is replaced in a good spec.
const REPLACED: [(&str, &str, i32, &[&str]); 9] = [
    ("to: 2", "to: 1", 2, &["to: 1 is not above `from` (1)"]),
    ("to: 2", "to: 3", 2, &["more than one hop", "upgrade to 2 first"]),
    ("from: 1", "from: 0", 2, &[":2:", "2147483647"]),
    ("from: 1", "from: \"1\"", 2, &[":2:"]),
    ("min_healthy_time: 300ms", "min_healthy_time: -1s", 2, &["-1s", "duration", ":5:"]),
    ("healthy_deadline: 30s", "healthy_deadline: -30s", 2, &["-30s", "duration", ":5:"]),
    ("service: pantry-api", "service: pantry-nowhere", 3, &["pantry-nowhere has no instance"]),
    ("PANTRY_DATABASE_URL", "NO_SUCH_VARIABLE", 3, &["NO_SUCH_VARIABLE", "not set"]),
    ("migrations: pantry", "migrations: ../etc", 3, &["../etc", "without .."]),
];

pub(super) async fn refused(fleet: &Fleet, wrong: &mut Wrong) {
    let good = fleet.spec("");
    let added = ADDED.iter().map(|(more, code, words)| (fleet.spec(more), *code, *words));
    let replaced = REPLACED.iter().map(|(from, to, code, words)| (good.replace(from, to), *code, *words));
    let before = revision(fleet).await;
    for (text, code, words) in added.chain(replaced) {
        not_started(fleet, wrong, &text, code, words).await;
        wrong.same(&format!("the revision after {text}"), revision(fleet).await, before);
    }
}

async fn not_started(fleet: &Fleet, wrong: &mut Wrong, text: &str, code: i32, words: &[&str]) {
    let path = fleet.rig.world.path("wrong.yaml");
    std::fs::write(&path, text).unwrap();
    let said = fleet.ask(&["upgrade", "start", path.to_str().unwrap()]).await;
    wrong.answered(text, &said, code, words);
}

/// The database has no server.
pub(super) async fn no_database(fleet: &Fleet) {
    waits_for_its_database(fleet, NOWHERE, "nowhere", "could not reach the database").await;
}

/// The catalogue's server is there, and does not take the password.
pub(crate) async fn wrong_password(fleet: &Fleet) {
    waits_for_its_database(fleet, STRANGER, "stranger", "password authentication failed").await;
}

/// The upgrade is started and waits with the reason before anything is touched; a person may end it.
async fn waits_for_its_database(fleet: &Fleet, variable: &str, id: &str, reason: &str) {
    let path = fleet.rig.world.path("wrong.yaml");
    std::fs::write(&path, fleet.spec("").replace("PANTRY_DATABASE_URL", variable)).unwrap();
    let said = fleet.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", id]).await;
    let mut wrong = Wrong::default();
    wrong.answered("a database that does not answer", &said, 0, &["waits in preflight", variable, reason]);
    wrong.nothing();
    fleet.explains(id, &[": phase preflight", variable, reason]).await;
    fleet.must(&["upgrade", "rollback", id, "--why", "the URL is wrong"]).await;
    let over = |said: &Said| said.out.contains("\"phase\":\"failed\"");
    fleet.until("it has ended", &["--json", "upgrade", "status", id], over).await;
    fleet.all_serve(1).await;
}

/// The artifact is not what the spec says: it waits before anything is touched, and may be rolled back.
pub(super) async fn wrong_digest(fleet: &Fleet) {
    let path = fleet.rig.world.path("wrong.yaml");
    std::fs::write(&path, fleet.spec("").replace(&fleet.sha256, &"0".repeat(64))).unwrap();
    fleet.must(&["upgrade", "start", path.to_str().unwrap(), "--id", "u0"]).await;
    fleet
        .explains("u0", &["node-1 could not stage or remove pantry-2.0.0", &fleet.sha256, &"0".repeat(64)])
        .await;
    fleet.must(&["upgrade", "rollback", "u0", "--why", "the digest is wrong"]).await;
    rolled_back(fleet, "u0").await;
    fleet.all_serve(1).await;
}
