//! The file that a balancer follows.

use crate::process::{Daemon, run, tidegate};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::time::{Duration, Instant};

fn until_it_says(file: &Path, tag: &str) -> Json {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        // It is replaced whole: it is never half a file, and before the first release there is none.
        let text = std::fs::read_to_string(file).ok();
        let said: Option<Json> = text.map(|text| serde_json::from_str(&text).unwrap());
        match said {
            Some(said) if said["tag"] == tag => return said,
            said => assert!(Instant::now() < end, "{tag} is not there; last {said:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_balancer_follows_a_file_to_what_is_deployed_now() {
    let daemon = Daemon::embedded(|command, dir| {
        command.arg("--traffic-dir").arg(dir.join("traffic"));
    });
    let file = daemon.dir.path().join("traffic/compute.json");
    for version in ["7", "8"] {
        let tag = format!("release-{version}");
        let create = ["release", "create", "--version", version, "--tag", &tag];
        assert_eq!(daemon.ask(&create).code, 0);
        until_it_says(&file, &tag);
    }
    assert_eq!(daemon.ask(&["release", "rollback", "1", "--why", "slow"]).code, 0);
    let said = until_it_says(&file, "release-7");
    assert_eq!(said, json!({"stream": "compute", "tag": "release-7", "version": 7, "revision": 3}));
}

#[test]
fn a_directory_that_cannot_be_is_said_at_the_start() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    let store = format!("embedded:{}", place.path().join("store").display());
    let args = ["coordinator", "--store", &store, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let said = run(tidegate().args(args).arg("--traffic-dir").arg(&file));
    assert_eq!((said.code != 0, said.err.contains("--traffic-dir")), (true, true), "{said:?}");
}
