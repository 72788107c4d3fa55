//! The gate files that are checked in, and the JSON Schema of all gate files.

use std::path::{Path, PathBuf};
use std::process::Command;

use grenade_tests::gate::file;
use grenade_tests::gate::machine::RunContext;
use grenade_tests::world::program;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn said(arguments: &[&str]) -> String {
    let said = Command::new(program::own("grenade").unwrap()).args(arguments).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn every_gate_file_is_taken_and_valid() {
    let printed = said(&["schema"]);
    let path = root().join("docs/schemas/gate.json");
    if std::env::var_os("TIDEGATE_WRITE_SCHEMAS").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == printed,
        "docs/schemas/gate.json is not what is printed: run this with TIDEGATE_WRITE_SCHEMAS=1"
    );
    let schema = jsonschema::draft202012::new(&serde_json::from_str(&printed).unwrap()).unwrap();
    let mut texts = vec![("grenade init".to_owned(), said(&["init"]))];
    for entry in std::fs::read_dir(root().join("grenade-tests/gates")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            file::load(&path).unwrap();
            texts.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(texts.len() >= 5, "{texts:?}");
    for (name, text) in &texts {
        let gate: Value = serde_saphyr::from_str(text).unwrap();
        if let Err(error) = schema.validate(&gate) {
            panic!("{name}: {error} at {}", error.instance_path());
        }
    }
    let wrong: Value = serde_saphyr::from_str(&texts[0].1.replace("ready: /ready", "redy: /ready")).unwrap();
    assert!(!schema.is_valid(&wrong));
}

/// A ledger of 30 seconds in which every answer took five milliseconds.
fn ledger(path: &Path) {
    let columns = "seq,scheduled_ms,sent_ms,first_ms,done_ms,own_ms,kind,status,outcome,node,version,written_by,bytes,\
                   connection,reason";
    let line = |n: u32| {
        let at = f64::from(n) * 5.0;
        format!("{n},{at},{at},{at},{},0,read,200,ok,node-1,1,,9,fresh,\n", at + 5.0)
    };
    let lines: String = (0..6_000).map(line).collect();
    std::fs::write(path, format!("{columns}\n{lines}")).unwrap();
}

#[test]
fn compare_says_what_it_needs_and_names_bad_input() {
    let room = tempfile::tempdir().unwrap();
    let file = |name: &str| room.path().join(name);
    ledger(&file("twin.csv"));
    ledger(&file("upgraded.csv"));
    let compare = |drains: &str, twin: &str| {
        std::fs::write(file("drains"), drains).unwrap();
        let mut command = Command::new(program::own("grenade").unwrap());
        command.arg("compare").arg(file(twin)).arg(file("upgraded.csv")).arg("--drains").arg(file("drains"));
        let said = command.output().unwrap();
        let text = [said.stdout, said.stderr].concat();
        (said.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, said) = compare("1000\n2000.5\n", "twin.csv");
    assert_eq!(code, Some(2), "{said}");
    for part in ["INCONCLUSIVE", "6 whole blocks; 12 are needed", "2 drains; 20 are needed"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (code, said) = compare("1000\n99000\n", "twin.csv");
    assert!(code == Some(3) && said.contains("99000 ms is after the end of"), "{said}");
    let (code, said) = compare("1000\n", "upgraded.csv");
    assert!(code == Some(3) && said.contains("both the twin and the upgraded pool"), "{said}");
    // As many requests; one failed, in the upgraded pool alone.
    let bad = std::fs::read_to_string(file("upgraded.csv")).unwrap();
    std::fs::write(file("upgraded.csv"), bad.replacen("200,ok", "500,failed", 1)).unwrap();
    let (code, said) = compare("1000\n", "twin.csv");
    assert!(code == Some(1) && said.contains("1 of 6000 failed; first: read 0"), "{said}");
    // Half as long: nothing is the same load.
    let half: String = bad.lines().take(3_000).map(|line| format!("{line}\n")).collect();
    std::fs::write(file("upgraded.csv"), half).unwrap();
    let (code, said) = compare("1000\n", "twin.csv");
    assert!(code == Some(2) && said.contains("2999 requests in 15 s, 6000 to the twin in 30 s"), "{said}");
    let (code, said) = compare("1000\nsoon\n", "twin.csv");
    assert!(code == Some(3) && said.contains("drains:2: `soon` is no time"), "{said}");
    let (code, said) = compare("1000\n", "nowhere.csv");
    assert!(code == Some(3) && said.contains("nowhere.csv"), "{said}");
}

#[test]
fn calibrate_refuses_a_load_by_command() {
    let room = tempfile::tempdir().unwrap();
    let mut command = Command::new(program::own("grenade").unwrap());
    command.arg("calibrate").arg(root().join("grenade-tests/gates/command-load.yaml"));
    let said = command.arg("--artifacts").arg(room.path().join("artifacts")).output().unwrap();
    let text = String::from_utf8(said.stderr).unwrap();
    assert!(
        said.status.code() == Some(3) && text.contains("what `load.command` sends cannot be repeated"),
        "{text}"
    );
    assert!(!room.path().join("artifacts").exists());
}

/// Before anything is started, and beside it: which tags the asserted one presupposes.
#[test]
fn every_mix_without_rolling_is_refused_with_its_place() {
    let room = tempfile::tempdir().unwrap();
    let text = said(&["init"]);
    let tags = text.lines().find(|line| line.starts_with("tags:")).unwrap();
    let line = text.lines().position(|line| line == tags).unwrap() + 1;
    std::fs::write(room.path().join("gate.yaml"), text.replace(tags, "tags: [zero-impact]")).unwrap();
    let mut command = Command::new(program::own("grenade").unwrap());
    command.args(["run", "gate.yaml", "--every-mix"]).current_dir(room.path());
    let refused = command.output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(3), "{said}");
    for part in [
        "tags: --every-mix tries every frozen mix for the tag rolling",
        "tags: zero-impact presupposes zero-downtime,",
    ] {
        let expected = format!("grenade: gate.yaml:{line}:1: {part}");
        assert!(said.contains(&expected), "{expected}: {said}");
    }
    assert!(!room.path().join("grenade-artifacts").exists());
}

#[test]
fn help_names_exit_codes_and_examples() {
    let help = said(&["--help"]);
    for part in ["run", "check", "init", "Exit codes:", "inconclusive", "130", "grenade run gate.yaml"] {
        assert!(help.contains(part), "{part}: {help}");
    }
    assert!(said(&["completion", "bash"]).contains("grenade"));
    let run = said(&["run", "--help"]);
    for option in ["--artifacts", "--junit", "--json", "--max-time", "--on-inconclusive"] {
        assert!(run.contains(option), "{option}: {run}");
    }
}

#[test]
fn calibration_of_another_gate_is_refused_before_any_start() {
    let room = tempfile::tempdir().unwrap();
    let (file, artifacts) = (room.path().join("calibration.json"), room.path().join("artifacts"));
    let rates =
        serde_json::json!({"runs": 1, "pass": 1, "inconclusive": 0, "fail": 0, "fail_part": [0.0, 0.9]});
    let former = serde_json::json!({
        "form": 1, "gate": "another one", "rate": 200, "seconds": 60.0, "idle_pairs": rates, "simulated": [],
        "smallest_p99_shift_percent": 5.0, "rivals": [],
    });
    let mut calibration = former.clone();
    (calibration["form"], calibration["looks"]) = (3.into(), 3.into());
    calibration["context"] = serde_json::to_value(RunContext::over_after(std::time::Duration::ZERO)).unwrap();
    for (document, says) in [
        (calibration.to_string(), "is of `another one` at 200"),
        (
            former.to_string(),
            "has form 1, and its figures are of a judge with other margins or other looks; form 3 is read",
        ),
        ("{}".to_owned(), "is no document of"),
    ] {
        std::fs::write(&file, document).unwrap();
        let mut command = Command::new(program::own("grenade").unwrap());
        command.arg("run").arg(root().join("grenade-tests/gates/items.yaml")).arg("--calibration").arg(&file);
        let said = command.arg("--artifacts").arg(&artifacts).output().unwrap();
        let text = String::from_utf8(said.stderr).unwrap();
        assert!(said.status.code() == Some(3) && text.contains(says), "{text}");
        assert!(!artifacts.exists());
    }
}

#[test]
fn stderr_that_is_full_changes_no_exit_code() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut check = Command::new(program::own("grenade").unwrap());
    let status = check.args(["check", "/nowhere/gate.yaml"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(3));
}
