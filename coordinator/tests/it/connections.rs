//! Idle connections, late answers, wrong paths: one caller must not make the doors deaf for others, and each answer over
//! HTTP says what was wrong in one form.

use crate::process::{Daemon, run, tidegate};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// More than there are descriptors.
const IDLE: usize = 300;

fn idle(address: &str) -> Vec<TcpStream> {
    (0..IDLE).map(|_| TcpStream::connect(address).unwrap()).collect()
}

fn answers(daemon: &Daemon) {
    let listed = daemon.ask(&["--call-timeout", "20s", "upgrade", "list"]);
    assert_eq!(listed.code, 0, "gRPC answers: {listed:?}\n{}", daemon.log());
    assert!(daemon.http("/healthz").starts_with("HTTP/1.1 200"), "HTTP answers");
    assert!(daemon.http("/readyz").starts_with("HTTP/1.1 200"), "the store is reached");
}

#[test]
fn idle_connections_beyond_limit_leave_both_doors_open() {
    let daemon = Daemon::with_descriptors(256);
    let http = idle(&daemon.address("http"));
    answers(&daemon);
    let grpc = idle(&daemon.address("grpc"));
    answers(&daemon);
    // Half a head each, which is more than nothing.
    let mut halves = idle(&daemon.address("http"));
    for half in &mut halves {
        // Those that gave way to later ones are closed.
        let _ = half.write_all(b"GET /healthz HTTP/1.1\r\nHo");
    }
    let listed = daemon.ask(&["--call-timeout", "20s", "upgrade", "list"]);
    assert_eq!(listed.code, 0, "gRPC answers: {listed:?}\n{}", daemon.log());
    drop((http, grpc, halves));
    answers(&daemon);
}

#[test]
fn idle_store_connections_leave_room_for_agents_and_doors() {
    let daemon = Daemon::with_descriptors(256);
    let idle = idle(&daemon.address("store"));
    answers(&daemon);
    let beside = Daemon::beside(&daemon);
    assert!(
        beside.http("/readyz").starts_with("HTTP/1.1 200"),
        "another is served by the store: {}",
        beside.log()
    );
    drop(idle);
}

#[test]
fn head_that_is_never_finished_ends_its_connection() {
    let daemon = Daemon::embedded(|_, _| {});
    let mut half = TcpStream::connect(daemon.address("http")).unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHo").unwrap();
    half.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut rest = Vec::new();
    half.read_to_end(&mut rest).expect("it is closed in time");
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"), "{rest:?}");
}

#[test]
fn unfinished_body_is_answered_with_408() {
    let daemon = Daemon::embedded(|_, _| {});
    let token = std::fs::read_to_string(daemon.address("token_file")).unwrap();
    let mut half = TcpStream::connect(daemon.address("http")).unwrap();
    let head = format!(
        "PUT /v1/groups/edge/metadata HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{{",
        token.trim()
    );
    half.write_all(head.as_bytes()).unwrap();
    half.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = String::new();
    half.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("too-slow"), "{answer}");
}

#[test]
fn coordinator_that_does_not_answer_is_given_up_with_code_4() {
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", deaf.local_addr().unwrap());
    let began = Instant::now();
    let said = run(tidegate().args(["--coordinator", &url, "--call-timeout", "500ms", "upgrade", "list"]));
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("did not answer in time") && said.err.contains("--call-timeout"), "{said:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn wrong_path_or_method_is_a_problem_with_details() {
    let daemon = Daemon::embedded(|_, _| {});
    let wrong = [
        ("GET", "/nowhere", 404, "not-found"),
        ("GET", "/v1/nowhere", 404, "not-found"),
        ("DELETE", "/management/api/v2/compute_releases", 405, "method-not-allowed"),
        ("POST", "/healthz", 405, "method-not-allowed"),
        ("POST", "/management/api/v2/compute_releases", 401, "unauthenticated"),
        ("GET", "/v1/groups/edge?x=1", 400, "invalid"),
        ("GET", "/v1/groups/edge", 404, "not-found"),
    ];
    for (method, path, status, word) in wrong {
        let answer = daemon.request(method, path, None, "");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let head = head.to_lowercase();
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{method} {path}: {answer}");
        assert!(head.contains("content-type: application/problem+json"), "{method} {path}: {answer}");
        let details: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(details["status"], status, "{method} {path}: {answer}");
        assert_eq!(details["type"], format!("urn:tidegate:problem:{word}"), "{method} {path}");
        assert!(details["detail"].as_str().is_some_and(|text| !text.is_empty()), "{method} {path}");
        assert_eq!(status == 405, head.contains("allow: "), "{method} {path}: {answer}");
    }
}
