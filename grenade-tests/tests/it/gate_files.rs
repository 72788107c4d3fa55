//! The gate files that are checked in, and the JSON Schema of all gate files.

use std::path::{Path, PathBuf};
use std::process::Command;

use grenade_tests::gate::file;
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
