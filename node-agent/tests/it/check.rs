//! What `check` finds before the agent is let loose: each answer that would strand a node is tried, and is an error. The
//! service here never heard of Tidegate.

use crate::refuse::{run, words};
use crate::world::agent::PROGRAM;
use crate::world::store::TestStore;
use axum::Router;
use axum::http::{StatusCode, Uri};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};

/// A node with a service that answers as configured, and a balancer that calls it n1.
struct Node {
    room: TempDir,
    store: TestStore,
    port: u16,
    /// What the configuration says, by field.
    fields: BTreeMap<&'static str, String>,
    more: String,
}

impl Node {
    /// Everything is as it should be; the balancer sends n1's requests to `at`, where it says so.
    async fn sound(at: Option<String>) -> Self {
        let room = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new().fallback(|uri: Uri| async move {
            match uri.path() {
                "/ready" | "/healthcheck" => (StatusCode::OK, "OK".to_owned()),
                "/version" => (StatusCode::OK, "28".to_owned()),
                "/disabled" => (StatusCode::SERVICE_UNAVAILABLE, "DISABLED BY FILE".to_owned()),
                path => match path.strip_prefix("/answers-").and_then(|code| code.parse().ok()) {
                    Some(code) => (StatusCode::from_u16(code).unwrap(), "so".to_owned()),
                    None => (StatusCode::OK, path.trim_start_matches("/says-").to_owned()),
                },
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        let at = at.unwrap_or_else(|| format!("127.0.0.1:{port}"));
        balancer(&room.path().join("stats"), at);
        let url = |path: &str| format!("\"http://127.0.0.1:{port}/{path}\"");
        let fields = BTreeMap::from([
            ("probe", format!("{{ http = {} }}", url("version"))),
            ("ready_url", url("ready")),
            ("health_url", url("healthcheck")),
            ("disable_file", format!("{:?}", room.path().join("disable"))),
        ]);
        let driver = "[service.nova.driver.command]\nstop = [\"true\"]\nstart = [\"true\"]\n";
        Self { room, store: TestStore::start().await, port, fields, more: driver.to_owned() }
    }

    fn url(&self, path: &str) -> String {
        format!("\"http://127.0.0.1:{}/{path}\"", self.port)
    }

    fn script(&self, name: &str, text: &str, mode: u32) -> String {
        let path = self.room.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    }

    fn config(&self) -> PathBuf {
        let (room, store) = (self.room.path().display(), self.store.address);
        let mut text = format!(
            "node = \"n1\"\nstate_dir = \"{room}/state\"\nruntime_dir = \"{room}/run\"\n\
             [store]\nendpoints = [\"http://{store}\"]\n[service.nova]\n"
        );
        for (field, value) in &self.fields {
            text += &format!("{field} = {value}\n");
        }
        let stats = self.room.path().join("stats");
        text += &format!(
            "{}\n[[service.nova.balancer]]\nstats = \"unix:{}\"\nbackend = \"nova\"\nserver = \"n1\"\n",
            self.more,
            stats.display()
        );
        let path = self.room.path().join("agent.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The check finds nothing wrong.
    fn is_sound(&self) -> String {
        let output = run(&["check"], &self.config());
        assert!(output.status.success(), "{}", words(&output));
        words(&output)
    }

    /// The check ends with 2 and says one thing that is wrong, in these words.
    fn is_wrong(&self, said: &[&str]) {
        let output = run(&["check"], &self.config());
        let text = words(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error:")).collect();
        assert_eq!(errors.len(), 1, "{text}");
        said.iter().for_each(|word| assert!(errors[0].contains(word), "{word} is not in {text}"));
    }
}

fn balancer(socket: &Path, at: String) {
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 64]).await;
            let text = format!("# pxname,svname,scur,status,addr,\nnova,n1,0,UP,{at},\n\n");
            let _ = stream.write_all(text.as_bytes()).await;
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sound_node_has_notes_alone() {
    let mut node = Node::sound(None).await;
    let said = node.is_sound();
    for word in
        ["runs at version 28", "n1 at unix:", "says UP", "each drain measures it before anything is stopped"]
    {
        assert!(said.contains(word), "{word} is not in {said}");
    }
    node.fields.insert("ready_url", node.url("healthcheck"));
    assert!(node.is_sound().contains("ready_url is health_url"), "the assumption is said");
    // What does not run yet is no error, nor is what is not ready.
    node.fields.insert("ready_url", node.url("answers-503"));
    assert!(node.is_sound().contains("not ready now"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_that_answer_otherwise_are_errors() {
    for (field, path, said) in [
        ("ready_url", "answers-300", "answers 300"),
        ("ready_url", "answers-404", "answers 404"),
        ("health_url", "answers-404", "answers 404"),
        ("health_url", "answers-204", "answers 204"),
    ] {
        let mut node = Node::sound(None).await;
        node.fields.insert(field, node.url(path));
        node.is_wrong(&[field, path, said, "is the path right?"]);
    }
    let mut node = Node::sound(None).await;
    let unused = crate::world::free_port();
    node.fields.insert("health_url", format!("\"http://127.0.0.1:{unused}/healthcheck\""));
    node.is_wrong(&["nothing listens at health_url", "is the address right?"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probe_that_answers_no_whole_number_is_an_error() {
    let mut node = Node::sound(None).await;
    node.fields.insert("probe", format!("{{ http = {} }}", node.url("says-28.0.1")));
    node.is_wrong(&["28.0.1", "a whole number from 1"]);
    let printed = node.script("version", "echo 28.0.1", 0o755);
    node.fields.insert("probe", format!("{{ command = [{printed:?}] }}"));
    node.is_wrong(&["28.0.1", "a whole number from 1"]);
    let fails = node.script("fails", "echo no database >&2; exit 1", 0o755);
    node.fields.insert("probe", format!("{{ command = [{fails:?}] }}"));
    node.is_wrong(&["no database", "fails while it answers"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disable_file_shared_or_unread_is_an_error() {
    let node = Node::sound(None).await;
    let file = node.room.path().join("disable");
    let put = |by: &str| {
        let text = format!(
            "put by tidegate-agent on {by}, generation 7, mark abc\nTo keep this instance out by hand, change this text.\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    put("n2");
    node.is_wrong(&["put by the agent of n2", "another instance"]);
    put("n1");
    node.is_wrong(&["disable_file", "is there", "answers 200", "does not look at that file"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_nodes_server_in_the_balancer_is_an_error() {
    let other = Node::sound(Some("192.0.2.7:8774".to_owned())).await;
    other.is_wrong(&["server n1 is at 192.0.2.7:8774", "no address of this machine", "another node's"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let mut beside = Node::sound(Some(at.to_string())).await;
    let (found, help) = (format!("server n1 is at {at}"), format!("address = \"{at}\""));
    beside.is_wrong(&[&found, "another instance's", &help]);
    // Its requests come in at a port of their own.
    beside.more += &counted(at.port());
    beside.is_sound();
}

fn counted(port: u16) -> String {
    format!("[service.nova.in_flight]\ntcp_port = {port}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counted_port_without_a_listener_is_an_error() {
    let mut node = Node::sound(None).await;
    let (driver, unused) = (node.more.clone(), crate::world::free_port());
    node.more = driver.clone() + &counted(node.port);
    node.is_sound();
    node.more = driver + &counted(unused);
    node.is_wrong(&[&format!("in_flight.tcp_port {unused}"), "always be 0", "is the port right?"]);
    // What is not ready may not listen yet.
    node.fields.insert("ready_url", node.url("answers-503"));
    node.is_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_are_tried_without_being_run_but_for_the_status_hook() {
    let mut node = Node::sound(None).await;
    let plain = node.script("plain", "true", 0o644);
    let command = |more: &str| {
        format!("[service.nova.driver.command]\nstop = [\"true\"]\nstart = [\"true\"]\n{more}\n")
    };
    for hook in ["stage", "remove", "status"] {
        node.more = command(&format!("{hook} = [{plain:?}]"));
        if hook != "status" {
            node.is_wrong(&[&format!("the {hook} hook is not executable"), "plain"]);
        }
    }
    let output = words(&run(&["check"], &node.config()));
    assert!(output.contains("the status hook is not executable"), "{output}");
    node.more = format!("[service.nova.driver.command]\nstop = [{plain:?}]\nstart = [\"true\"]\n");
    node.is_wrong(&["the stop hook is not executable"]);
    for (code, said) in [(1, "says that it does not run"), (7, "0 (it runs) or 1 to 3")] {
        let status = node.script(&format!("status-{code}"), &format!("exit {code}"), 0o755);
        node.more = command(&format!("status = [{status:?}]"));
        node.is_wrong(&["the status hook", said]);
    }
    // Where a stage hook brings the code, no source is read.
    let stage = node.script("stage", "true", 0o755);
    node.more = command(&format!("stage = [{stage:?}]"))
        + "[service.nova.artifact.\"nova-28\"]\nsource = \"/nowhere/nova-28\"\nversion = 28\nsha256 = \"absent\"\n";
    node.is_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disable_file_shared_with_other_agent_is_an_error() {
    let mut node = Node::sound(None).await;
    let own = std::fs::read_to_string(node.config()).unwrap();
    // Beside this configuration lies that of another node, with the same file.
    let other = node.room.path().join("agent-n2.toml");
    std::fs::write(&other, own.replace("node = \"n1\"", "node = \"n2\"")).unwrap();
    node.is_wrong(&["disable_file", "node n2", "agent-n2.toml", "give each instance its own"]);
    // A copy of this node's own configuration is no other instance, and a text that is none is no configuration.
    std::fs::write(&other, &own).unwrap();
    std::fs::write(node.room.path().join("notes.toml"), "node = [").unwrap();
    node.is_sound();
    // The other configuration lies beside the file.
    let home = node.room.path().join("n2");
    std::fs::create_dir(&home).unwrap();
    let theirs = format!("{:?}", home.join("disable"));
    node.fields.insert("disable_file", theirs.clone());
    node.is_sound();
    let file = format!("{:?}", node.room.path().join("disable"));
    let text = own.replace(&file, &theirs).replace("node = \"n1\"", "node = \"n2\"");
    std::fs::write(home.join("agent.toml"), text).unwrap();
    node.is_wrong(&["disable_file", "node n2", "n2/agent.toml"]);
    std::fs::remove_file(home.join("agent.toml")).unwrap();
    // Nothing but its state directory says that another agent is there.
    std::fs::write(home.join("agent.lock"), "").unwrap();
    std::fs::write(home.join("nonce"), "").unwrap();
    node.is_wrong(&["disable_file", "the state directory of another agent"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_url_that_is_out_by_another_file_is_an_error() {
    let mut node = Node::sound(None).await;
    node.fields.insert("health_url", node.url("disabled"));
    node.is_wrong(&["health_url", "DISABLED BY FILE", "disable_file", "is not there", "another file"]);
    std::fs::write(node.room.path().join("disable"), "kept out by hand\n").unwrap();
    assert!(node.is_sound().contains("it is out of rotation"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assumption_on_readiness_is_said_where_the_urls_overlap() {
    let mut node = Node::sound(None).await;
    assert!(!node.is_sound().contains("readiness is then not"));
    let elsewhere = format!("\"http://localhost:{}/healthcheck\"", node.port);
    for ready in [node.url("healthcheck"), node.url("healthcheck?detailed=true"), elsewhere] {
        node.fields.insert("ready_url", ready.clone());
        assert!(node.is_sound().contains("readiness is then not known"), "{ready}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_other_program_is_tried_too() {
    let plain = |node: &Node| node.script("plain", "true", 0o644);
    let mut node = Node::sound(None).await;
    node.more += &format!(
        "[metadata.edge]\nfile = {:?}\nhook = [{:?}]\n",
        node.room.path().join("edge"),
        plain(&node)
    );
    node.is_wrong(&["metadata edge", "not executable", "plain"]);
    let mut node = Node::sound(None).await;
    node.more += &format!("[hook.pull]\nargv = [{:?}]\n", plain(&node));
    node.is_wrong(&["hook pull", "not executable", "plain"]);
    let mut node = Node::sound(None).await;
    node.more = format!("[service.nova.driver.process]\nargv = [{:?}]\n", plain(&node));
    node.is_wrong(&["driver.process", "not executable", "plain"]);
    let mut node = Node::sound(None).await;
    node.fields.insert("probe", format!("{{ command = [{:?}] }}", plain(&node)));
    node.is_wrong(&["the probe", "not executable", "plain"]);
    // A script whose interpreter is not there is executable, and does not start.
    let mut node = Node::sound(None).await;
    let script = node.room.path().join("hook");
    std::fs::write(&script, "#! /no/such/interpreter -e\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    node.more = format!("[service.nova.driver.command]\nstop = [{script:?}]\nstart = [\"true\"]\n");
    node.is_wrong(&["the stop hook", "/no/such/interpreter", "is not there"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn balancer_that_does_not_say_where_its_server_is_is_noted() {
    let node = Node::sound(Some(String::new())).await;
    assert!(node.is_sound().contains("level operator"), "{}", node.is_sound());
}

#[test]
fn output_that_is_full_ends_with_an_exit_code() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let missing = ["check", "--config", "/nowhere/agent.toml"];
    let unread = Command::new(PROGRAM).args(missing).stderr(full()).status().unwrap();
    assert_eq!(unread.code(), Some(2), "the finding is lost, and its exit code is not");
    for verb in [&["init"][..], &["schema"], &["completion", "bash"]] {
        let unwritten = Command::new(PROGRAM).args(verb).stdout(full()).output().unwrap();
        let text = String::from_utf8(unwritten.stderr).unwrap();
        let named = text.contains("could not write the output");
        assert_eq!((unwritten.status.code(), named), (Some(1), true), "{verb:?}: {text}");
    }
}
