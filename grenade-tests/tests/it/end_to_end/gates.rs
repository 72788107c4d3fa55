//! Gate jobs as a build runs them: a good upgrade passes, each seeded fault of a service or of a procedure fails and is
//! named, and bad input loses nothing. The tool does not know which fault is in.

use std::path::Path;
use std::process::Command;

use grenade_tests::world::program;
use rustix::process::Signal;
use serde_json::json;

use super::gate_job::{Done, Gate, LIMIT, contains, done, gate, with_fault};
use crate::browser::{self, Shown};
use crate::rig::Rig;

#[tokio::test]
async fn service_that_never_heard_of_us_is_upgraded_and_passes() {
    let done = done(&gate()).await;
    assert_eq!(done.code, Some(0), "{}", done.said);
    let report = done.report();
    assert_eq!(report["verdict"], "pass", "{report:#}");
    assert_eq!(report["tags"].as_array().unwrap().len(), 3);
    let survived = report["upgrade"]["survival"].as_array().unwrap();
    let stages: Vec<_> = survived.iter().map(|survived| survived["stage"].as_str().unwrap()).collect();
    let all = ["before the upgrade", "in mid-upgrade", "after the upgrade", "destroyed at the end"];
    assert_eq!(stages, all, "{report:#}");
    contains(&done.said, &["while no instance runs", "after an upgrade with the service down"]);
    // The ledger is counted again, by hand.
    let ledger = std::fs::read_to_string(done.artifacts.join("requests.csv")).unwrap();
    let lines: Vec<&str> = ledger.lines().skip(1).collect();
    assert_eq!(report["upgrade"]["load"]["sent"], lines.len());
    assert!(lines.iter().all(|line| line.split(',').nth(8) == Some("ok")));
    for (version, connection) in [("1", "fresh"), ("2", "kept")] {
        let by = |line: &&&str| line.split(',').nth(10) == Some(version) && line.contains(connection);
        assert!(lines.iter().filter(by).count() > 10, "version {version}, {connection}");
    }
    let junit = std::fs::read_to_string(done.artifacts.with_file_name("junit.xml")).unwrap();
    contains(&junit, &["failures=\"0\" errors=\"0\"", "zero-downtime", "<testcase"]);
    let page = std::fs::read_to_string(done.artifacts.join("report.html")).unwrap();
    contains(&page, &["<svg", "PASS", "node-1", "</html>"]);
    assert!(!page.contains("http://") && !page.contains("https://"), "the page needs a network");
    is_laid_out(&done.artifacts.join("report.html"));
}

/// In a real browser.
fn is_laid_out(page: &Path) {
    browser::is_laid_out(
        page,
        &Shown {
            verdict: "PASS",
            pictures: &["Latency over time", "Latency by percentile", "Version of each node"],
            curves: &["p50", "p99", "since the upgrade began", "before the upgrade"],
            texts: &[
                "items on SQLite",
                "zero-downtime",
                "Requests",
                "Plan",
                "an instance is out of rotation",
            ],
            pages: 8,
        },
    );
}

/// Tidegate's migrations on a real PostgreSQL, behind a real HAProxy.
#[tokio::test]
async fn long_sample_service_passes_on_postgresql_behind_haproxy() {
    let gate = include_str!("../../../gates/pantry-postgres-haproxy.yaml");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample");
    let gate = gate.replace("../sample", &sample.display().to_string());
    let gate = gate.replace("rollback_from: [expand, migrate, roll, remove]", "");
    let done = done(&gate.replace("instances: 3", "instances: 3\nhost: {cpu_pressure: 100, lag: 5s}")).await;
    assert_eq!(done.code, Some(0), "{}", done.said);
    contains(&done.said, &["contract", "zero-downtime"]);
}

#[tokio::test]
async fn upgrade_that_is_rolled_back_loses_nothing() {
    let gate = gate().replace("tags:", "rollback_from: [roll, remove]\ntags:").replace(" rolling,", "");
    let done = done(&gate).await;
    assert_eq!(done.code, Some(0), "{}", done.said);
    let report = done.report();
    for (n, point) in ["roll", "remove"].into_iter().enumerate() {
        let turned = &report["rollbacks"][n];
        assert_eq!((turned[0].as_str(), turned[1]["ended"].as_str()), (Some(point), Some("rolled-back")));
        let back =
            std::fs::read_to_string(done.artifacts.join(format!("back-{point}/requests.csv"))).unwrap();
        assert!(back.lines().any(|line| line.split(',').nth(10) == Some("2")), "nothing was upgraded");
    }
}

#[tokio::test]
async fn one_percent_of_errors_fails_and_is_named() {
    let done = done(&with_fault(2, "errors")).await;
    contains(&done.failed("zero-downtime"), &["status 500: it broke", "at version 2", "node-"]);
}

#[tokio::test]
async fn version_that_cannot_read_old_rows_fails() {
    let done = done(&with_fault(2, "blind")).await;
    contains(&done.failed("rolling"), &["at version 2", "status 404"]);
    contains(&done.failed("supports-upgrade"), &["written by version 1"]);
}

#[tokio::test]
async fn version_whose_rows_the_old_one_cannot_read_fails() {
    let done = done(&with_fault(2, "foreign")).await;
    contains(&done.failed("rolling"), &["at version 1, written by version 2: wrong content", "/name is"]);
}

#[tokio::test]
async fn lost_row_fails() {
    let done = done(&with_fault(2, "forgetful")).await;
    contains(&done.failed("supports-upgrade"), &["there is no item", "the survival check: after"]);
}

#[tokio::test]
async fn contract_that_exits_with_1_fails() {
    let contract = "schema:\n  contract: [[sh, -c, \"echo no such column; exit 1\"]]\n";
    let gate = gate().replace("schema:\n", contract).replace("rolling, ", "");
    let done = done(&gate).await;
    let why = ["it completed, and then its contract failed: `sh -c ", "exit status: 1", "no such column"];
    contains(&done.failed("supports-upgrade"), &why);
    contains(&done.failed("zero-downtime"), &why);
    let report = done.report();
    let mut steps = report["upgrade"]["steps"].as_array().unwrap().iter();
    let failed = steps.any(|step| step["failed"].as_str().is_some_and(|why| why.contains("exit status: 1")));
    assert!(failed, "{report:#}");
}

#[tokio::test]
async fn long_version_that_deletes_nothing_fails() {
    let done = done(&with_fault(2, "hoarder")).await;
    contains(
        &done.failed("supports-upgrade"),
        &["ended through version 2 is still there, read through node-"],
    );
}

#[tokio::test]
async fn version_that_keeps_memory_for_each_request_fails() {
    let done = done(&with_fault(2, "leak")).await;
    contains(&done.failed("rolling"), &["keeps no memory", "at version 2 grew from", "the first: "]);
}

/// In a frozen mix it is this program's child, in the upgrade its agent's.
#[tokio::test]
async fn version_that_exits_has_its_code_and_last_lines_reported() {
    let gate = with_fault(2, "mortal").replace("tags: [supports-upgrade, rolling,", "tags: [rolling,");
    let done = done(&gate.replace(
        "healthy_deadline: 20s, progress_deadline: 1m",
        "healthy_deadline: 12s, progress_deadline: 20s",
    ))
    .await;
    let words = "at version 2 exited with code 3";
    contains(&done.failed("rolling"), &[words, "its last line: out of cheese <&>"]);
    contains(&done.said, &[&format!("mix 2+1       mix_2_1-3 {words}\n              | out of cheese <&>\n")]);
    let report = done.report();
    let deaths = report["deaths"].as_array().unwrap();
    for part in ["mix 2+1", "upgrade"] {
        let death = deaths.iter().find(|death| death["part"] == part).unwrap_or_else(|| panic!("{report:#}"));
        assert_eq!(
            (&death["version"], &death["how"]),
            (&json!(2), &json!("exited with code 3")),
            "{death:#}"
        );
        assert!(death["log"].as_str().unwrap().ends_with("out of cheese <&>"), "{death:#}");
    }
    assert!(deaths.iter().all(|death| death["version"] == 2), "the base was stopped: {report:#}");
    let memory = report["mixes"][0]["memory"].as_array().unwrap();
    assert!(memory.len() == 3 && memory[0]["after"].as_u64() > Some(1_000), "{report:#}");
    let junit = std::fs::read_to_string(done.artifacts.join("junit.xml")).unwrap();
    contains(&junit, &["<system-err>", words, "out of cheese &lt;&amp;&gt;"]);
    let page = std::fs::read_to_string(done.artifacts.join("report.html")).unwrap();
    contains(
        &page,
        &["<th class=\"n\">memory MiB</th>", "version 1: ", words, "<pre>out of cheese &lt;&amp;&gt;</pre>"],
    );
}

/// The same service, upgraded by a shell loop's like; with a pause that is shorter or longer than what is in flight.
fn by_hand(pause: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates/items/by_hand.py");
    let gate = gate();
    let (before, after) = gate.split_once("upgrade:").unwrap();
    let (_, after) = after.split_once("load:").unwrap();
    let procedure = format!("procedure: [python3, {}, \"{{fleet}}\", \"{pause}\"]", script.display());
    // What is tried beside the procedure is the same as without one.
    format!("{before}{procedure}\nload:{after}").replace("supports-upgrade, ", "")
}

#[tokio::test]
async fn long_procedure_by_hand_passes_where_it_waits_long_enough() {
    let done = done(&by_hand("3.5")).await;
    assert_eq!(done.code, Some(0), "{}", done.said);
    assert_eq!(done.report()["upgrade"]["phases"][0][0], "procedure");
}

/// Uploads of six seconds, two begin at each instance in a second: some ten are in flight at each stop, and that none is
/// does not happen.
fn long_uploads(gate: &str) -> String {
    assert!(gate.contains("over: 2s"));
    gate.replace("over: 2s", "over: 6s")
}

#[tokio::test]
async fn procedure_by_hand_fails_where_it_does_not() {
    let done = done(&long_uploads(&by_hand("0.1"))).await;
    contains(&done.failed("zero-downtime"), &["failed; first:"]);
}

#[tokio::test]
async fn target_that_starts_before_the_base_has_ended_fails() {
    let gate =
        by_hand("3.5").replace("\"3.5\"]", "\"3.5\", early]").replace("--version,", "--share, --version,");
    let done = done(&gate).await;
    contains(
        &done.failed("rolling"),
        &["has ended before its target starts", "versions 1 and 2 ran at node-"],
    );
}

#[tokio::test]
async fn drain_that_waits_for_no_request_fails() {
    let careless = "upgrade:\n  drain: {evidence: settle, settle: 500ms, deadline: 1s, on_deadline: proceed}";
    let done = done(&long_uploads(&gate().replace("upgrade:", careless))).await;
    contains(&done.failed("zero-downtime"), &["failed; first: upload"]);
}

/// A base that loses rows at each start: only a rollback shows it.
fn forgetful_base() -> String {
    with_fault(1, "forgetful")
        .replace("tags: [supports-upgrade, rolling, zero-downtime]", "tags: [supports-upgrade]")
}

#[tokio::test]
async fn plan_from_its_file_shows_more_than_the_upgrade_alone() {
    let passes = done(&forgetful_base()).await;
    assert_eq!(passes.code, Some(0), "{}", passes.said);
    let rig = Rig::new();
    let plan = rig.world.path("plan.yaml");
    let steps = "order: 7\nsteps:\n  - {when: {after: 0s}, do: kill-coordinator}\n  - {when: {upgraded: 1}, do: roll-back}\n  \
                 - {when: {upgraded: 1}, do: {kill-agent: 2}}\n  - {when: {upgraded: 1}, do: {pause: 1s}}\n";
    std::fs::write(&plan, steps).unwrap();
    let gate = Gate::verb(rig, "run", &forgetful_base(), &["--plan", &plan.display().to_string()]);
    let done = gate.ends().await;
    contains(&done.failed("supports-upgrade"), &["what was stored is there", "there is no item"]);
    let steps = [
        "the coordinator is killed",
        "the operator rolls back",
        "the agent of node-2 is killed",
        "pauses for 1s",
        "--id gate-7 ",
    ];
    contains(&done.said, &steps);
    assert!(
        !done.said.contains("refused") && done.report()["upgrade"]["ended"] == "completed",
        "{}",
        done.said
    );
}

#[tokio::test]
async fn plans_without_time_are_inconclusive_and_results_are_kept() {
    let gate = Gate::verb(Rig::new(), "explore", &gate(), &["--plans", "2", "--max-time", "1s"]);
    let done = gate.ends().await;
    assert_eq!(done.code, Some(2), "{}", done.said);
    contains(&done.said, &["--max-time is over", "INCONCLUSIVE", "0 of 2 plans"]);
    let kept = std::fs::read_to_string(done.artifacts.join("explored.json")).unwrap();
    contains(&kept, &["\"asked\": 2", "\"plans\": []"]);
}

#[tokio::test]
async fn long_plan_that_fails_shrinks_to_the_rollback_that_is_enough() {
    let gate = forgetful_base().replace("instances: 2", "instances: 3");
    let explore = Gate::verb(Rig::new(), "explore", &gate, &["--plans", "1", "--seed", "1"]);
    let done = explore.ends_within(5 * LIMIT).await;
    assert_eq!(done.code, Some(1), "{}", done.said);
    let smallest = std::fs::read_to_string(done.artifacts.join("plan-smallest.yaml")).unwrap();
    assert!(smallest.contains("roll-back") && smallest.matches("do:").count() == 1, "{smallest}");
}

/// Two pools of the Python service, which works for five milliseconds on each request.
fn pools(fault: &str) -> String {
    let tags = "impact: {rate: 60}\ntags: [zero-impact]";
    let gate = gate().replace("tags: [supports-upgrade, rolling, zero-downtime]", tags);
    let gate = gate.replace("--version, \"1\"", "--version, \"1\", --work, \"5\"");
    gate.replace("--version, \"2\"", &format!("--version, \"2\", --work, \"5\"{fault}"))
}

/// On a busy machine the judge cannot decide: then nothing may be asserted, and the report must say so.
async fn long_pools(fault: &str) -> Done {
    let done = Gate::verb(Rig::new(), "run", &pools(fault), &[]).ends_within(5 * LIMIT).await;
    let report = done.report();
    assert_eq!(report["tags"][0]["tag"], "zero-impact");
    if done.code == Some(2) {
        contains(&done.said, &["the judge cannot decide on this machine", "nothing was upgraded"]);
    } else {
        assert!(report["impact"]["upgraded"]["drains_ms"].as_array().unwrap().len() >= 20, "{report:#}");
    }
    done
}

#[tokio::test]
async fn long_upgrade_without_impact_is_not_failed() {
    let done = long_pools("").await;
    assert_ne!(done.code, Some(1), "{}", done.said);
}

#[tokio::test]
async fn long_version_that_is_slower_is_not_passed_and_is_named() {
    let done = long_pools(", --fault, slow").await;
    assert_ne!(done.code, Some(0), "{}", done.said);
    if done.code == Some(1) {
        contains(&done.failed("zero-impact"), &["p50 beside the twin", "answers of version 2"]);
    }
}

#[tokio::test]
async fn unknown_field_is_named_with_its_place() {
    let done = done(&gate().replace("  rate: 60", "  rat: 60")).await;
    assert_eq!(done.code, Some(3), "{}", done.said);
    contains(&done.said, &["gate.yaml:", "rat", "rate"]);
    assert!(!done.artifacts.exists(), "a bad gate file made a directory");
}

#[test]
fn unwritable_report_is_named_before_anything_starts() {
    let rig = Rig::new();
    let file = rig.world.path("gate.yaml");
    std::fs::write(&file, gate()).unwrap();
    let grenade = |more: [&str; 2]| {
        let mut command = Command::new(program::own("grenade").unwrap());
        command.arg("run").arg(&file).args(more).current_dir(rig.world.dir()).output().unwrap()
    };
    let foreign = rig.world.dir().display().to_string();
    for (more, said) in [
        (["--junit", "nowhere/junit.xml"], "could not write nowhere/junit.xml"),
        (["--artifacts", &foreign], "no earlier run made it"),
        (["--max-time", "0s"], "--max-time"),
    ] {
        let done = grenade(more);
        assert_eq!(done.status.code(), Some(3), "{done:?}");
        contains(&String::from_utf8_lossy(&done.stderr), &[said]);
    }
}

/// Its default is to end a program at once, which would leave every process running.
#[tokio::test]
async fn unexpected_signal_ends_everything() {
    for (signal, name) in [(Signal::USR1, "SIGUSR1"), (Signal::ALARM, "SIGALRM"), (Signal::XFSZ, "SIGXFSZ")] {
        let gate = Gate::start(&gate());
        let log = gate.process.log().to_owned();
        grenade_tests::world::wait::wait_for("a version to run", LIMIT, || async {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            if said.contains("a frozen mix") { Ok(()) } else { Err(said) }
        })
        .await
        .unwrap();
        gate.process.signal(signal).unwrap();
        let done = gate.ends().await;
        assert_eq!(done.code, Some(130), "{}", done.said);
        contains(&done.said, &[&format!("interrupted by {name}")]);
    }
}

#[tokio::test]
async fn interrupt_ends_everything() {
    let gate = Gate::start(&gate());
    let log = gate.process.log().to_owned();
    grenade_tests::world::wait::wait_for("the upgrade to begin", LIMIT, || async {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        if said.contains("roll") { Ok(()) } else { Err(said) }
    })
    .await
    .unwrap();
    gate.process.signal(Signal::INT).unwrap();
    let done = gate.ends().await;
    assert_eq!(done.code, Some(130), "{}", done.said);
    contains(&done.said, &["interrupted by SIGINT"]);
}
