//! No space for the embedded store. The limit of a file's size, set on the running process, has its writes fail as those
//! to a full file system do (EFBIG in the place of ENOSPC, by the same calls); it needs no privilege and no mount.

use crate::process::Daemon;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// A coordinator that was written to until its store's file could not grow.
struct Full {
    daemon: Daemon,
    store: tempfile::TempDir,
    /// How many groups were answered as stored.
    stored: usize,
}

impl Full {
    fn new() -> Self {
        let store = tempfile::tempdir().unwrap();
        let daemon = Daemon::embedded_in(store.path(), |command, _| {
            command.args(["--leader-ttl", "2s"]);
        });
        let mut full = Self { daemon, store, stored: 0 };
        assert!(full.set().starts_with("HTTP/1.1 200"), "there is space");
        let file = full.store.path().join("store.redb");
        full.limit(Some(std::fs::metadata(file).unwrap().len()));
        let began = Instant::now();
        loop {
            let answer = full.set();
            if !answer.starts_with("HTTP/1.1 200") {
                assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("outcome-unknown"), "{answer}");
                return full;
            }
            assert!(began.elapsed() < LIMIT, "the file never grew beyond its limit");
        }
    }

    /// The largest size of a file that the process may write.
    fn limit(&self, bytes: Option<u64>) {
        let pid = Pid::from_raw(i32::try_from(self.daemon.pid()).unwrap());
        prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
    }

    /// Makes one more group with a large document; what was answered.
    fn set(&mut self) -> String {
        let answer = set(&self.daemon, self.stored);
        self.stored += usize::from(answer.starts_with("HTTP/1.1 200"));
        answer
    }

    fn wait_for_readiness(&self, status: &str, word: &str) {
        let began = Instant::now();
        loop {
            let answer = self.daemon.http("/readyz");
            if answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(word) {
                return;
            }
            assert!(began.elapsed() < LIMIT, "not {status} {word:?}: {answer}\n{}", self.daemon.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn set(daemon: &Daemon, number: usize) -> String {
    let token = std::fs::read_to_string(daemon.address("token_file")).unwrap();
    let document = serde_json::json!({"document": {"x": "y".repeat(200_000)}, "instances": ["i-1"]});
    let path = format!("/v1/groups/g-{number}/metadata");
    daemon.request("PUT", &path, Some(token.trim()), &document.to_string())
}

fn has(daemon: &Daemon, number: usize) -> bool {
    let token = std::fs::read_to_string(daemon.address("token_file")).unwrap();
    let path = format!("/v1/groups/g-{number}");
    daemon.request("GET", &path, Some(token.trim()), "").starts_with("HTTP/1.1 200")
}

fn holds_all(daemon: &Daemon, stored: usize) {
    for number in 0..stored {
        assert!(has(daemon, number), "group g-{number} was answered as stored");
    }
}

#[test]
fn full_disk_is_not_ready_and_heals_by_itself() {
    let mut full = Full::new();
    full.wait_for_readiness("503", "no space is left");
    assert!(full.daemon.http("/healthz").starts_with("HTTP/1.1 200"), "no restart would help");
    let answer = full.set();
    assert!(
        answer.starts_with("HTTP/1.1 503") && !answer.contains("outcome-unknown"),
        "nothing was sent: {answer}"
    );
    full.limit(None);
    full.wait_for_readiness("200", "\"leads\":true");
    let (before, answer) = (full.stored, full.set());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(full.stored, before + 1);
    holds_all(&full.daemon, full.stored);
    let Full { daemon, store, stored } = full;
    assert_eq!(daemon.terminate(), Some(0));
    holds_all(&Daemon::embedded_in(store.path(), |_, _| ()), stored);
}

#[test]
fn coordinator_stopped_on_full_disk_keeps_stored_records() {
    let Full { daemon, store, stored } = Full::new();
    assert_eq!(daemon.terminate(), Some(0));
    holds_all(&Daemon::embedded_in(store.path(), |_, _| ()), stored);
}

#[test]
fn store_that_cannot_go_on_ends_the_coordinator_with_an_error() {
    let full = Full::new();
    let gone: &Path = &full.store.path().join("store.redb");
    std::fs::remove_file(gone).unwrap();
    let Full { daemon, store, .. } = full;
    let (code, log) = daemon.ended();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("the embedded store can no longer write to its file"), "{log}");
    drop(store);
}
