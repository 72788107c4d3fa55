//! Whatever is wrong with what is asked: a fitting status or exit code, a machine word, a sentence that says what is
//! wrong and where, and nothing changed. Asked of a running coordinator, as CI and persons ask.

use crate::herd::{Herd, release};
use crate::process::{Daemon, run};
use serde_json::{Value as Json, json};
use std::path::Path;
use tidegate_coordinator::grpc::client::{Trust, connect};
use tidegate_proto::Key;
use tidegate_proto::wire::v1::{PromoteReleaseRequest, StartUpgradeRequest};
use tidegate_store::{Scope, Store};
use tonic::Code;

const RELEASES: &str = "/management/api/v2/compute_releases";

/// A coordinator with a short history: revision 1 needed storage at 2, revision 2 needs none and is deployed, revision 3
/// waits; the storage, which is only watched, is back at 1.
struct Fixture {
    daemon: Daemon,
    store: Store,
    token: String,
    _storage: Herd,
}

impl Fixture {
    async fn open() -> Self {
        let daemon = Daemon::embedded(|_, _| {});
        let store = daemon.store().await;
        let token = std::fs::read_to_string(daemon.address("token_file")).unwrap().trim().to_owned();
        let storage = Herd::at(daemon.store().await, 1, 2).await;
        let fixture = Self { daemon, store, token, _storage: storage };
        fixture.until_fleet_shows("2");
        fixture.creates(
            &["--version", "9057", "--tag", "release-9057", "--requires", "pantry-api=2"],
            "deployed",
        );
        fixture.creates(&["--version", "9058", "--tag", "release-9058"], "deployed");
        fixture
            .creates(&["--version", "9059", "--tag", "release-9059", "--requires", "elsewhere=1"], "pending");
        let storage = Herd::at(fixture.daemon.store().await, 1, 1).await;
        fixture.until_fleet_shows("1");
        Self { _storage: storage, ..fixture }
    }

    fn until_fleet_shows(&self, version: &str) {
        let shown = format!("version=\"{version}\"}} 1");
        self.daemon.until("the storage reports", &["fleet", "list"], |_| {
            self.daemon
                .http("/metrics")
                .contains(&format!("tidegate_instances{{service=\"pantry-api\",{shown}"))
        });
    }

    fn creates(&self, what: &[&str], status: &str) {
        let said = self.daemon.ask(&[&["release", "create"], what].concat());
        assert!(said.code == 0 && said.out.contains(&format!("({status}")), "{said:?}");
    }

    /// The revision of the whole store.
    async fn revision(&self) -> i64 {
        self.store.list(&Scope::Key(Key::Leader)).await.unwrap().revision.0
    }

    /// Asks over HTTP; the status and the body.
    fn send(&self, token: Option<&str>, asked: &Asked) -> (u16, Json) {
        let answer = self.daemon.request(asked.method, &asked.path, token, &asked.body);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}")))
    }

    /// Asks over HTTP what must be refused so.
    fn is_refused(&self, token: Option<&str>, asked: &Asked, status: u16, word: &str, says: &[&str]) {
        let shown = format!("{} {} {:.90}", asked.method, asked.path, asked.body);
        let (found, body) = self.send(token, asked);
        assert_eq!((found, body["error"].as_str()), (status, Some(word)), "{shown}: {body}");
        let message = body["message"].as_str().unwrap_or_default();
        assert!(message.contains(' ') && message.len() > 20, "{shown}: a sentence, not {message:?}");
        says.iter().for_each(|part| assert!(message.contains(part), "{shown}: no {part:?} in {message:?}"));
    }
}

/// A call over HTTP.
struct Asked {
    method: &'static str,
    path: String,
    body: String,
}

fn post(path: &str, body: impl ToString) -> Asked {
    Asked { method: "POST", path: format!("{RELEASES}{path}"), body: body.to_string() }
}

fn put(path: &str, body: impl ToString) -> Asked {
    Asked { method: "PUT", path: path.to_owned(), body: body.to_string() }
}

fn release_with(change: Json) -> Json {
    let mut release = json!({ "version": 9060, "tag": "release-9060", "manifest": {} });
    release.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    release
}

/// What is asked, and how it is refused: status, machine word, and what the sentence holds.
type Case = (Asked, u16, &'static str, &'static [&'static str]);

fn cases() -> Vec<Case> {
    let twice = "{\"version\": 9060, \"tag\": \"t\",\n \"manifest\": {\"x\": 1, \"x\": 2}}";
    let canary = |fraction: Json| release_with(json!({ "canary": { "fraction": fraction } }));
    let oversized = release_with(json!({ "manifest": { "x": "y".repeat(600 * 1024) } }));
    vec![
        // Malformed, with its line and column.
        (post("", "{\"version\": 9060,\n \"tag\" \"t\"}"), 400, "invalid", &["line 2 column 8"]),
        (post("/rollback", "{\"revision\":\n}"), 400, "invalid", &["line 2 column 1"]),
        (put("/management/api/v2/streams/compute", "{\"approval\":\n 7}"), 400, "invalid", &["line 2"]),
        (put("/v1/groups/edge/metadata", "{\"document\": {},\n}"), 400, "invalid", &["line 2 column 1"]),
        // One key, two values.
        (post("", twice), 400, "invalid", &["\"x\" is there twice", "line 2 column 25"]),
        (put("/v1/groups/edge/metadata", twice), 400, "invalid", &["\"x\" is there twice"]),
        // A version that falls, and a tag of another version.
        (post("", json!({ "version": 9056, "tag": "release-9056" })), 409, "refused", &["9056", "9059"]),
        (
            post("", json!({ "version": 9060, "tag": "release-9057" })),
            409,
            "refused",
            &["release-9057", "9060"],
        ),
        // What is not there.
        (post("/rollback", json!({ "revision": 77 })), 404, "not-found", &["no revision 77"]),
        (post("/77/approve", "{}"), 404, "not-found", &["77"]),
        (post("/77/promote", "{\"deploy\": true}"), 404, "not-found", &["77"]),
        (
            put(&format!("{RELEASES}/pins/ep-1"), json!({ "revision": 77, "why": "x" })),
            404,
            "not-found",
            &["77"],
        ),
        (Asked { method: "GET", ..post("/77", "") }, 404, "not-found", &["no revision 77"]),
        // Back to what needs newer storage than there is, and to what was never out.
        (
            post("/rollback", json!({ "revision": 1, "why": "slow" })),
            409,
            "refused",
            &["cannot roll back to revision 1", "pantry-api", "n00000", "2"],
        ),
        (post("/rollback", json!({ "revision": 3 })), 409, "refused", &["never deployed"]),
        // A share that is none.
        (post("", canary(json!(1.5))), 400, "invalid", &["1.5", "fraction"]),
        (post("", canary(json!(-0.1))), 400, "invalid", &["-0.1"]),
        (post("/3/promote", json!({ "fraction": 2 })), 400, "invalid", &["2", "fraction"]),
        (post("/3/promote", json!({ "fraction": null })), 400, "invalid", &["null"]),
        (post("/3/promote", json!({})), 400, "invalid", &["fraction", "deploy"]),
        (
            post("/3/promote", json!({ "fraction": 0.5, "deploy": true })),
            400,
            "invalid",
            &["fraction", "deploy"],
        ),
        // A path that is not UTF-8.
        (post("/%FF/approve", "{}"), 400, "invalid", &["the path cannot be read", "UTF-8"]),
        // Too large, with the limit.
        (post("", oversized), 413, "too-large", &["at most 524288"]),
        (post("", "x".repeat(3 * 1024 * 1024)), 413, "too-large", &["at most 1048576"]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_over_http_is_refused_without_effect() {
    let fixture = Fixture::open().await;
    let operator = Some(fixture.token.as_str());
    let before = fixture.revision().await;
    for (asked, status, word, says) in cases() {
        fixture.is_refused(operator, &asked, status, word, says);
        assert_eq!(fixture.revision().await, before, "{} changed the store", asked.path);
    }

    // Callers that are unknown or lack the role.
    let reader = ["token", "create", "--name", "reader", "--role", "read"];
    let reader = fixture.daemon.ask(&reader).out.trim().to_owned();
    let before = fixture.revision().await;
    let good = post("", release_with(json!({})));
    fixture.is_refused(None, &good, 401, "unauthenticated", &["--token-file"]);
    fixture.is_refused(Some("tgt_wrong_0123456789abcdef"), &good, 401, "unauthenticated", &["token"]);
    fixture.is_refused(
        Some(&reader),
        &good,
        403,
        "forbidden",
        &["reader has the role read", "needs release"],
    );
    assert_eq!(fixture.revision().await, before, "who may not has changed the store");

    let (status, body) = fixture.send(operator, &good);
    assert_eq!((status, &body["revision"]), (200, &json!(4)), "{body}");
    assert!(fixture.revision().await > before, "what is good does change the store");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_on_command_line_is_refused_without_effect() {
    let fixture = Fixture::open().await;
    let dir = fixture.daemon.dir.path().to_owned();
    let before = fixture.revision().await;
    for (args, code, says) in typed(&dir) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let said = fixture.daemon.ask(&args);
        assert_eq!((said.code, said.out.as_str()), (code, ""), "{args:?}: {said:?}");
        says.iter()
            .for_each(|part| assert!(said.err.contains(part), "{args:?}: no {part:?} in {}", said.err));
        assert_eq!(fixture.revision().await, before, "{args:?} changed the store");
    }
    let create = ["release", "create", "--version", "9060", "--tag", "release-9060"];
    let said = run(&mut fixture.daemon.anonymous(&create));
    assert_eq!((said.code, said.err.contains("--token-file")), (2, true), "{said:?}");
    assert_eq!(fixture.revision().await, before, "who is not known has changed the store");
    fixture.creates(&create[2..], "deployed");
    assert!(fixture.revision().await > before, "what is good does change the store");
}

/// What is typed, its exit code, and what is printed: of a file its name, and where in it.
fn typed(dir: &Path) -> Vec<(Vec<String>, i32, &'static [&'static str])> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let with = |line: &str, name: &str, text: &str| {
        std::fs::write(dir.join(name), text).unwrap();
        let mut args = words(line);
        args.push(dir.join(name).to_str().unwrap().to_owned());
        args
    };
    let create =
        |name: &str, text: &str| with("release create --version 9060 --tag t --manifest", name, text);
    std::fs::write(dir.join("mix.yaml"), "extensions: null\n").unwrap();
    let mixed = |name: &str, text: &str| {
        std::fs::write(dir.join(name), text).unwrap();
        let line = format!("release create --version 9060 --tag t --manifest {0}/mix.yaml", dir.display());
        [words(&line), vec!["--mix-in".to_owned(), format!("extensions={}", dir.join(name).display())]]
            .concat()
    };
    let started = |name: &str, text: &str| with("upgrade start", name, text);
    let sha = release(2).sha256;
    let spec = format!("service: pantry-api\nfrom: 1\nto: 2\nrelease: {{tag: x, sha256: {sha}}}\n");
    let large = format!("x: \"{}\"\n", "y".repeat(600 * 1024));
    vec![
        // Malformed YAML and JSON, with line and column.
        (create("broken.yaml", "pg_settings:\n  common: {a: [}\n"), 2, &["broken.yaml:2:15: "]),
        (create("broken.json", "{\"pg_settings\":\n {\"common\" 1}}"), 2, &["broken.json:2:"]),
        (with("release stream compute --set", "stream.yaml", "approval: [\n"), 2, &["stream.yaml:1:11: "]),
        (with("metadata set edge", "document.yaml", "a:\n\t- b\n"), 2, &["document.yaml:2:2: "]),
        (started("spec.yaml", "service: [\n"), 2, &["spec.yaml:1:", "bracket"]),
        // One key, two values.
        (
            create("twice.yaml", "pg_settings: {}\nx: 1\nx: 2\n"),
            2,
            &["twice.yaml:3:1: the key `x` is there twice"],
        ),
        (
            with("release stream compute --set", "twice-stream.yaml", "approval: none\napproval: required\n"),
            2,
            &["twice-stream.yaml:2:1: the key `approval` is there twice"],
        ),
        (
            with("metadata set edge", "twice-document.yaml", "a: 1\nb:\n  c: 1\n  c: 2\n"),
            2,
            &["twice-document.yaml:4:3: "],
        ),
        (started("twice-spec.yaml", &format!("{spec}from: 1\n")), 2, &["twice-spec.yaml:5:", "from"]),
        // What is mixed in: not YAML, and under a key that is taken.
        (mixed("mixed.json", "{\"a\" 1}"), 2, &["mixed.json:1:"]),
        (mixed("taken.json", "{}"), 2, &["taken.json", "\"extensions\" already"]),
        // A version that falls, a tag of another version, what is not there.
        (words("release create --version 9056 --tag release-9056"), 3, &["9056", "9059"]),
        (words("release create --version 9060 --tag release-9057"), 3, &["release-9057"]),
        (words("release rollback 77 --why slow"), 2, &["no revision 77"]),
        (words("release show 77"), 2, &["no revision 77"]),
        (words("release rollback 1 --why slow"), 3, &["cannot roll back to revision 1", "n00000", "2"]),
        // A share that is none, and a manifest that is too large.
        (words("release create --version 9060 --tag t --canary 1.5"), 2, &["1.5"]),
        (words("release promote 3 --fraction 2"), 2, &["fraction", "2"]),
        (words("release promote 3"), 2, &["--fraction", "--deploy"]),
        (create("large.yaml", &large), 2, &["large.yaml", "at most 524288"]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn unchecked_spec_is_refused_with_line_and_column() {
    let daemon = Daemon::embedded(|_, _| {});
    let token = tidegate_coordinator::guard::Token::read(Path::new(&daemon.address("token_file"))).unwrap();
    let connection = connect(&daemon.address("advertise"), Some(token), &Trust::default()).await.unwrap();
    let mut operator = connection.operator();
    let store = daemon.store().await;
    let revision = async || store.list(&Scope::Key(Key::Leader)).await.unwrap().revision;
    let before = revision().await;
    for (spec, code, says) in [
        ("service: a\nfrom: [\n", Code::InvalidArgument, "the spec is not valid:\n  "),
        ("service: a\nfrom: 1\nfrom: 1\n", Code::InvalidArgument, "3:1: "),
        (&"#".repeat(100_000), Code::ResourceExhausted, "at most 65536"),
    ] {
        let asked = StartUpgradeRequest { spec: spec.to_owned(), ..StartUpgradeRequest::default() };
        let refused = operator.start_upgrade(asked).await.unwrap_err();
        assert_eq!((refused.code(), refused.message().contains(says)), (code, true), "{refused:?}");
    }
    assert_eq!(revision().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn promotion_without_a_share_is_no_request_to_deploy() {
    let fixture = Fixture::open().await;
    let token =
        tidegate_coordinator::guard::Token::read(Path::new(&fixture.daemon.address("token_file"))).unwrap();
    let connection =
        connect(&fixture.daemon.address("advertise"), Some(token), &Trust::default()).await.unwrap();
    for (fraction, deploy, says) in [(None, false, "neither fraction nor deploy"), (Some(0.5), true, "both")]
    {
        let asked =
            PromoteReleaseRequest { revision: 3, fraction, deploy, ..PromoteReleaseRequest::default() };
        let refused = connection.releases().promote_release(asked).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.message().contains(says)),
            (Code::InvalidArgument, true),
            "{refused:?}"
        );
    }
}
