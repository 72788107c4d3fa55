//! Hostile specs, and hostile calls over gRPC and HTTP to a coordinator that leads.

use crate::world::{Coordinator, LIMIT, spec as world_spec, world};
use axum::Router;
use axum::extract::ConnectInfo;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tidegate_coordinator::door::{Peer, Shown};
use tidegate_coordinator::grpc::{self, Peers};
use tidegate_coordinator::guard::{Guard, Token};
use tidegate_coordinator::{api, operation};
use tidegate_embedded_etcd::Embedded;
use tidegate_fuzz::{Border, Counting, Form, Limits, Seed, Shape};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tonic::codegen::http::Request;
use tonic::service::Routes;
use tower::ServiceExt;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Reads a spec; the digest of one that is taken is that of its stored form.
fn spec(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match operation::spec::parse(text) {
        Ok(spec) => {
            let stored = serde_json::to_string(&spec).unwrap();
            let again: tidegate_proto::spec::Spec = serde_json::from_str(&stored).unwrap();
            assert_eq!((again.digest(), again), (spec.digest(), spec));
        }
        Err(refused) => drop(std::hint::black_box(refused.to_string())),
    }
}

fn specs() -> Border {
    // Aliases may expand to a thousand values, each as long as the text.
    Border::new(ROOT, "spec", Form::Yaml)
        .with([Seed::new("example", operation::spec::EXAMPLE)])
        .within(Limits { base: 512 * 1024, per_byte: 1_024, turnover: 4 })
}

#[test]
fn hostile_spec_is_read_or_refused() {
    specs().holds(spec);
}

#[test]
fn spec_is_read_in_linear_time() {
    let head = "service: a\nfrom: 1\nto: 2\nrelease: {tag: t, sha256: \
                0000000000000000000000000000000000000000000000000000000000000000}\n";
    let schema = format!("{head}schema:\n  database: {{from_env: A}}\n  migrations: m\n");
    let shapes = [
        Shape::repeated("approvals", &format!("{head}approvals: ["), "roll, ", "roll]\n"),
        Shape::repeated("steps", &format!("{head}strategy: {{canary: {{steps: ["), "1, ", "rest]}}\n"),
        Shape::repeated("sharing services", &format!("{schema}  shared_with:\n"), "    s{n}: 1\n", ""),
        Shape::repeated("empty services", &format!("{schema}  empty: ["), "s{n}, ", "z]\n"),
        Shape::repeated("sessions", &format!("{schema}  allow_sessions: ["), "s{n}, ", "z]\n"),
        Shape::repeated("endpoints", &format!("{schema}  endpoints:\n"), "    - {from_env: E{n}}\n", ""),
        Shape::repeated("unknown fields", head, "f{n}: 1\n", ""),
        Shape::repeated("comments", head, "# {n}\n", ""),
        Shape::repeated("nested lists", head, "[", ""),
        Shape::repeated("questions", head, "? ", ""),
        Shape::repeated("tags", head, "!x ", ""),
        Shape::repeated("escapes", &format!("{head}failure_domain: \""), "\\u00e9", "\"\n"),
        Shape::made("aliases of a long session", move |bytes| {
            let long = "x".repeat(bytes / 2);
            format!("{schema}  allow_sessions: [&a {long}, {}*a]\n", "*a, ".repeat(bytes / 10)).into_bytes()
        }),
    ];
    specs().grows_linearly(3_900, &shapes, spec);
}

/// How many calls one coordinator gets: what they leave in its store must not count as their own memory.
const CALLS: u32 = 500;

/// How long a stream is read that has no end of its own, and how long an answer is waited for.
const STREAM: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_millis(50);

/// A coordinator that leads, with three instances, on one thread, so that all it allocates is counted.
struct Fixture {
    runtime: Runtime,
    open: RefCell<Option<Open>>,
    calls: Cell<u32>,
    patience: Duration,
}

struct Open {
    _embedded: Embedded,
    _herd: crate::herd::Herd,
    coordinator: Coordinator,
    grpc: Routes,
    http: Router,
}

fn token() -> Token {
    Token::of_header(b"Bearer tgt_operator_of-the-fuzzed-house").unwrap()
}

/// A line with the method, and its message, as the request that gRPC makes of it.
fn grpc_request(call: &[u8]) -> Option<Request<tonic::body::Body>> {
    let at = call.iter().position(|b| *b == b'\n')?;
    let message = &call[at + 1..];
    let mut body = vec![0];
    body.extend_from_slice(&u32::try_from(message.len()).ok()?.to_be_bytes());
    body.extend_from_slice(message);
    Request::post(&call[..at])
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", "Bearer tgt_operator_of-the-fuzzed-house")
        .body(tonic::body::Body::new(Full::new(Bytes::from(body)).map_err(|never| match never {})))
        .ok()
}

async fn opened() -> Open {
    let (embedded, coordinator, herd) = world(3).await;
    coordinator.start_upgrade(&world_spec(""), "u1").await.unwrap();
    let context = coordinator.context.clone();
    let guard = Guard::new(context.mirror.clone(), Some(&token()));
    let services = grpc::services(&context, &Peers::default());
    let http = api::router(context, services.clone(), guard.clone());
    let grpc = grpc::guarded(services, guard);
    let corpus = std::path::Path::new(ROOT).join("tests/corpus/grpc");
    for method in ["Releases.CreateRelease", "Metadata.SetMetadata"] {
        let call = std::fs::read(corpus.join(method)).unwrap();
        let answered = grpc.clone().oneshot(grpc_request(&call).unwrap()).await.unwrap();
        assert!(!answered.headers().contains_key("grpc-status"), "{method}: {:?}", answered.headers());
    }
    Open { _embedded: embedded, _herd: herd, coordinator, grpc, http }
}

impl Fixture {
    fn new(patience: Duration) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, open: RefCell::default(), calls: Cell::new(0), patience }
    }

    /// Runs a call in an open house: another one now and then.
    fn run(&self, call: impl AsyncFnOnce(&Open)) {
        let open = self.open.take();
        let open = match open.filter(|_| !self.calls.get().is_multiple_of(CALLS)) {
            Some(open) => open,
            None => self.runtime.block_on(opened()),
        };
        self.calls.set(self.calls.get() + 1);
        self.runtime.block_on(async {
            call(&open).await;
            assert!(open.coordinator.context.led_here().is_some(), "it leads no more");
        });
        self.open.replace(Some(open));
    }

    /// A line with the method, and its message. Answers the status that came at once, where one did.
    fn grpc(&self, call: &[u8]) -> Option<String> {
        let request = grpc_request(call)?;
        let mut status = None;
        self.run(async |open| {
            let answering = open.grpc.clone().oneshot(request);
            // Some answers wait for what agents and turns do next; callers may leave before.
            let Ok(response) = tokio::time::timeout(self.patience, answering).await else { return };
            let response = response.unwrap();
            let header = response.headers().get("grpc-status");
            status = header.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            // A watch goes on for as long as its client listens.
            let _ = tokio::time::timeout(STREAM, response.into_body().collect()).await;
        });
        status
    }

    /// A request of HTTP/1.1, to which the length of its body is added where it does not say one. Answers what came back.
    fn http(&self, request: &[u8]) -> Vec<u8> {
        let mut answered = Vec::new();
        let blank = b"\r\n\r\n";
        let end = request.windows(4).position(|at| at == blank).map_or(request.len(), |at| at + 2);
        let (head, body) = (&request[..end], &request[(end + 2).min(request.len())..]);
        let said = String::from_utf8_lossy(head).to_ascii_lowercase();
        let mut sent = head.to_vec();
        if !said.contains("content-length") && !said.contains("transfer-encoding") {
            sent.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        if !said.contains("authorization") {
            sent.extend_from_slice(b"Authorization: Bearer tgt_operator_of-the-fuzzed-house\r\n");
        }
        sent.extend_from_slice(b"\r\n");
        sent.extend_from_slice(body);
        self.run(async |open| {
            let (client, server) = tokio::io::duplex(sent.len() + 1);
            let peer = ConnectInfo(Peer { address: ([127, 0, 0, 1], 1).into(), shown: Shown::Nothing });
            let router = open.http.clone();
            let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
                request.extensions_mut().insert(peer.clone());
                router.clone().oneshot(request)
            });
            let served =
                http1::Builder::new().half_close(true).serve_connection(TokioIo::new(server), service);
            let (mut answers, mut requests) = tokio::io::split(client);
            let asked = async {
                requests.write_all(&sent).await.unwrap();
                requests.shutdown().await.unwrap();
                let mut answer = Vec::new();
                let _ = answers.read_to_end(&mut answer).await;
                answer
            };
            let exchange = async { tokio::join!(served, asked) };
            let Ok((_, answer)) = tokio::time::timeout(self.patience, exchange).await else { return };
            assert!(!answer.starts_with(b"HTTP/1.1 500"), "{}", String::from_utf8_lossy(&answer));
            answered = answer;
        });
        answered
    }
}

/// A turn, the mirror and three simulated agents may run beside a call, and an answer may hold what the store holds.
const LIMITS: Limits = Limits { base: 16 << 20, per_byte: 512, turnover: 8 };

#[test]
fn hostile_grpc_call_is_answered_or_refused() {
    let fixture = Fixture::new(PATIENCE);
    Border::new(ROOT, "grpc", Form::Call).within(LIMITS).holds(|call| drop(fixture.grpc(call)));
}

#[test]
fn hostile_http_request_is_answered_or_refused() {
    let fixture = Fixture::new(PATIENCE);
    Border::new(ROOT, "http", Form::Http).within(LIMITS).holds(|request| drop(fixture.http(request)));
}

#[test]
fn every_file_of_the_corpus_gets_past_the_guard() {
    let fixture = Fixture::new(PATIENCE);
    let corpus = |name: &str| Seed::all_in(&std::path::Path::new(ROOT).join("tests/corpus").join(name));
    for Seed { name, bytes } in corpus("grpc") {
        let status = fixture.grpc(&bytes).unwrap_or_default();
        assert!(!["12", "16"].contains(&status.as_str()), "{name} ended with status {status}");
    }
    for Seed { name, bytes } in corpus("http") {
        let answer = fixture.http(&bytes);
        let answer = String::from_utf8_lossy(&answer);
        let line = answer.lines().next().unwrap_or_default();
        let refused = ["", "HTTP/1.1 401", "HTTP/1.1 405"];
        assert!(
            !refused.iter().any(|status| line == *status || line.starts_with(&format!("{status} "))),
            "{name}: {line}"
        );
    }
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value as u8) | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A call with some of its fields, each a text under its number.
fn call(method: &str, fields: &[(usize, String)]) -> Vec<u8> {
    let mut call = format!("/tidegate.v1.{method}\n").into_bytes();
    for (number, text) in fields {
        call.extend(varint((number << 3) | 2));
        call.extend(varint(text.len()));
        call.extend(text.as_bytes());
    }
    call
}

/// A field of a call.
fn text(number: usize, text: &str) -> (usize, String) {
    (number, text.to_owned())
}

/// About so many bytes of the same, numbered.
fn many(each: &str, bytes: usize) -> String {
    (0..bytes / (each.len() + 2)).map(|n| each.replace("{n}", &n.to_string())).collect()
}

#[test]
fn grpc_call_is_answered_in_linear_time() {
    let fixture = Fixture::new(LIMIT);
    let release = |manifest: &str| {
        let body = format!("{{\"version\":9,\"tag\":\"t\",\"manifest\":{{{manifest}\"z\":1}},\"nope\":1}}");
        call("Releases/CreateRelease", &[text(1, "compute"), (2, body)])
    };
    let shapes = [
        Shape::made("settings of a release", move |bytes| release(&many("\"s{n}\":1,", bytes))),
        Shape::made("equal settings of a release", move |bytes| release(&many("\"s\":1,", bytes))),
        Shape::made("a release that is nested", move |bytes| {
            release(&format!("\"a\":{}", "[".repeat(bytes)))
        }),
        Shape::made("members of a group", move |bytes| {
            let body = format!("{{\"document\":{{}},\"instances\":[{}\"z\"]}}", many("\"n{n}\",", bytes));
            call("Metadata/SetMetadata", &[text(1, "wide"), (2, body)])
        }),
        Shape::made("what an approval accepts", move |bytes| {
            let accepts = (0..bytes / 12).map(|n| (5, format!("session:{n}")));
            let head = [text(1, "u1"), text(2, "contract"), text(3, "go")];
            call("Operator/ApproveUpgrade", &head.into_iter().chain(accepts).collect::<Vec<_>>())
        }),
        Shape::made("witnesses to disregard", move |bytes| {
            let named: Vec<_> = (0..bytes / 14).map(|n| (1, format!("pantry/n{n}"))).collect();
            call("Operator/PlanReconciliation", &named)
        }),
        Shape::made("counts of what runs", move |bytes| {
            let count = |n: usize| {
                let tag = format!("t{n}");
                (2, format!("\n{}{tag}\x10\x01", char::from(u8::try_from(tag.len()).unwrap())))
            };
            let head = std::iter::once(text(1, "compute"));
            call("Releases/ReportRunning", &head.chain((0..bytes / 10).map(count)).collect::<Vec<_>>())
        }),
        Shape::made("overrides of settings", move |bytes| {
            let overrides = format!("{{{}\"z\":\"1\"}}", many("\"s{n}\":\"1\",", bytes));
            call(
                "Releases/ReleaseSettings",
                &[text(1, "compute"), text(3, "t"), text(6, "replica"), (7, overrides)],
            )
        }),
        Shape::made("a spec in a call", move |bytes| {
            let spec = format!("{}approvals: [{}roll]\n", world_spec(""), many("roll, ", bytes));
            call("Operator/PreviewUpgrade", &[(1, spec), text(2, "u3")])
        }),
        Shape::made("a long reason", move |bytes| {
            call("Operator/PauseUpgrade", &[text(1, "u1"), (2, "\u{e9}".repeat(bytes / 2))])
        }),
    ];
    let border = Border::new(ROOT, "grpc", Form::Call).within(LIMITS);
    border.grows_linearly(3_900, &shapes, |call| drop(fixture.grpc(call)));
}

/// A request with a body of JSON.
fn put(path: &str, body: &str) -> Vec<u8> {
    format!("PUT {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\r\n{body}").into_bytes()
}

#[test]
fn http_request_is_answered_in_linear_time() {
    const API: &str = "/management/api/v2";
    let fixture = Fixture::new(LIMIT);
    let get = |path: String, headers: String| {
        format!("GET {path} HTTP/1.1\r\nHost: h\r\n{headers}\r\n").into_bytes()
    };
    let stream = |body: String| put(&format!("{API}/streams/compute"), &body);
    let running = |body: String| put(&format!("{API}/compute_releases/running"), &body);
    let group = |body: String| put("/v1/groups/wide/metadata?why=new", &body);
    let shapes = [
        Shape::made("unknown fields of a stream", move |bytes| {
            stream(format!("{{{}\"z\":1}}", many("\"f{n}\":1,", bytes)))
        }),
        Shape::made("a body that is nested", move |bytes| stream(format!("{{\"a\":{}", "[".repeat(bytes)))),
        Shape::made("counts of what runs", move |bytes| {
            running(format!("{{\"counts\":{{{}\"z\":1}}}}", many("\"t{n}\":1,", bytes)))
        }),
        Shape::made("members of a group", move |bytes| {
            group(format!("{{\"document\":{{}},\"instances\":[{}\"z\"]}}", many("\"n{n}\",", bytes)))
        }),
        Shape::made("a document", move |bytes| {
            group(format!("{{\"document\":{{{}\"z\":1}}}}", many("\"f{n}\":[1,\"\\u00e9\"],", bytes)))
        }),
        Shape::made("no JSON", move |bytes| group("\u{e9}".repeat(bytes / 2))),
        Shape::made("query parameters", move |bytes| {
            get(format!("{API}/compute_releases?stream=compute{}", many("&q{n}=%41", bytes)), String::new())
        }),
        Shape::made("a path", move |bytes| {
            get(format!("/v1/upgrades/{}", "a/".repeat(bytes / 2)), String::new())
        }),
        Shape::made("a header", move |bytes| {
            get("/v1/upgrades".to_owned(), format!("Accept: {}\r\n", many("a{n};q=1,", bytes)))
        }),
        Shape::made("headers", move |bytes| get("/v1/upgrades".to_owned(), many("X-{n}: 1\r\n", bytes))),
    ];
    let border = Border::new(ROOT, "http", Form::Http).within(LIMITS);
    border.grows_linearly(3_900, &shapes, |request| drop(fixture.http(request)));
}
