//! What is recorded about pairs of versions, and what waits for it: a compute release that goes out once a compatibility
//! suite has passed, an upgrade that leaves preflight once a gate job's report is recorded.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use grenade_tests::world::{Spawn, coordinator, program};
use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::fleet::{Fleet, Ground, LIMIT, Said, run};
use crate::region::{Ground as RegionGround, Region};

/// `grenade …` with a coordinator's address and token.
fn grenade(coordinator: &str, token: Option<&Path>, dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program::own("grenade").unwrap());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TIDEGATE_")) {
        command.env_remove(name);
    }
    // As variables, for what follows `--` is the suite.
    command.env("TIDEGATE_COORDINATOR", coordinator).env("USER", "op").current_dir(dir).args(args);
    if let Some(token) = token {
        command.env("TIDEGATE_TOKEN_FILE", token);
    }
    command
}

impl Fleet {
    async fn grenade(&self, args: &[&str]) -> Said {
        let token = coordinator::token_file(&self.rig.world).unwrap();
        let url = format!("http://{}", self.coordinators[0].plan.grpc);
        run(grenade(&url, Some(&token), self.rig.world.dir(), args)).await
    }

    async fn compat(&self, more: &[&str], suite: &str) -> Said {
        let pair = ["compat", "--compute-tag", "release-1", "--storage-tag", "pantry-1.0.0"];
        self.grenade(&[&pair, more, &["--", "sh", "-c", suite]].concat()).await
    }

    async fn matrix(&self) -> Value {
        let said = self.grenade(&["matrix", "--json"]).await;
        assert_eq!(said.code, Some(0), "{said:#?}");
        serde_json::from_str(&said.out).unwrap()
    }

    fn sha256(&self, tag: &str) -> String {
        let artifact = std::fs::read(self.rig.world.path("artifacts").join(tag).join("pantry")).unwrap();
        hex::encode(Sha256::digest(artifact))
    }

    /// A report as `grenade run` writes it; its path.
    fn report(&self, zero_downtime: &str) -> PathBuf {
        let tag = |tag: &str, verdict: &str| json!({"tag": tag, "verdict": verdict, "checks": [{"check": "c", "verdict": verdict, "found": "f"}]});
        let report = json!({
            "form": 1, "gate": "pantry", "service": "pantry-api", "from": 1, "to": 2, "verdict": zero_downtime,
            "tags": [tag("rolling", "pass"), tag("zero-downtime", zero_downtime)], "seconds": 12.5,
        });
        let path = self.rig.world.path("report.json");
        std::fs::write(&path, report.to_string()).unwrap();
        path
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_goes_out_once_its_compatibility_suite_has_passed() {
    let fleet = Fleet::on(Ground { instances: 1, ..Ground::SMALL }).await;
    let create = ["release", "create", "--version", "1", "--tag", "release-1", "--requires", "pantry-api=1"];
    fleet.must(&[&create[..], &["--needs-evidence"]].concat()).await;
    let words = "no evidence that release-1 works with pantry-1.0.0, which is in use";
    fleet.until(words, &["release", "explain", "1"], |said| said.out.contains(words)).await;
    let advice = "next step: grenade compat --compute-tag release-1 --storage-tag pantry-1.0.0 -- COMMAND";
    let explained = fleet.must(&["release", "explain", "1"]).await;
    assert!(explained.contains(advice), "{explained}");
    let pair = fleet.matrix().await["pairs"][0].clone();
    assert_eq!(pair["verdict"], Value::Null, "{pair:#}");
    assert_eq!(pair["waiting"], json!([{"stream": "compute", "revision": 1}]), "{pair:#}");

    let failed = fleet.compat(&[], "echo it broke; exit 3").await;
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    assert!(failed.out.contains("| it broke") && failed.out.contains("exit status 3"), "{failed:#?}");
    let pair = fleet.matrix().await["pairs"][0].clone();
    assert_eq!((&pair["verdict"], pair["waiting"].as_array().map(Vec::len)), (&json!("fail"), Some(1)));

    let suite =
        "test \"$TIDEGATE_COMPUTE_TAG/$TIDEGATE_STORAGE_TAG\" = release-1/pantry-1.0.0 && echo 412 tests";
    let log = fleet.rig.world.path("suite.log");
    let passed = fleet.compat(&["--json", "--log", log.to_str().unwrap()], suite).await;
    assert_eq!(passed.code, Some(0), "{passed:#?}");
    let shown: Value = serde_json::from_str(&passed.out).unwrap();
    assert_eq!((&shown["verdict"], &shown["recorded"]), (&json!("pass"), &json!(true)), "{shown:#}");
    assert_eq!(shown["warnings"], json!([]), "both tags are known");
    let written = std::fs::read(&log).unwrap();
    assert_eq!(String::from_utf8_lossy(&written), "412 tests\n");
    assert_eq!(shown["log_sha256"], hex::encode(Sha256::digest(&written)));

    let deployed = |said: &Said| said.out.contains("\"status\":\"deployed\"");
    fleet.until("it is deployed", &["--json", "release", "show", "1"], deployed).await;
    let pair = fleet.matrix().await["pairs"][0].clone();
    assert_eq!((&pair["log_sha256"], &pair["waiting"]), (&shown["log_sha256"], &json!([])), "{pair:#}");
    let text = fleet.grenade(&["matrix"]).await.out;
    assert!(text.contains("pantry-1.0.0") && text.contains("pass"), "{text}");
    let listed = fleet.must(&["release", "matrix"]).await;
    assert!(listed.contains("release-1  pantry-1.0.0  pass     1 fail"), "{listed}");

    // The log whose digest is recorded is overwritten by no other run.
    let refused = fleet.compat(&["--log", log.to_str().unwrap()], "touch ran").await;
    assert_eq!(refused.code, Some(3), "{refused:#?}");
    assert!(refused.err.contains("exists, and may be the log of a recorded verdict"), "{refused:#?}");
    assert!(std::fs::read(&log).unwrap() == written && !fleet.rig.world.path("ran").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrade_leaves_preflight_once_the_gates_report_is_recorded() {
    let fleet = Fleet::on(Ground::SMALL).await;
    let gated = "requires_gate: [{tag: zero-downtime, from: 1, to: 2}]\napprovals: [expand]";
    let spec = fleet.spec_file(&fleet.spec(gated));
    let dry = fleet.ask(&["upgrade", "start", &spec, "--dry-run"]).await;
    assert_eq!(dry.code, Some(3), "{dry:#?}");
    assert!(dry.out.contains("blocks   the upgrade waits in preflight: the spec requires"), "{dry:#?}");
    fleet.upgrade(gated).await;
    let (from, to) = (fleet.sha256("pantry-1.0.0"), fleet.sha256("pantry-2.0.0"));
    let command = format!("grenade record report.json --from-sha256 {from} --to-sha256 {to}");
    fleet.waits_for(&["no verdict is recorded: zero-downtime of pantry-api", &command]).await;

    let (base, target) = (["--from-sha256", from.as_str()], ["--to-sha256", to.as_str()]);
    let report = fleet.report("fail").to_str().unwrap().to_owned();
    let record = [&["record", &report], &base[..], &target].concat();
    let other = "0".repeat(63) + "1";
    let cases: [(Vec<&str>, &str); 6] = [
        ([&["record", "nowhere.json"], &base[..], &target].concat(), "`grenade run` writes report.json"),
        ([&record[..], &["--tag", "supports-upgrade"]].concat(), "it has: rolling, zero-downtime"),
        ([&record[..], &["--tag", "zero-errors"]].concat(), "is not an upgrade tag"),
        ([&["record", &report], &base[..]].concat(), "--to-sha256"),
        ([&["record", &report, "--from-sha256", "12"], &target[..]].concat(), "is not a sha256"),
        ([&["record", &spec], &base[..], &target].concat(), "is no report of a gate"),
    ];
    for (args, says) in cases {
        let said = fleet.grenade(&args).await;
        assert_eq!((said.code, said.err.contains(says)), (Some(3), true), "{args:?}: {said:#?}");
    }
    // A fail is recorded, and so is a pass of other artifacts; neither lets the upgrade go on.
    assert_eq!(fleet.grenade(&record).await.code, Some(0));
    fleet.waits_for(&["the recorded verdict is fail"]).await;
    fleet.report("pass");
    let others = [&["record", &report, "--from-sha256", &other], &target[..]].concat();
    assert_eq!(fleet.grenade(&others).await.code, Some(0));
    fleet.waits_for(&["the recorded verdict is fail"]).await;

    let artifact = fleet.rig.world.path("artifacts/pantry-1.0.0/pantry");
    let computed =
        [&["record", &report, "--from-artifact", artifact.to_str().unwrap()], &target[..]].concat();
    let said = fleet.grenade(&computed).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    assert!(said.out.contains("pass          zero-downtime of pantry-api from 1"), "{said:#?}");
    fleet.waits_for(&["phase expand requires a manual approval"]).await;
    fleet.approve("expand").await;
    fleet.accept_sessions().await;
    fleet.completed().await;
    assert_eq!(fleet.must(&["--json", "upgrade", "gates", "pantry-api"]).await.lines().count(), 4);
}

/// The earlier verdict, its log and who recorded it are kept, whichever run ends first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_suites_of_one_pair_at_once_keep_verdicts_and_logs() {
    let region = Region::of(RegionGround::Embedded, 0, |_, _| String::new()).await;
    let token = coordinator::token_file(&region.rig.world).unwrap();
    let url = format!("http://{}", region.coordinator.plan.grpc);
    region.json(&["release", "matrix"]);
    let dir = region.rig.world.dir().to_owned();
    let suite = async |text: &str, code: u8| {
        let meets = format!("touch {text}; until [ -e one ] && [ -e two ]; do sleep 0.05; done");
        let suite = format!("{meets}; echo {text}; exit {code}");
        let pair = ["compat", "--compute-tag", "c-1", "--storage-tag", "s-1", "--json", "--max-time", "20s"];
        let args = [&pair[..], &["--", "sh", "-c", &suite]].concat();
        let said = run(grenade(&url, Some(&token), &dir, &args)).await;
        let shown: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:#?}"));
        let log = std::fs::read_to_string(dir.join(shown["log"].as_str().unwrap())).unwrap();
        assert_eq!((log.as_str(), &shown["recorded"]), (format!("{text}\n").as_str(), &json!(true)));
        assert_eq!(shown["log_sha256"], hex::encode(Sha256::digest(&log)));
        shown
    };
    let (failed, passed) = tokio::join!(suite("one", 1), suite("two", 0));
    assert_eq!((&failed["verdict"], &passed["verdict"]), (&json!("fail"), &json!("pass")));
    let pairs = region.json(&["release", "matrix"]);
    let [pair] = pairs.as_slice() else { panic!("{pairs:#?}") };
    let [earlier] = pair["earlier"].as_array().unwrap().as_slice() else { panic!("{pair:#}") };
    let (last, first) = match pair["verdict"] == "fail" {
        true => (&failed, &passed),
        false => (&passed, &failed),
    };
    assert_eq!((&pair["verdict"], &pair["log_sha256"]), (&last["verdict"], &last["log_sha256"]), "{pair:#}");
    assert_eq!(
        (&earlier["verdict"], &earlier["sha256"], &earlier["note"]),
        (&first["verdict"], &first["log_sha256"], &first["note"]),
        "{pair:#}"
    );
    assert!(earlier["who"].as_str().unwrap().contains("op"), "{pair:#}");
    // The history of the fleet has both, with the digests of their logs.
    let history = region.json(&["fleet", "history"]);
    for shown in [&failed, &passed] {
        let words = format!(
            "c-1 with s-1: {} (log sha256 {})",
            shown["verdict"].as_str().unwrap(),
            shown["log_sha256"].as_str().unwrap()
        );
        assert_eq!(history.iter().filter(|event| event["to"] == words.as_str()).count(), 1, "{history:#?}");
    }
}

/// Nothing is recorded of a suite that did not run to an end of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suite_that_cannot_be_run_records_nothing() {
    let region = Region::of(RegionGround::Embedded, 0, |_, _| String::new()).await;
    let token = coordinator::token_file(&region.rig.world).unwrap();
    let url = format!("http://{}", region.coordinator.plan.grpc);
    // Until a coordinator leads.
    region.json(&["release", "matrix"]);
    let dir = region.rig.world.dir().to_owned();
    let pair = ["compat", "--compute-tag", "c-1", "--storage-tag", "s-1"];
    let odd = ["compat", "--compute-tag", "../c", "--storage-tag", "s-1", "--", "true"];
    let (nowhere, token) = ("http://127.0.0.1:1", token.as_path());
    let cases: [(&str, Vec<&str>, i32, &str); 7] = [
        (&url, odd.to_vec(), 3, "\"../c\" is not a release tag"),
        (&url, pair.to_vec(), 3, "COMMAND"),
        (&url, [&pair[..], &["--max-time", "0s", "--", "true"]].concat(), 3, "no time"),
        (
            &url,
            [&pair[..], &["--log", "/nowhere/log", "--", "true"]].concat(),
            3,
            "could not write /nowhere/log",
        ),
        (&url, [&pair[..], &["--", "/nowhere/suite"]].concat(), 4, "could not start /nowhere/suite"),
        (nowhere, [&pair[..], &["--", "touch", "ran"]].concat(), 4, "no coordinator answers"),
        ("ftp://x", [&pair[..], &["--", "touch", "ran"]].concat(), 3, "is no URL of a coordinator"),
    ];
    for (url, args, code, says) in cases {
        let said = run(grenade(url, Some(token), &dir, &args)).await;
        assert_eq!((said.code, said.err.contains(says)), (Some(code), true), "{args:?}: {said:#?}");
    }
    assert!(!dir.join("ran").exists(), "a suite of which nothing could be recorded was not started");
    assert_eq!(region.json(&["release", "matrix"]), [] as [Value; 0]);

    // Ctrl-C ends the suite and what it started, also what left its group.
    let spawn = Spawn::new("grenade", &program::own("grenade").unwrap())
        .env("TIDEGATE_COORDINATOR", &url)
        .env("TIDEGATE_TOKEN_FILE", token)
        .env("USER", "op")
        .dir(&dir)
        .args(pair)
        .args(["--", "sh", "-c", "echo begun > begun; setsid sleep 987 & sleep 987"]);
    let mut process = region.rig.world.spawn(spawn).unwrap();
    region.until("the suite runs", |_| dir.join("begun").exists()).await;
    process.signal(Signal::INT).unwrap();
    let status = process.wait(LIMIT).await.unwrap();
    assert_eq!(status.code(), Some(130), "{}", process.tail());
    assert!(process.tail().contains("nothing is recorded"), "{}", process.tail());
    assert_eq!(region.json(&["release", "matrix"]), [] as [Value; 0]);
    let left = Command::new("pgrep").args(["-f", "^sleep 987$"]).output().unwrap();
    assert!(left.stdout.is_empty(), "left running: {}", String::from_utf8_lossy(&left.stdout));

    // What is not over in time fails, and is ended.
    let began = Instant::now();
    let late = [&pair[..], &["--max-time", "300ms", "--", "sleep", "986"]].concat();
    let said = run(grenade(&url, Some(token), &dir, &late)).await;
    assert_eq!(said.code, Some(1), "{said:#?}");
    assert!(said.out.contains("not over within 300ms (--max-time)"), "{said:#?}");
    assert!(said.err.contains("no instance runs s-1") && began.elapsed() < LIMIT, "{said:#?}");
    assert_eq!(region.json(&["release", "matrix"])[0]["verdict"], "fail");
}
