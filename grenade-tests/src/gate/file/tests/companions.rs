use super::{GOOD, findings};
use crate::gate::file::parse;
use std::path::Path;

const COMPANION: &str = r#"
companions:
  - service:
      name: mirror
      base: {number: 4, command: [mirror-4, "{port}"]}
      target: {number: 5, command: [mirror-5, "{port}"]}
      version: {path: /}
      ready: /
"#;

/// The example with a companion, to which one step goes.
fn with_companion() -> String {
    let steps = GOOD.replace("    - name: list\n", "    - name: list\n      to: mirror\n");
    let called = steps.replacen("--version, \"1\"", "--version, \"1\", --mirror, \"{url_mirror}\"", 1);
    format!("{called}{COMPANION}")
}

#[test]
fn companion_is_a_gate_that_shares_the_rest() {
    let gate = parse(&with_companion(), Path::new("gate.yaml"), Path::new("/")).unwrap();
    let companion = &gate.companions[0];
    assert_eq!((gate.node(1).as_str(), companion.node(2).as_str()), ("items-1", "mirror-2"));
    assert_eq!((companion.instances, companion.service.target.number.get()), (3, 5));
    assert!(companion.database.is_none(), "it shares the database");
    let steps = &gate.script.unwrap().steps;
    assert_eq!(steps.iter().filter(|step| step.to.as_deref() == Some("mirror")).count(), 1);
}

#[test]
fn companion_that_is_wrong_is_named_with_its_place() {
    for (old, new, begin, expected) in [
        (
            "to: mirror",
            "to: miror",
            "to: miror",
            "load.steps[3].to: `miror` is no companion; the companions are: mirror",
        ),
        (
            "      name: mirror",
            "      name: items",
            "name: items\n      base: {",
            "companions[0].service.name: `items` is the name at service.name too",
        ),
        (
            "number: 5",
            "number: 7",
            "target: {number: 7",
            "companions[0].service.target.number: 7 after 4 skips versions 5 to 6",
        ),
        (
            "[mirror-5, \"{port}\"]",
            "[mirror-5]",
            "command: [mirror-5]",
            "companions[0].service.target.command: has neither {port}",
        ),
        (
            "[mirror-4, ",
            "[mirror-4, \"{url_mirror}\", ",
            "command: [mirror-4",
            "`{url_mirror}` is not known here",
        ),
        (
            "rolling, ",
            "",
            "companions:",
            "companions: are upgraded in each order for the tag rolling; add it",
        ),
        (
            "rolling, ",
            "rolling, zero-impact, ",
            "tags:",
            "tags: zero-impact compares two pools of one service",
        ),
        (
            "      ready: /\n",
            "      ready: /\n    instances: 1\n",
            "instances: 1\n",
            "companions.0.instances: `1` is not allowed; a whole number from 2 to 24 is",
        ),
        (
            "      ready: /\n",
            "      ready: /\n    schema: {migrations: .}\n",
            "schema: {migrations",
            "companions[0].schema.migrations: is not allowed for a companion",
        ),
    ] {
        let text = with_companion();
        assert!(text.contains(old), "{old}");
        let text = text.replace(old, new);
        let said = findings(&text);
        assert!(said.lines().any(|line| line.contains(expected)), "{new}: {said}");
        let line = said.lines().find(|line| line.contains(expected)).unwrap();
        let offset = text.rfind(begin).unwrap();
        let number = text[..offset].matches('\n').count() + 1;
        assert!(line.starts_with(&format!("gate.yaml:{number}:")), "{new}: {number}: {line}");
    }
}
