//! The service: this test binary, called again. It writes down each start, answers its version, and obeys a few files
//! beside it: `in-flight` (a number), `unready-VERSION`, `sick-VERSION` (its health URL answers 503), `hang`, `changed-to` (a version), `stubborn` (its health check looks at no file), `go` (ends what is slow).

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable that makes a service of this binary; it names its release's file.
pub(crate) const CONFIG: &str = "TIDEGATE_TEST_SERVICE";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Release {
    version: u32,
    port: u16,
    room: PathBuf,
    disable: PathBuf,
}

pub(crate) fn write_release(path: &Path, version: u32, port: u16, room: &Path, disable: &Path) {
    let release = Release { version, port, room: room.to_owned(), disable: disable.to_owned() };
    std::fs::write(path, serde_json::to_string(&release).unwrap()).unwrap();
}

/// Serves until it is ended by a signal.
pub(crate) fn serve(config: &str) -> ! {
    let release: Release = serde_json::from_str(&std::fs::read_to_string(config).unwrap()).unwrap();
    let mut ledger = OpenOptions::new().append(true).create(true).open(release.room.join("starts")).unwrap();
    ledger.write_all(format!("{} {}\n", release.version, std::process::id()).as_bytes()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", release.port)).await.unwrap();
        let router = Router::new()
            .route("/version", get(version))
            .route("/ready", get(ready))
            .route("/healthcheck", get(healthcheck))
            .route("/in-flight", get(in_flight))
            .route("/slow", get(slow))
            .with_state(release);
        axum::serve(listener, router).await.unwrap();
    });
    std::process::exit(0)
}

async fn version(State(release): State<Release>) -> String {
    while release.room.join("hang").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Code that was changed behind the agent's back.
    let changed = std::fs::read_to_string(release.room.join("changed-to")).unwrap_or_default();
    format!("{{\"version\": {}}}", changed.trim().parse().unwrap_or(release.version))
}

async fn ready(State(release): State<Release>) -> StatusCode {
    let unready = release.room.join(format!("unready-{}", release.version)).exists();
    if unready { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK }
}

async fn slow(State(release): State<Release>) -> &'static str {
    while !release.room.join("go").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    "done"
}

async fn healthcheck(State(release): State<Release>) -> (StatusCode, &'static str) {
    // The file answers before anything else is asked.
    if release.disable.exists() && !release.room.join("stubborn").exists() {
        return (StatusCode::SERVICE_UNAVAILABLE, "DISABLED BY FILE");
    }
    match release.room.join(format!("sick-{}", release.version)).exists() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "DATABASE DOWN"),
        false => (StatusCode::OK, "OK"),
    }
}

async fn in_flight(State(release): State<Release>) -> String {
    let counted = OpenOptions::new().append(true).create(true).open(release.room.join("counted"));
    counted.unwrap().write_all(b".").unwrap();
    std::fs::read_to_string(release.room.join("in-flight")).unwrap_or_else(|_| "0".to_owned())
}

/// How often the requests in flight were counted.
pub(crate) fn counted(room: &Path) -> u64 {
    std::fs::metadata(room.join("counted")).map_or(0, |file| file.len())
}

/// Version and pid of each start that was written down in `room`.
pub(crate) fn starts(room: &Path) -> Vec<(u32, i32)> {
    let text = std::fs::read_to_string(room.join("starts")).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(version, pid)| (version.parse().unwrap(), pid.parse().unwrap()))
        .collect()
}

/// Whether a process is there, and no zombie.
pub(crate) fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Ends a service of `room`, if it is still one: pids are reused.
pub(crate) fn end(pid: i32, room: &Path) {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let ours = String::from_utf8_lossy(&environment).contains(&room.display().to_string());
    if let Some(pid) = rustix::process::Pid::from_raw(pid).filter(|_| ours) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}
