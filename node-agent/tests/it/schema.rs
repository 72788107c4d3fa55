//! The JSON Schema of the configuration.

use serde_json::Value as Json;
use std::path::Path;
use std::process::Command;

fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate-agent")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn schema_is_the_one_checked_in_and_accepts_the_example() {
    let text = printed(&["schema"]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas/agent.json");
    if std::env::var_os("TIDEGATE_WRITE_SCHEMAS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == text,
        "docs/schemas/agent.json is not what is printed: run this with TIDEGATE_WRITE_SCHEMAS=1"
    );
    let schema = jsonschema::draft202012::new(&serde_json::from_str(&text).unwrap()).unwrap();
    let example = printed(&["init"]);
    let config: Json = toml::from_str(&example).unwrap();
    if let Err(error) = schema.validate(&config) {
        panic!("{error} in {config:#}");
    }
    let wrong: Json = toml::from_str(&example.replace("lease_ttl", "lease_tl")).unwrap();
    assert!(!schema.is_valid(&wrong));
}
