//! Faults on real processes: no rule breaks. See `docs/testing.md`.

use std::collections::BTreeSet;
use std::process::{Command, Output};

/// Minutes of the long form.
const MINUTES: &str = "20";
/// Sets the seed of the long form, or its minutes.
const SEED_VARIABLE: &str = "TIDEGATE_NEMESIS_SEED";
const MINUTES_VARIABLE: &str = "TIDEGATE_NEMESIS_MINUTES";

fn nemesis(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate-nemesis")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn end_to_end_upgrade_beside_kills_breaks_no_rule() {
    let kinds = "LeaderKilled,AgentKilled,ServiceKilled,MemberKilled,Compaction";
    let plan = format!("{}/tests/plans/kills.json", env!("CARGO_MANIFEST_DIR"));
    let done = nemesis(&["--plan", &plan, "--minutes", "1"]);
    assert!(done.status.success(), "{}", text(&done));
    let said = text(&done);
    assert!(said.contains("u0: 1 to 2: Completed"), "{said}");
    for kind in kinds.split(',') {
        assert!(said.contains(&format!(" {kind}\n")), "{kind} did not come:\n{said}");
    }
}

#[test]
fn plan_that_is_printed_is_the_plan_of_its_seed() {
    let print = |arguments: &[&str]| {
        let done = nemesis(arguments);
        assert!(done.status.success(), "{}", text(&done));
        done.stdout
    };
    let drawn = print(&["--seed", "5", "--minutes", "3", "--print-plan"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &drawn).unwrap();
    let kept = print(&["--plan", file.path().to_str().unwrap(), "--print-plan"]);
    assert_eq!(String::from_utf8(kept).unwrap(), String::from_utf8(drawn).unwrap());
    let of_any_seed: BTreeSet<Vec<u8>> =
        (0..3).map(|_| print(&["--upgrades", "1", "--print-plan"])).collect();
    assert!(of_any_seed.len() > 1, "without --seed, one plan was drawn three times");
}

#[test]
fn plan_that_cannot_be_read_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"seed\": 1}").unwrap();
    let temporary = tempfile::tempdir().unwrap();
    for more in [&["--print-plan"][..], &[]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-nemesis"));
        command.arg("--plan").arg(file.path()).args(more).env("TMPDIR", temporary.path());
        let done = command.output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{}", text(&done));
        assert!(text(&done).contains("missing field"), "{}", text(&done));
    }
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "a directory was made for it");
}

#[test]
fn kind_that_does_not_exist_is_refused_with_the_kinds() {
    let done = nemesis(&["--only", "LeaderKilled,DiskFul", "--print-plan"]);
    assert_eq!(done.status.code(), Some(2), "{}", text(&done));
    assert!(text(&done).contains("DiskFull, DiskSlow"), "{}", text(&done));
}

#[test]
fn long_nemesis_breaks_no_rule() {
    let set =
        |variable: &str, otherwise: &str| std::env::var(variable).unwrap_or_else(|_| otherwise.to_owned());
    let (minutes, seed) = (set(MINUTES_VARIABLE, MINUTES), set(SEED_VARIABLE, "1"));
    let done = nemesis(&["--minutes", &minutes, "--seed", &seed]);
    println!("{}", text(&done));
    assert!(done.status.success(), "{}", text(&done));
}
