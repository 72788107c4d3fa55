//! A gate job as a process, and what it left.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use grenade_tests::world::{Process, Spawn, program};
use serde_json::Value;

use crate::rig::Rig;

/// How long a gate may take on a busy machine.
pub(super) const LIMIT: Duration = Duration::from_secs(180);
/// What a gate of one run looks like: the example's own, on a smaller fleet and for a shorter time.
const GATE: &str = include_str!("../../../gates/items.yaml");

pub(super) fn gate() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates");
    let gate = GATE.replace("{here}", &here.display().to_string());
    shortened(&gate).replace("rollback_from: [roll]\n", "")
}

/// A gate of the examples on a smaller fleet and for a shorter time.
pub(super) fn shortened(gate: &str) -> String {
    let short = gate.replacen("\nload:\n", "\nload:\n  before: 1s\n  after: 1s\n  mixed: 4s\n", 1);
    // This machine runs other tests beside: how much of it is left is not what is tested.
    short.replace("instances: 3", "instances: 2\nhost: {cpu_pressure: 100, lag: 5s}")
}

/// A fault in the command of one of the versions.
pub(super) fn with_fault(version: u32, fault: &str) -> String {
    let command = format!("--version, \"{version}\"");
    assert!(gate().contains(&command));
    gate().replace(&command, &format!("{command}, --fault, {fault}"))
}

pub(super) struct Gate {
    pub(super) process: Process,
    rig: Rig,
}

/// What it left.
pub(super) struct Done {
    pub(super) code: Option<i32>,
    pub(super) said: String,
    pub(super) artifacts: PathBuf,
    rig: Rig,
}

impl Gate {
    pub(super) fn start(text: &str) -> Self {
        let rig = Rig::new();
        let junit = rig.world.path("junit.xml").display().to_string();
        Self::verb(rig, "run", text, &["--junit", &junit])
    }

    pub(super) fn verb(rig: Rig, verb: &str, text: &str, more: &[&str]) -> Self {
        Self::spawned(rig, verb, text, |spawn| spawn.args(more))
    }

    /// `grenade run`, with the checkouts of commits in a directory of the test.
    pub(super) fn with_cache(rig: Rig, text: &str, cache: &Path) -> Self {
        Self::spawned(rig, "run", text, |spawn| spawn.env("XDG_CACHE_HOME", cache))
    }

    fn spawned(rig: Rig, verb: &str, text: &str, with: impl FnOnce(Spawn) -> Spawn) -> Self {
        let file = rig.world.path("gate.yaml");
        std::fs::write(&file, text).unwrap();
        let spawn = Spawn::new("grenade", &program::own("grenade").unwrap()).arg(verb).arg(&file);
        let spawn = with(spawn.arg("--artifacts").arg(rig.world.path("artifacts")));
        Self { process: rig.world.spawn(spawn).unwrap(), rig }
    }

    pub(super) async fn ends(self) -> Done {
        self.ends_within(LIMIT).await
    }

    pub(super) async fn ends_within(mut self, limit: Duration) -> Done {
        let status = self.process.wait(limit).await.unwrap();
        let said = std::fs::read_to_string(self.process.log()).unwrap();
        let artifacts = self.rig.world.path("artifacts");
        // Every process of it names its directory.
        let left = Command::new("pgrep").arg("-f").arg(&artifacts).output().unwrap();
        assert!(left.stdout.is_empty(), "left running: {}", String::from_utf8_lossy(&left.stdout));
        Done { code: status.code(), said, artifacts, rig: self.rig }
    }
}

pub(super) async fn done(text: &str) -> Done {
    Gate::start(text).ends().await
}

impl Done {
    /// Where it ran, for another run.
    pub(super) fn rig(self) -> Rig {
        self.rig
    }

    pub(super) fn report(&self) -> Value {
        let text = std::fs::read_to_string(self.artifacts.join("report.json"));
        serde_json::from_str(&text.unwrap_or_else(|e| panic!("{e}\n{}", self.said))).unwrap()
    }

    /// What was found where a tag failed.
    pub(super) fn failed(&self, tag: &str) -> String {
        let report = self.report();
        assert_eq!(self.code, Some(1), "{}", self.said);
        let judged = report["tags"].as_array().unwrap().iter().find(|judged| judged["tag"] == tag).unwrap();
        assert_eq!(judged["verdict"], "fail", "{judged:#}");
        let checks = judged["checks"].as_array().unwrap().iter().filter(|check| check["verdict"] == "fail");
        checks.map(|check| format!("{}: {}\n", check["check"], check["found"])).collect()
    }
}

/// The place of the field whose line begins so, as errors name it; of several, the one after this text.
pub(super) fn place(text: &str, after: &str, field: &str) -> String {
    let begin = text.find(after).unwrap();
    let at = begin + text[begin..].find(field).unwrap();
    let line_begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    format!("gate.yaml:{}:{}: ", text[..at].matches('\n').count() + 1, at - line_begin + 1)
}

pub(super) fn contains(found: &str, all: &[&str]) {
    for part in all {
        assert!(found.contains(part), "`{part}` is not in\n{found}");
    }
}
