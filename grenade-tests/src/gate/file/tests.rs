use super::*;

const GOOD: &str = include_str!("../example.yaml");

fn findings(text: &str) -> String {
    parse(text, Path::new("gate.yaml"), Path::new("/")).expect_err("it was taken").to_string()
}

#[test]
fn the_example_is_a_gate() {
    let gate = parse(GOOD, Path::new("gate.yaml"), Path::new("/")).unwrap();
    assert_eq!((gate.instances, gate.tags.len()), (3, 3));
}

#[test]
fn unknown_field_is_named_with_its_place() {
    let said = findings(&format!("{GOOD}\nload_balancer: nginx\n"));
    assert!(said.starts_with("gate.yaml:") && said.contains("load_balancer"), "{said}");
    let line = GOOD.lines().count() + 2;
    assert!(said.contains(&format!(":{line}:1")), "{said}");
}

/// What is found at the line of the text that begins with `begin`.
fn at(text: &str, begin: &str) -> String {
    let line = text.lines().position(|line| line.trim_start().starts_with(begin)).unwrap();
    let column = text.lines().nth(line).unwrap().find(begin).unwrap();
    format!("gate.yaml:{}:{}: ", line + 1, column + 1)
}

#[test]
fn skipped_level_is_refused_unless_declared() {
    let skips = GOOD.replace("number: 2", "number: 4");
    let said = findings(&skips);
    let expected = at(&skips, "number: 4") + "service.target.number: 4 after 1 skips versions 2 to 3";
    assert!(said.starts_with(&expected) && said.contains("write `skip_level: true` in `service`"), "{said}");
    let declared = skips.replace("ready: /ready", "ready: /ready\n  skip_level: true");
    let service = parse(&declared, Path::new("gate.yaml"), Path::new("/")).unwrap().service;
    assert_eq!(service.skipped().as_deref(), Some("versions 2 to 3"));
    let numbers = [service.base.number, service.target.number].map(|number| service.in_tidegate(number));
    assert_eq!(numbers, [1, 2], "Tidegate accepts one hop only");
    let migrations = format!("{declared}\nschema: {{migrations: .}}\n");
    assert!(findings(&migrations).contains("schema.migrations: is not allowed with `service.skip_level`"));
}

#[test]
fn everything_that_makes_no_sense_is_listed() {
    for (old, new, expected) in [
        ("instances: 3", "instances: 1", "instances: 1 is not allowed"),
        ("rate: 50", "rate: 9999", "load.rate: 9999"),
        ("uses: item", "uses: thing", "no step makes a `thing`"),
        ("\"{port}\"", "\"{prot}\"", "`{prot}` is not known here"),
        ("\"/items/{id}\"", "\"/items/{ib}\"", "`{ib}`"),
        ("ready: /ready", "ready: ready", "`ready` is no path"),
        ("number: 2", "number: 1", "service.target.number: 1 is not above that of the base (1)"),
        (
            "ready: /ready",
            "ready: /ready\n  skip_level: true",
            "service.skip_level: is true, but no version is between",
        ),
        ("name: items\ninst", "name: \"\"\ninst", "name: is empty"),
        ("rate: 50", "rate: 50\n  before: 0s", "load.before: at least"),
        ("ready: /ready", "ready: /ready\n  stop_timeout: 0s", "service.stop_timeout: at least 1s"),
        ("pointer: /version", "pointer: version", "`version` is no JSON pointer"),
        ("--port, \"{port}\", ", "--port, \"80\", ", "has neither {port} nor {address}"),
        ("colour: [red, green]", "colour: []", "is an empty list"),
        ("keep: {id: /id}", "keep: {id: id}", "`id` is no JSON pointer"),
        ("status: [201]", "status: [9999]", "9999 is no final status"),
        ("weight: 5", "weight: 0", "rolling needs a step"),
        ("max_unavailable: 1", "max_unavailble: 1", "unknown field `max_unavailble`"),
        ("max_unavailable: 1", "max_unavailable: 0", "upgrade: max_unavailable"),
        ("max_unavailable: 1", "service: other", "upgrade.service: is filled in by the runner"),
        (
            "json: {name: \"{name}\", colour: \"{colour}\"}",
            "upload: {bytes: 99999999999999, over: 1s}",
            "at most 1073741824",
        ),
    ] {
        assert!(GOOD.contains(old), "{old}");
        let said = findings(&GOOD.replace(old, new));
        assert!(said.contains(expected), "{new}: {said}");
    }
    let tags = GOOD.lines().find(|line| line.starts_with("tags:")).unwrap();
    for (impact, expected) in [
        ("tags: [zero-impact]\nimpact: {rate: 20}", "impact.rate: 20 a second; 40 to 5000 is allowed"),
        ("tags: [zero-impact]\nimpact: {length: 30s}", "impact.length: at least 60 s"),
        ("tags: [zero-impact]\nimpact: {looks: 4}", "impact.looks: 4 looks; 1 to 3"),
        ("tags: [zero-impact]\nimpact: {pools: 2}", "pools"),
        ("tags: [zero-impact]\nprocedure: [\"true\"]", "zero-impact needs 20 drains"),
        (
            "tags: [zero-impact]\nprocedure: [\"true\"]\nimpact: {twin: false}",
            "impact.twin: is needed beside",
        ),
    ] {
        let said = findings(&GOOD.replace(tags, impact));
        assert!(said.contains(expected), "{impact}: {said}");
    }
    let both = findings(&GOOD.replace("instances: 3", "instances: 1").replace("rate: 50", "rate: 0"));
    assert!(both.contains("instances") && both.contains("load.rate"), "{both}");
}
