//! Who may come in, who leads, and what is refused at the start.

use crate::process::{Daemon, run, tidegate};

#[test]
fn what_is_not_loopback_needs_tls_and_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", dir.path().display());
    let start = |more: &[&str]| run(tidegate().args(["coordinator", "--store", &store]).args(more));
    let open = start(&["--grpc", "0.0.0.0:0", "--http", "127.0.0.1:0"]);
    assert_eq!(open.code, 2, "{open:?}");
    assert!(open.err.contains("--grpc 0.0.0.0:0") && open.err.contains("--token-file"), "{open:?}");
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
fn a_second_coordinator_on_the_same_directory_is_refused_naming_the_first() {
    let first = Daemon::embedded(|_, _| {});
    let store = format!("embedded:{}", first.dir.path().join("store").display());
    let args = ["coordinator", "--store", &store, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let second = run(tidegate().args(args));
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.err.contains(&first.address("advertise")), "{second:?}");
    assert!(second.err.contains(&first.ready["pid"].to_string()), "{second:?}");
}

#[test]
fn a_follower_answers_questions_and_forwards_wishes() {
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
fn without_the_token_nobody_is_let_in() {
    let token = "0123456789abcdef-0123456789";
    let daemon = Daemon::embedded(|command, dir| {
        let path = dir.join("token");
        std::fs::write(&path, format!("{token}\n")).unwrap();
        command.arg("--token-file").arg(path);
    });
    let path = daemon.dir.path().join("token");
    let said = daemon.ask(&["upgrade", "list"]);
    assert_eq!((said.code, said.err.contains("--token-file")), (2, true), "{said:?}");
    let said = daemon.ask(&["--token-file", path.to_str().unwrap(), "upgrade", "list"]);
    assert_eq!(said.code, 0, "{said:?}");
    let wrong = daemon.file("wrong", "0123456789abcdef-012345678X");
    let said = daemon.ask(&["--token-file", wrong.to_str().unwrap(), "fleet", "cordon", "n1", "--why", "x"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(daemon.http("/metrics").starts_with("HTTP/1.1 401"));
    assert!(daemon.http("/healthz").starts_with("HTTP/1.1 200"));
    assert!(!daemon.log().contains(token), "a token is never logged");
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
    assert_eq!((said.code, said.err.contains("--token-file")), (2, true), "{said:?}");
    let plain = run(tidegate().args(["--coordinator", &url.replace("https", "http"), "upgrade", "list"]));
    assert_eq!(plain.code, 4, "nothing is served without TLS: {plain:?}");
}
