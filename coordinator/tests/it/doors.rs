//! Who may come in, who leads, and what is refused at the start.

use crate::process::{Daemon, run, tidegate};

#[test]
fn address_that_is_not_loopback_needs_tls() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", dir.path().display());
    let start = |more: &[&str]| run(tidegate().args(["coordinator", "--store", &store]).args(more));
    let open = start(&["--grpc", "0.0.0.0:0", "--http", "127.0.0.1:0"]);
    assert_eq!(open.code, 2, "{open:?}");
    assert!(open.err.contains("--grpc 0.0.0.0:0") && open.err.contains("--tls-cert"), "{open:?}");
    let open = start(&["--http", "0.0.0.0:0"]);
    assert_eq!((open.code, open.err.contains("--http 0.0.0.0:0")), (2, true), "{open:?}");
    let open = start(&["--store-listen", "0.0.0.0:0"]);
    assert_eq!((open.code, open.err.contains("--store-listen")), (2, true), "{open:?}");
    let wrong = run(tidegate().args(["coordinator", "--store", "redis:x"]));
    assert_eq!((wrong.code, wrong.err.contains("embedded:DIR or etcd:URL")), (2, true), "{wrong:?}");
    let ttl = start(&["--leader-ttl", "10m"]);
    assert_eq!((ttl.code, ttl.err.contains("1s to 5m")), (2, true), "{ttl:?}");
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing was opened");
}

#[test]
fn former_variable_is_named_with_the_one_that_is_read() {
    let warning = "TIDEGATE_HEARING is ignored: set TIDEGATE_REPORT_GRACE instead";
    for (variable, warns) in [("TIDEGATE_HEARING", true), ("TIDEGATE_REPORT_GRACE", false)] {
        // The address ends it before it opens anything.
        let args = ["coordinator", "--store", "embedded:/nowhere", "--http", "0.0.0.0:0"];
        let said = run(tidegate().env(variable, "5s").args(args));
        assert_eq!((said.code, said.err.contains(warning)), (2, warns), "{said:?}");
    }
}

#[test]
fn second_coordinator_on_same_directory_is_refused() {
    let first = Daemon::embedded(|_, _| {});
    let store = format!("embedded:{}", first.dir.path().join("store").display());
    let args = ["coordinator", "--store", &store, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let second = run(tidegate().args(args));
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.err.contains(&first.address("advertise")), "{second:?}");
    assert!(second.err.contains(&first.ready["pid"].to_string()), "{second:?}");
}

#[test]
fn a_follower_answers_questions_and_forwards_commands() {
    let first = Daemon::embedded(|_, _| {});
    let second = Daemon::beside(&first);
    assert!(first.http("/readyz").contains("\"leads\":true"));
    assert!(second.http("/readyz").contains("\"leads\":false"), "{}", second.http("/readyz"));
    let said = second.ask(&["fleet", "cordon", "n1", "--why", "x"]);
    assert_eq!(said.code, 2, "the leader's answer: {said:?}");
    assert!(said.err.contains("no instance was ever seen on n1"), "{said:?}");
    assert_eq!(second.ask(&["upgrade", "list"]).code, 0);
    assert_eq!(second.terminate(), Some(0));
}

#[test]
fn fresh_store_creates_token_and_without_it_only_reads_work() {
    let daemon = Daemon::embedded(|_, _| {});
    let file = daemon.address("token_file");
    assert_eq!(std::path::Path::new(&file), daemon.dir.path().join("store/operator.token"));
    let token = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    assert!(daemon.log().contains(&file), "its path is logged at the start: {}", daemon.log());

    let said = run(&mut daemon.anonymous(&["upgrade", "list"]));
    assert_eq!(said.code, 0, "{said:?}");
    let act = ["token", "create", "--name", "ci", "--role", "release"];
    let said = run(&mut daemon.anonymous(&act));
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
    assert!(said.err.contains("--token-file") && said.err.contains("operator.token"), "{said:?}");
    let wrong = daemon.file("wrong", "tgt_operator_0123456789abcdef");
    let said = run(daemon.anonymous(&["upgrade", "list", "--token-file"]).arg(&wrong));
    assert_eq!(said.code, 2, "what is shown must be good, also to look: {said:?}");

    let made = daemon.ask(&act);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(
        made.out.starts_with("tgt_") && made.err.contains("ci may release, until it is revoked"),
        "{made:?}"
    );
    let ci = daemon.file("ci", &made.out);
    let said = run(daemon.anonymous(&["fleet", "cordon", "n1", "--why", "x", "--token-file"]).arg(&ci));
    assert_eq!(said.code, 3, "a role that is too small is a refusal: {said:?}");
    assert!(said.err.contains("ci has the role release, and this needs operate"), "{said:?}");

    let spec = daemon.file("spec.yaml", &daemon.ask(&["spec", "new"]).out);
    let mut start = vec!["upgrade", "start", spec.to_str().unwrap()];
    let said = run(daemon.anonymous(&start).arg("--token-file").arg(&ci));
    assert_eq!((said.code, said.err.contains("this needs operate")), (3, true), "{said:?}");
    start.push("--dry-run");
    let said = run(&mut daemon.anonymous(&start));
    assert_eq!(said.code, 3, "the role read may preview, and sees what blocks: {said:?}");
    assert!(said.out.starts_with("blocks   pantry-api has no instance"), "{said:?}");
    assert_eq!(daemon.ask(&["--json", "upgrade", "list"]).out, "", "nothing was started");

    let list = daemon.ask(&["token", "list"]);
    assert_eq!(list.out.lines().count(), 2, "{list:?}");
    assert!(list.out.contains("operator for op"), "who made it: {list:?}");
    let json: serde_json::Value =
        serde_json::from_str(&daemon.ask(&["--json", "token", "list"]).out).unwrap();
    assert_eq!(json["digest"].as_str().unwrap().len(), 8, "no digest is shown whole: {json}");
    let id = json["id"].as_str().unwrap();
    assert_eq!(daemon.ask(&["token", "revoke", id, "--why", "seen in a log"]).code, 0);
    let said = run(daemon.anonymous(&["upgrade", "list", "--token-file"]).arg(&ci));
    assert_eq!(
        (said.code, said.err.contains("was revoked by operator for op: seen in a log")),
        (2, true),
        "{said:?}"
    );
    assert_eq!(daemon.ask(&["token", "list"]).out.lines().count(), 1);
    assert_eq!(daemon.ask(&["token", "list", "--all"]).out.lines().count(), 2);
    let history = daemon.ask(&["fleet", "history"]).out;
    let reported: Vec<&str> = history.lines().collect();
    assert!(
        matches!(reported[..], [_, revoked] if revoked.contains("seen in a log (operator for op)")),
        "{history}"
    );
    assert_eq!(daemon.ask(&["--json", "fleet", "history"]).out.lines().count(), 2);

    for secret in [token.as_str(), made.out.trim()] {
        assert!(!daemon.log().contains(secret), "a token is never logged");
    }
}

#[test]
fn a_token_file_that_is_named_is_used_instead() {
    let named = "0123456789abcdef-0123456789";
    let daemon = Daemon::embedded(|command, dir| {
        let path = dir.join("token");
        std::fs::write(&path, format!("{named}\n")).unwrap();
        command.arg("--token-file").arg(path);
    });
    assert_eq!(daemon.address("token_file"), daemon.dir.path().join("token").to_str().unwrap());
    assert_eq!(daemon.ask(&["token", "create", "--name", "x", "--role", "read"]).code, 0);
    assert!(!daemon.dir.path().join("store/operator.token").exists(), "another was made beside it");
    assert!(!daemon.log().contains(named), "a token is never logged");
    let dir = tempfile::tempdir().unwrap();
    let (store, absent) = (format!("embedded:{}", dir.path().display()), dir.path().join("no-such-file"));
    let args = ["coordinator", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--store", &store];
    let said = run(tidegate().args(args).arg("--token-file").arg(&absent));
    assert_eq!((said.code, said.err.contains("could not read the token file")), (1, true), "{said:?}");
}

/// A certificate for 127.0.0.1, its key and its authority: for tests only, good for a hundred years.
const CERTIFICATE: &str = include_str!("tls/certificate.pem");
const KEY: &str = include_str!("tls/key.pem");
const AUTHORITY: &str = include_str!("tls/authority.pem");

#[test]
fn over_tls_with_a_token_any_address_may_be_served() {
    let daemon = Daemon::embedded(|command, dir| {
        let written = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        command.arg("--tls-cert").arg(written("cert.pem", CERTIFICATE));
        command.arg("--tls-key").arg(written("key.pem", KEY));
        command.arg("--token-file").arg(written("token", "0123456789abcdef"));
        command.arg("--peer-ca").arg(written("ca.pem", AUTHORITY));
        command.args(["--grpc", "0.0.0.0:0", "--advertise", "https://localhost:1"]);
    });
    let port = daemon.address("grpc").rsplit_once(':').unwrap().1.to_owned();
    let (ca, token) = (daemon.dir.path().join("ca.pem"), daemon.dir.path().join("token"));
    let url = format!("https://127.0.0.1:{port}");
    let ask = |more: &[&str]| run(tidegate().args(["--coordinator", &url, "upgrade", "list"]).args(more));
    let (ca, token) = (ca.to_str().unwrap(), token.to_str().unwrap());
    assert_eq!(ask(&["--ca", ca, "--token-file", token]).code, 0);
    let said = ask(&["--token-file", token]);
    assert_eq!((said.code, said.err.contains("--ca")), (2, true), "{said:?}");
    let said = ask(&["--ca", ca]);
    assert_eq!(said.code, 0, "from this machine one may look without a token: {said:?}");
    let plain = run(tidegate().args(["--coordinator", &url.replace("https", "http"), "upgrade", "list"]));
    assert_eq!(plain.code, 4, "nothing is served without TLS: {plain:?}");
}

#[test]
fn answer_that_holds_a_secret_is_not_stored_by_caches() {
    let daemon = Daemon::embedded(|_, _| {});
    let token = std::fs::read_to_string(daemon.address("token_file")).unwrap().trim().to_owned();
    let body = r#"{"name": "ann", "role": "read"}"#;
    let answer = daemon.request("POST", "/v1/tokens", Some(&token), body);
    let (head, _) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.to_lowercase().contains("cache-control: no-store"), "{head}");
}
