//! A gate whose artifacts are on a file system of their own, which becomes full while it runs.

use std::process::Command;

use grenade_tests::world::{Spawn, program};

use super::gate_job::{LIMIT, contains, gate};
use crate::rig::Rig;

/// `sh FILE DIRECTORY WHEN GRENADE GATE`: mounts a file system in the directory, runs the gate with its artifacts there, and
/// fills it once the file exists. The mount is seen here only, and ends with the last process.
const RUN: &str = r#"
mount -t tmpfs -o size=96m none "$1" || exit 99
( until [ -e "$1/a/$2" ]; do sleep 0.1; done; head -c 200m /dev/zero >"$1/fill" ) 2>/dev/null &
filler=$!
"$3" run "$4" --artifacts "$1/a"
code=$?
kill $filler 2>/dev/null
wait
ls "$1/a/report.json" 2>/dev/null
exit $code
"#;

/// Runs a gate and fills the disk when this file is there; what was said.
async fn filled_at(when: &str) -> String {
    let rig = Rig::new();
    let (script, file, disk) =
        (rig.world.path("run.sh"), rig.world.path("gate.yaml"), rig.world.path("disk"));
    std::fs::write(&script, RUN).unwrap();
    std::fs::write(&file, gate()).unwrap();
    std::fs::create_dir(&disk).unwrap();
    let spawn = Spawn::new("grenade", &program::outside("unshare").unwrap());
    let spawn = match rustix::process::geteuid().is_root() {
        true => spawn.arg("--mount"),
        false => spawn.args(["--user", "--map-root-user", "--mount"]),
    };
    let spawn = spawn.args(["sh".as_ref(), script.as_os_str(), disk.as_os_str(), when.as_ref()]);
    let mut process = rig.world.spawn(spawn.arg(program::own("grenade").unwrap()).arg(&file)).unwrap();
    let status = process.wait(LIMIT).await.unwrap();
    let said = std::fs::read_to_string(process.log()).unwrap();
    assert_eq!(status.code(), Some(4), "{said}");
    let artifacts = disk.join("a").display().to_string();
    contains(
        &said,
        &[&artifacts, "KiB left", "need at least 4096 KiB at any time: free some, or name another directory"],
    );
    assert!(!said.contains("report.json") && !said.contains("FAIL"), "{said}");
    // Every process of it names its directory.
    let left = Command::new("pgrep").arg("-f").arg(&artifacts).output().unwrap();
    assert!(left.stdout.is_empty(), "left running: {}", String::from_utf8_lossy(&left.stdout));
    said
}

#[tokio::test]
async fn disk_that_is_full_in_a_frozen_mix_is_no_verdict() {
    filled_at("requests-mix_2_1.csv").await;
}

#[tokio::test]
async fn disk_that_is_full_in_the_upgrade_is_no_verdict() {
    filled_at("upgrade.yaml").await;
}
