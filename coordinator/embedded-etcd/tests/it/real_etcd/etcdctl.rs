//! The real `etcdctl` against the embedded store, as an operator would use it.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use tidegate_embedded_etcd::Embedded;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

struct Ctl {
    endpoint: String,
}

impl Ctl {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.endpoint, "--command-timeout", "10s"]);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        self.run_with(arguments, "")
    }

    fn run_with(&self, arguments: &[&str], input: &str) -> String {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("start etcdctl (the package etcd-client has it)");
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        // It writes its own log lines and some of its results to the standard error output.
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(output.status.success(), "etcdctl {arguments:?} failed: {text}");
        text
    }

    fn watch(&self, arguments: &[&str], lines: usize) -> Vec<String> {
        let mut child = self.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let reported =
            BufReader::new(child.stdout.take().unwrap()).lines().take(lines).map(Result::unwrap).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        reported
    }
}

#[tokio::test]
async fn etcdctl_works_against_the_embedded_store() {
    let store = Embedded::in_memory();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let shutdown = CancellationToken::new();
    let server = tokio::spawn({
        let (store, shutdown) = (store.clone(), shutdown.clone());
        async move { store.serve(listener, shutdown).await }
    });
    tokio::task::spawn_blocking(move || {
        let ctl = Ctl { endpoint };
        keys_and_transactions(&ctl);
        leases(&ctl);
        compaction(&ctl);
        endpoints(&ctl);
    })
    .await
    .unwrap();
    shutdown.cancel();
    server.await.unwrap().unwrap();
}

fn keys_and_transactions(ctl: &Ctl) {
    assert_eq!(ctl.run(&["put", "a/1", "one"]), "OK\n");
    ctl.run(&["put", "a/2", "two"]);
    assert_eq!(ctl.run(&["get", "a/", "--prefix"]), "a/1\none\na/2\ntwo\n");
    assert_eq!(ctl.run(&["get", "a/", "--prefix", "--keys-only", "--order", "DESCEND"]), "a/2\n\na/1\n\n");
    let txn = "value(\"a/1\") = \"one\"\n\nput a/3 three\nget a/3\n\nput a/4 four\n\n";
    assert_eq!(ctl.run_with(&["txn"], txn), "SUCCESS\n\nOK\n\na/3\nthree\n");
    assert_eq!(ctl.run(&["del", "a/2", "--prev-kv"]), "1\na/2\ntwo\n");
    let reported = ctl.watch(&["watch", "a/", "--prefix", "--rev", "2"], 11);
    let expected = ["PUT", "a/1", "one", "PUT", "a/2", "two", "PUT", "a/3", "three", "DELETE", "a/2"];
    assert_eq!(reported, expected);
    assert_eq!(ctl.run(&["get", "a/2", "--rev", "4", "--print-value-only"]), "two\n");
}

fn leases(ctl: &Ctl) {
    let granted = ctl.run(&["lease", "grant", "60"]);
    let id = granted.split_whitespace().nth(1).unwrap();
    assert_eq!(granted, format!("lease {id} granted with TTL(60s)\n"));
    ctl.run(&["put", "leased", "x", "--lease", id]);
    assert_eq!(
        ctl.run(&["lease", "keep-alive", "--once", id]),
        format!("lease {id} keepalived with TTL(60)\n")
    );
    let left = ctl.run(&["lease", "timetolive", id, "--keys"]);
    assert!(left.contains("granted with TTL(60s)") && left.contains("attached keys([leased])"), "{left}");
    assert!(ctl.run(&["lease", "list"]).contains(id));
    assert_eq!(ctl.run(&["lease", "revoke", id]), format!("lease {id} revoked\n"));
    assert_eq!(ctl.run(&["get", "leased"]), "");
}

fn compaction(ctl: &Ctl) {
    assert_eq!(ctl.run(&["compaction", "4"]), "compacted revision 4\n");
    let output = ctl.command(&["get", "a/1", "--rev", "3"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("required revision has been compacted"), "{text}");
}

fn endpoints(ctl: &Ctl) {
    let health = ctl.run(&["endpoint", "health"]);
    assert!(health.contains("is healthy"), "{health}");
    let status = ctl.run(&["endpoint", "status", "-w", "table"]);
    assert!(status.contains("3.5.99-embedded") && status.contains("true"), "{status}");
    let members = ctl.run(&["member", "list"]);
    assert!(members.contains("embedded") && members.contains(&ctl.endpoint), "{members}");
    assert_eq!(ctl.run(&["alarm", "list"]), "");
    assert!(ctl.run(&["defrag"]).contains("Finished defragmenting"));
}
