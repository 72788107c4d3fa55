//! What the commands say, and how they exit.

use crate::process::{Daemon, run, tidegate};
use crate::world::spec;
use tidegate_proto::wire::v1::UpgradeStatusReply;
use tokio_util::sync::CancellationToken;

#[test]
fn the_example_is_a_spec_that_can_be_started_from() {
    let example = run(tidegate().args(["spec", "new"]));
    assert_eq!(example.code, 0);
    let daemon = Daemon::embedded(|_, _| {});
    let path = daemon.file("spec.yaml", &example.out);
    let said = daemon.ask(&["upgrade", "start", path.to_str().unwrap()]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("pantry-api has no instance"), "{said:?}");
    let dry = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--dry-run"]);
    assert_eq!(dry.code, 3, "{dry:?}");
    assert!(dry.out.starts_with("blocks   pantry-api has no instance"), "{dry:?}");
    assert_eq!(daemon.ask(&["--json", "upgrade", "list"]).out, "", "nothing was changed");
}

#[test]
fn with_json_an_error_is_one_line_of_json_on_stderr() {
    let daemon = Daemon::embedded(|_, _| {});
    let unknown = daemon.ask(&["--json", "upgrade", "status", "u1"]);
    let mistyped = run(tidegate().args(["upgrade", "staus", "u1", "--json"]));
    let away = run(tidegate().args(["--json", "--coordinator", "http://127.0.0.1:1", "upgrade", "list"]));
    for (said, code, kind, words) in [
        (unknown, 2, "invalid", "there is no upgrade u1"),
        (mistyped, 2, "invalid", "unrecognized subcommand 'staus'"),
        (away, 4, "unavailable", "no coordinator answers"),
    ] {
        assert_eq!((said.code, said.out.as_str()), (code, ""), "{said:?}");
        let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
        assert_eq!((&error["error"]["exit_code"], &error["error"]["kind"]), (&code.into(), &kind.into()));
        assert!(error["error"]["message"].as_str().unwrap().contains(words), "{said:?}");
    }
}

#[test]
fn invalid_spec_is_refused_with_place_and_allowed_values() {
    let daemon = Daemon::embedded(|_, _| {});
    let cases = [
        ("relase: {}", &["unknown field", "relase", ":5:"][..]),
        ("min_in_service: many", &["min_in_service", "percentage", ":5:"]),
        ("min_in_service: \"0%\"", &["\"1%\" to \"100%\"", ":5:"]),
        ("max_unavailable: \"101%\"", &["\"1%\" to \"100%\""]),
        ("max_unavailable: -1", &["-1", "whole number"]),
        ("max_unavailable: 0", &["max_unavailable: is 0", "1 or more"]),
        ("health: {healthy_deadline: -5s}", &["-5s", "duration"]),
        ("health: {min_healthy_time: 10m, healthy_deadline: 5m}", &["health.healthy_deadline"]),
        ("approvals: [lunch]", &["lunch"]),
        ("strategy: {canary: {steps: [rest, 1]}}", &["rest takes all that remain"]),
    ];
    for (wrong, words) in cases {
        refused(&daemon, &spec(wrong), words);
    }
    refused(&daemon, &spec("").replace("to: 2", "to: 1"), &["to: 1 is not above `from` (1)"]);
    refused(&daemon, &spec("").replace("to: 2", "to: 3"), &["more than one hop", "upgrade to 2 first"]);
    refused(&daemon, &spec("").replace("from: 1", "from: 0"), &["service version", ":2:"]);
    refused(&daemon, &spec("").replace("from: 1", "from: \"1\""), &[":2:"]);
    refused(&daemon, "service: [", &["wrong.yaml:"]);
    let all = spec("max_unavailable: 0\nfailure_domain: \"\"").replace("to: 2", "to: 1");
    refused(&daemon, &all, &["max_unavailable", "failure_domain", "not above"]);
}

fn refused(daemon: &Daemon, spec: &str, words: &[&str]) {
    let path = daemon.file("wrong.yaml", spec);
    let said = daemon.ask(&["upgrade", "start", path.to_str().unwrap()]);
    assert_eq!(said.code, 2, "{spec}\n{said:?}");
    assert!(said.err.contains("wrong.yaml"), "the file is named: {said:?}");
    for word in words {
        assert!(said.err.contains(word), "{word:?} is not in: {}", said.err);
    }
}

#[test]
fn not_found_and_unreachable_have_own_exit_codes() {
    let daemon = Daemon::embedded(|_, _| {});
    for verb in ["status", "watch", "explain", "history", "certificate"] {
        let said = daemon.ask(&["upgrade", verb, "nope"]);
        assert_eq!(said.code, 2, "{verb}: {said:?}");
        assert!(said.err.contains("there is no upgrade nope"), "{verb}: {said:?}");
    }
    let said = daemon.ask(&["upgrade", "pause", "nope", "--why", "x"]);
    assert_eq!((said.code, said.err.contains("there is no upgrade nope")), (2, true), "{said:?}");
    let said = daemon.ask(&["upgrade", "pause", "no/pe", "--why", "x"]);
    assert_eq!((said.code, said.err.contains("is not a name")), (2, true), "{said:?}");
    let said = daemon.ask(&["fleet", "versions", "nobody"]);
    assert_eq!((said.code, said.err.contains("no agent has ever reported")), (2, true), "{said:?}");
    let said = daemon.ask(&["fleet", "spread", "nobody"]);
    assert_eq!((said.code, said.err.contains("no agent has ever reported")), (2, true), "{said:?}");
    let said = daemon.ask(&["upgrade", "pause", "nope"]);
    assert_eq!((said.code, said.err.contains("--why")), (2, true), "clap says what is missing: {said:?}");
    let said = run(tidegate().args(["--coordinator", "http://127.0.0.1:1", "upgrade", "list"]));
    assert_eq!((said.code, said.err.contains("no coordinator answers at")), (4, true), "{said:?}");
    let said = run(tidegate().args(["--coordinator", "ftp://x", "upgrade", "list"]));
    assert_eq!((said.code, said.err.contains("no URL of a coordinator")), (2, true), "{said:?}");
}

#[test]
fn history_of_a_stream_or_group_that_is_not_there_is_an_error() {
    let daemon = Daemon::embedded(|_, _| {});
    for (asked, missing) in [
        (&["release", "--stream", "nope", "history"][..], "there is no release stream nope"),
        (&["metadata", "history", "nope"], "there is no metadata group nope"),
    ] {
        let said = daemon.ask(asked);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
        assert!(said.err.contains(missing), "{said:?}");
    }
}

#[test]
fn usage_of_an_error_leaves_out_what_the_environment_sets() {
    let mut command = tidegate();
    let said = run(command.env("TIDEGATE_TOKEN_FILE", "/token").args(["upgrade", "pause", "u1"]));
    assert_eq!((said.code, said.err.contains("Usage: tidegate upgrade pause")), (2, true), "{said:?}");
    assert!(said.err.contains("--why <WHY>") && !said.err.contains("--token-file"), "{said:?}");
}

#[test]
fn output_is_coloured_only_where_it_is_asked_for() {
    let away = ["--coordinator", "http://127.0.0.1:1", "upgrade", "list"];
    let coloured = |command: &mut std::process::Command| {
        let said = run(command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE"));
        (said.out + &said.err).contains('\u{1b}')
    };
    assert!(!coloured(tidegate().args(away)), "a pipe");
    assert!(coloured(tidegate().args(away).args(["--color", "always"])));
    assert!(!coloured(tidegate().args(away).args(["--color", "always", "--json"])));
    assert!(!coloured(tidegate().args(["upgrade", "staus"])), "a pipe");
    assert!(coloured(tidegate().args(["--color=always", "upgrade", "staus"])));
    assert!(!coloured(tidegate().args(["--color=always", "--json", "upgrade", "staus"])));
    assert!(coloured(tidegate().args(["--color", "always", "upgrade", "--help"])));
    let forced = |option: &str| {
        let mut command = tidegate();
        let said = run(command
            .env_remove("NO_COLOR")
            .env("CLICOLOR_FORCE", "1")
            .args(away)
            .args(["--color", option]));
        said.err.contains('\u{1b}')
    };
    assert_eq!(["auto", "never"].map(forced), [true, false]);
}

#[test]
fn token_file_may_name_the_token_that_a_new_store_makes() {
    for (store, token) in [("store", "absolute"), ("./store/", "absolute"), ("absolute", "store/../store")] {
        let daemon = Daemon::bare(|command, dir| {
            let path = |text: &str| match text {
                "absolute" => dir.join("store").display().to_string(),
                relative => relative.to_owned(),
            };
            command.current_dir(dir).args(["--store", &format!("embedded:{}", path(store))]);
            command.env("TIDEGATE_TOKEN_FILE", format!("{}/operator.token", path(token)));
        });
        assert_eq!(daemon.ask(&["upgrade", "list"]).code, 0, "{store} {token}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn error_about_a_missing_name_names_the_nearest_one() {
    let daemon = Daemon::embedded(|_, _| {});
    let herd = daemon.herd(2).await;
    tokio::spawn(herd.run(CancellationToken::new()));
    let path = daemon.file("spec.yaml", &spec("approvals: [roll]\nmin_in_service: 1"));
    let started = daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "spring-2"]);
    assert_eq!(started.code, 0, "{started:?}");
    let made = daemon.ask(&["--json", "token", "create", "--name", "ci", "--role", "read"]);
    let made: serde_json::Value = serde_json::from_str(&made.out).unwrap();
    let token = made["id"].as_str().unwrap();
    for (verb, near) in [
        (&["upgrade", "status", "spring2"][..], "spring-2"),
        (&["upgrade", "watch", "sprang-2"], "spring-2"),
        (&["upgrade", "pause", "spring-22", "--why", "x"], "spring-2"),
        (&["upgrade", "skip", "spring-2", "n0001", "--why", "x"], "n00001"),
        (&["fleet", "spread", "pantry-apo"], "pantry-api"),
        (&["fleet", "list", "pantri-api"], "pantry-api"),
        (&["fleet", "cordon", "n0001", "--why", "x"], "n00001"),
        (&["fleet", "decommission", "pantryapi/n0001", "--why", "x"], "pantry-api/n00001"),
        (&["token", "revoke", &format!("{token}0"), "--why", "x"], token),
    ] {
        let said = daemon.ask(verb);
        let hint = format!("; did you mean {near}?");
        assert_eq!((said.code, said.err.trim_end().ends_with(&hint)), (2, true), "{verb:?}: {said:?}");
    }
    let far = daemon.ask(&["upgrade", "status", "winter"]);
    assert!(!far.err.contains("did you mean"), "{far:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn control_characters_of_a_node_reach_no_output_and_no_log() {
    let daemon = Daemon::embedded(|_, _| {});
    let reason = "no library\u{1b}[2J\u{1b}]0;owned\u{7}\r\nFORGED/n9  2  in  healthy";
    let herd = daemon.herd(3).await.break_at_2(0).fails_with(reason);
    tokio::spawn(herd.run(CancellationToken::new()));
    let path = daemon.file("spec.yaml", &spec("strategy: immediate\nmin_in_service: 0"));
    assert_eq!(daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]).code, 0);
    daemon.until("it failed", &["upgrade", "status", "u1"], |said| said.out.contains("no library"));
    let mut quoted = 0;
    for verb in [
        &["fleet", "list"][..],
        &["upgrade", "status", "u1"],
        &["upgrade", "explain", "u1"],
        &["upgrade", "history", "u1"],
        &["upgrade", "list"],
        &["fleet", "spread"],
        &["--json", "fleet", "list"],
        &["upgrade", "wait", "u1", "--for", "approval", "--timeout", "100ms"],
    ] {
        let said = daemon.ask(verb);
        quoted += said.out.matches("no library").count();
        harmless(&format!("{verb:?}"), &(said.out + &said.err));
    }
    assert!(quoted > 3, "the reason is given: {quoted}");
    harmless("log", &daemon.log());
}

fn harmless(of: &str, text: &str) {
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(control), "{of}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("FORGED")), "{of}: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_driven_from_the_command_line() {
    let daemon = Daemon::embedded(|_, _| {});
    let herd = daemon.herd(4).await;
    let end = CancellationToken::new();
    tokio::spawn(herd.run(end.clone()));
    let path = daemon.file("spec.yaml", &spec("approvals: [roll]\nmin_in_service: 2"));
    let path = path.to_str().unwrap();

    let dry = daemon.ask(&["upgrade", "start", path, "--dry-run"]);
    assert_eq!((dry.code, dry.out.lines().count()), (0, 5), "a line and four waves: {dry:?}");
    let started = daemon.ask(&["upgrade", "start", path, "--id", "u1"]);
    assert_eq!((started.code, started.out.trim()), (0, "u1"), "{started:?}");
    let second = daemon.ask(&["upgrade", "start", path]);
    assert_eq!(
        (second.code, second.err.contains("upgrade u1 of pantry-api is active")),
        (3, true),
        "{second:?}"
    );

    daemon.until("it waits for approval", &["upgrade", "explain", "u1"], |said| {
        said.out.contains("requires a manual approval")
            && said.out.contains("tidegate upgrade approve u1 roll")
    });
    let needs = daemon.ask(&["upgrade", "wait", "u1", "--for", "approval", "--timeout", "60s"]);
    assert_eq!((needs.code, needs.out.contains("tidegate upgrade approve u1 roll")), (0, true), "{needs:?}");
    let late = daemon.ask(&["upgrade", "wait", "u1", "--timeout", "300ms"]);
    assert_eq!(
        (late.code, late.err.contains("gave up after 300ms of waiting until it is over")),
        (1, true),
        "{late:?}"
    );
    let wrong = daemon.ask(&["upgrade", "approve", "u1", "remove"]);
    assert_eq!((wrong.code, wrong.err.contains("approval of roll")), (3, true), "{wrong:?}");
    let wrong = daemon.ask(&["upgrade", "approve", "u1", "lunch"]);
    assert_eq!((wrong.code, wrong.err.contains("stage, expand, migrate, roll")), (2, true), "{wrong:?}");
    let gone = daemon.ask(&["fleet", "decommission", "pantry-api/n00001", "--why", "x"]);
    assert_eq!((gone.code, gone.err.contains("reports: it is not gone")), (3, true), "{gone:?}");

    let watch =
        daemon.command(&["upgrade", "watch", "u1"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let approved = daemon.ask(&["--as", "ann", "upgrade", "approve", "u1", "roll", "--note", "go"]);
    assert_eq!(approved.code, 0, "{approved:?}");
    let done = daemon.ask(&["upgrade", "wait", "u1", "--timeout", "60s"]);
    assert_eq!((done.code, done.out.as_str()), (0, "u1 is over: completed\n"), "{done:?}");
    let over = daemon.ask(&["upgrade", "wait", "u1", "--for", "paused"]);
    assert_eq!(
        (over.code, over.err.contains("is over (completed), not: it is paused")),
        (1, true),
        "{over:?}"
    );
    let watched = watch.wait_with_output().unwrap();
    let text = String::from_utf8(watched.stdout).unwrap();
    assert!(watched.status.success(), "{text}");
    assert!(text.ends_with("over: completed\n"), "{text}");
    assert!(text.contains("(operator for ann)"), "{text}");

    let again = daemon.ask(&["--json", "upgrade", "watch", "u1"]);
    let lines: Vec<serde_json::Value> =
        again.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["event"]["to"], "preflight", "{again:?}");
    assert_eq!(lines.last().unwrap()["over"]["phase"], "completed", "{again:?}");
    let status = daemon.ask(&["--json", "upgrade", "status", "u1"]);
    let status: UpgradeStatusReply = serde_json::from_str(&status.out).unwrap();
    assert_eq!(status.spread.unwrap().by_version, [(2, 4)].into());
    assert!(
        status.instances.iter().all(|i| i.rotation == "in" && i.health == "healthy" && i.step == "serving")
    );
    let none = daemon.ask(&["upgrade", "certificate", "u1"]);
    assert_eq!((none.code, none.err.contains("changes no schema")), (2, true), "{none:?}");
    let list = daemon.ask(&["fleet", "list"]);
    assert_eq!(list.out.lines().count(), 5, "{list:?}");
    assert!(daemon.http("/metrics").contains("tidegate_instances{service=\"pantry-api\",version=\"2\"} 4"));
    end.cancel();
    assert_eq!(daemon.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_whose_reader_has_gone_does_not_exit_with_0() {
    let daemon = Daemon::embedded(|_, _| {});
    let herd = daemon.herd(2).await;
    tokio::spawn(herd.run(CancellationToken::new()));
    let path = daemon.file("spec.yaml", &spec("approvals: [roll]\nmin_in_service: 1"));
    assert_eq!(daemon.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]).code, 0);
    let mut watch = daemon.command(&["upgrade", "watch", "u1"]);
    let pipe = std::process::Stdio::piped;
    let mut watch = watch.stdout(pipe()).stderr(pipe()).spawn().unwrap();
    drop(watch.stdout.take());
    let ended = watch.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let named = said.contains("could not write the output");
    assert_eq!((ended.status.code(), named), (Some(1), true), "{said}");
}

#[test]
fn wait_asks_again_before_its_first_answer() {
    let away = ["--coordinator", "http://127.0.0.1:1", "upgrade", "wait", "u1", "--timeout", "2s"];
    let late = run(tidegate().args(away));
    let says = |text: &str| late.err.matches(text).count();
    assert_eq!((late.code, says("no coordinator answers at http://127.0.0.1:1")), (1, 1), "{late:?}");
    assert_eq!((says("asking again for up to 60 s"), says("gave up after 2s")), (1, 1), "{late:?}");
}

#[test]
fn stderr_that_is_full_changes_no_answer_and_hides_no_token() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let away = ["--coordinator", "http://127.0.0.1:1", "upgrade", "list"];
    assert_eq!(run(tidegate().args(away).stderr(full())).code, 4);
    assert_eq!(run(tidegate().args(["--json", "upgrade", "staus"]).stderr(full())).code, 2);
    let daemon = Daemon::embedded(|_, _| {});
    let create = ["token", "create", "--name", "ci", "--role", "read"];
    let created = run(daemon.command(&create).stderr(full()));
    assert_eq!((created.code, created.out.starts_with("tgt_")), (0, true), "{created:?}");
    // A token that was made and is not shown is named, for `token revoke`.
    let unshown = run(daemon.command(&create).stdout(full()));
    let named = unshown.err.contains("(token ") && unshown.err.contains("could not write the output");
    assert_eq!((unshown.code, named), (1, true), "{unshown:?}");
    for version in ["1", "2"] {
        let tag = format!("release-{version}");
        assert_eq!(daemon.ask(&["release", "create", "--version", version, "--tag", &tag]).code, 0);
    }
    let page = run(daemon.command(&["release", "list", "--limit", "1"]).stderr(full()));
    assert_eq!((page.code, page.out.lines().count()), (0, 2), "{page:?}");
}
