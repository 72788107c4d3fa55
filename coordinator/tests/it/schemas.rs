//! The JSON Schemas of what people write: those that are checked in, and the examples that they accept.

mod reference;

use crate::process::{run, tidegate};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn printed(of: &str) -> Json {
    let said = run(tidegate().args(["spec", "schema", of]));
    assert_eq!(said.code, 0, "{said:?}");
    let path = root().join("docs/schemas").join(format!("{of}.json"));
    if std::env::var_os("TIDEGATE_WRITE_SCHEMAS").is_some() {
        std::fs::write(&path, &said.out).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == said.out,
        "docs/schemas/{of}.json is not what is printed: run this with TIDEGATE_WRITE_SCHEMAS=1"
    );
    serde_json::from_str(&said.out).unwrap()
}

#[test]
fn example_spec_is_valid_and_a_misspelt_field_is_not() {
    let schema = jsonschema::draft202012::new(&printed("spec")).unwrap();
    let example = run(tidegate().args(["spec", "new"])).out;
    let spec: Json = serde_saphyr::from_str(&example).unwrap();
    if let Err(error) = schema.validate(&spec) {
        panic!("{error} in {spec:#}");
    }
    for wrong in ["min_in_servce: 1", "max_unavailable: \"0%\"", "approvals: [lunch]", "drain: {settle: 6}"] {
        let text: String = example
            .lines()
            .filter(|line| !line.starts_with(wrong.split(':').next().unwrap()))
            .map(|line| format!("{line}\n"))
            .collect();
        let spec: Json = serde_saphyr::from_str(&format!("{text}{wrong}\n")).unwrap();
        assert!(!schema.is_valid(&spec), "{wrong}");
    }
}

#[test]
fn every_migration_of_the_corpus_is_valid() {
    let schema = jsonschema::draft202012::new(&printed("migration")).unwrap();
    let directories = ["migrations/tests/corpus/migration", "grenade-tests/sample/migrations"];
    let files = directories.iter().flat_map(|directory| std::fs::read_dir(root().join(directory)).unwrap());
    let mut count = 0;
    for path in
        files.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "toml"))
    {
        let migration: Json = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        if let Err(error) = schema.validate(&migration) {
            panic!("{}: {error}", path.display());
        }
        count += 1;
    }
    assert!(count > 3, "{count}");
    let wrong: Json = toml::from_str(
        "id = \"x\"\nversion = 1\nold_reads_migrated = false\n[expand]\nsteps = [{ add_colum = {} }]",
    )
    .unwrap();
    assert!(!schema.is_valid(&wrong));
}

#[test]
fn reference_of_the_files_is_the_one_checked_in() {
    let mut text = "# Reference of the files\n\nMade from the JSON Schemas in [schemas](schemas), which editors use to complete and check a file: `tidegate spec schema`, `tidegate spec schema migration`, `tidegate-agent schema`. A field that is not listed is refused.\n\n".to_owned();
    for (title, file) in
        [("Spec (YAML)", "spec"), ("Agent (TOML)", "agent"), ("Migration (TOML)", "migration")]
    {
        let schema = std::fs::read_to_string(root().join(format!("docs/schemas/{file}.json"))).unwrap();
        text.push_str(&reference::of(title, &serde_json::from_str(&schema).unwrap()));
    }
    let path = root().join("docs/reference.md");
    if std::env::var_os("TIDEGATE_WRITE_SCHEMAS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == text,
        "docs/reference.md is not made from docs/schemas: run this with TIDEGATE_WRITE_SCHEMAS=1"
    );
}

#[test]
fn a_man_page_is_written_for_each_command() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man");
    let said = run(tidegate().arg("man").arg(&pages));
    assert_eq!(said.code, 0, "{said:?}");
    let page = std::fs::read_to_string(pages.join("tidegate-upgrade-start.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("dry"), "{page}");
}
