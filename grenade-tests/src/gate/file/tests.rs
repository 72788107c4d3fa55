mod companions;
mod databases;
mod environment;
mod limits;
mod steps;
mod tags;
mod upgrade;

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

/// What is found at this part of the text.
fn place(text: &str, part: &str) -> String {
    let at = text.find(part).unwrap();
    let line_begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    format!("gate.yaml:{}:{}: ", text[..at].matches('\n').count() + 1, at - line_begin + 1)
}

/// What is replaced in the good gate file, by what, where that begins, and what is found there.
const VALUES_OF_ANOTHER_KIND: &[(&str, &str, &str, &str)] = &[
    (
        "instances: 3",
        "instances: three",
        "instances: three",
        "instances: `three` is not allowed; a whole number from 2 to 24 is",
    ),
    (
        "instances: 3",
        "instances: -1",
        "instances: -1",
        "instances: `-1` is not allowed; a whole number from 2 to 24 is",
    ),
    (
        "instances: 3",
        "instances: 2.5",
        "instances: 2.5",
        "instances: `2.5` is not allowed; a whole number from 2 to 24 is",
    ),
    (
        "instances: 3",
        "instances: [3]",
        "instances: [3]",
        "instances: a list is not allowed; a whole number from 2 to 24 is",
    ),
    (
        "instances: 3",
        "instances: {a: 3}",
        "instances: {a",
        "instances: a mapping is not allowed; a whole number from 2 to 24 is",
    ),
    (
        "instances: 3",
        "instances:",
        "instances:",
        "instances: an empty value is not allowed; a whole number from 2 to 24 is",
    ),
    ("instances: 3", "instances: 3\ninstances: 4", "instances: 4", "the key `instances` is there twice"),
    ("name: items\n", "name: [items]\n", "name: [items]", "name: a list is not allowed; a single value is"),
    ("name: items\n", "name: {a: items}\n", "name: {a", "name: a mapping is not allowed; a single value is"),
    (
        "keep_alive: 0.5",
        "keep_alive: half",
        "keep_alive: half",
        "load.keep_alive: `half` is not allowed; a number is",
    ),
    (
        "ready: /ready",
        "ready: /ready\n  skip_level: maybe",
        "skip_level: maybe",
        "service.skip_level: `maybe` is not allowed; true or false is",
    ),
    (
        "ready: /ready",
        "ready: /ready\n  start_timeout: soon",
        "start_timeout: soon",
        "service.start_timeout: \"soon\" is not a duration",
    ),
    (
        "ready: /ready",
        "ready: /ready\n  start_timeout: 5",
        "start_timeout: 5",
        "service.start_timeout: \"5\" is not a duration",
    ),
    (
        "ready: /ready",
        "ready: /ready\n  start_timeout: [5s]",
        "start_timeout: [5s]",
        "service.start_timeout: a list is not allowed; a single value is",
    ),
    ("  ready: /ready\n", "", "service:", "service.ready: missing field `ready`"),
    (
        "  ready: /ready\n",
        "  redy: /ready\n",
        "redy: /ready",
        "service.redy: unknown field `redy`; allowed are name, base, target, ",
    ),
    (
        "balancer: built-in",
        "balancer: nginx",
        "balancer: nginx",
        "balancer: `nginx` is not allowed; one of `built-in`, `haproxy` is",
    ),
    (
        "weight: 5",
        "weight: heavy",
        "weight: heavy",
        "load.steps.1.weight: `heavy` is not allowed; a whole number from 0 to ",
    ),
    (
        "status: [201]",
        "status: 201",
        "status: 201",
        "load.steps.0.expect.status: `201` is not allowed; a list is",
    ),
    (
        "status: [201]",
        "status: [created]",
        "created], json",
        "load.steps.0.expect.status.0: `created` is not allowed; a whole number from 200 to 599 is",
    ),
    (
        "  - {base: 2, target: 1}",
        "  - [2, 1]",
        "[2, 1]",
        "arrangements.0: a list is not allowed; a mapping (`key: value`) is",
    ),
];

#[test]
fn value_of_wrong_kind_has_its_place_and_what_is_allowed() {
    for (old, new, begin, expected) in VALUES_OF_ANOTHER_KIND {
        assert!(GOOD.contains(old), "{old}");
        let text = GOOD.replacen(old, new, 1);
        let line = text.lines().position(|line| line.contains(begin)).unwrap();
        let column = text.lines().nth(line).unwrap().find(begin).unwrap();
        let expected = format!("gate.yaml:{}:{}: {expected}", line + 1, column + 1);
        let said = findings(&text);
        assert!(said.lines().any(|found| found.starts_with(&expected)), "{expected}\n{said}");
    }
}

#[test]
fn section_of_another_kind_is_named_with_its_place() {
    let sections = |name: &str, value: &str| {
        let (before, after) = GOOD.split_once(&format!("\n{name}:")).unwrap();
        let rest = after.split_once("\n\n").unwrap().1;
        (format!("{before}\n{name}: {value}\n\n{rest}"), before.matches('\n').count() + 2)
    };
    for (name, value, expected) in [
        ("database", "sqlite", "database: `sqlite` is not allowed; a mapping (`key: value`) is"),
        ("load", "[1]", "load: a list is not allowed; a mapping (`key: value`) is"),
    ] {
        let (text, line) = sections(name, value);
        let said = findings(&text);
        let expected = format!("gate.yaml:{line}:1: {expected}");
        assert!(said.lines().any(|found| found.starts_with(&expected)), "{expected}\n{said}");
    }
    assert!(findings("instances: [").starts_with("gate.yaml:"), "{}", findings("instances: ["));
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
        ("instances: 3", "instances: 1", "instances: `1` is not allowed; a whole number from 2 to 24 is"),
        ("rate: 50", "rate: 9999", "load.rate: `9999` is not allowed; a whole number from 1 to 5000 is"),
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
        ("status: [201]", "status: [9999]", "`9999` is not allowed; a whole number from 200 to 599 is"),
        ("weight: 5", "weight: 0", "rolling needs a step"),
        ("max_unavailable: 1", "max_unavailble: 1", "unknown field `max_unavailble`"),
        ("max_unavailable: 1", "max_unavailable: 0", "upgrade.max_unavailable: is 0"),
        ("max_unavailable: 1", "service: other", "upgrade.service: is filled in by the runner"),
        (
            "json: {name: \"{name}\", colour: \"{colour}\"}",
            "upload: {bytes: 99999999999999, over: 1s}",
            "a whole number from 0 to 1073741824 is",
        ),
    ] {
        assert!(GOOD.contains(old), "{old}");
        let said = findings(&GOOD.replace(old, new));
        assert!(said.contains(expected), "{new}: {said}");
    }
    let tags = GOOD.lines().find(|line| line.starts_with("tags:")).unwrap();
    for (impact, expected) in [
        (
            "tags: [zero-impact]\nimpact: {rate: 20}",
            "impact.rate: `20` is not allowed; a whole number from 40 to 5000 is",
        ),
        ("tags: [zero-impact]\nimpact: {length: 30s}", "impact.length: at least 60 s"),
        (
            "tags: [zero-impact]\nimpact: {looks: 4}",
            "impact.looks: `4` is not allowed; a whole number from 1 to 3 is",
        ),
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

/// The example with this survival check.
fn surviving(stages: &str) -> String {
    format!("{GOOD}\nsurvival:\n{stages}")
}

#[test]
fn survival_is_commands_or_steps_that_know_what_create_kept() {
    let stages = "  create:\n  - {request: {method: POST, path: /items}, keep: {id: /id}}\n  \
                  verify: [{request: {path: \"/items/{id}?{run}\"}, keep: {seen: /n}}, [check, \"{id}\", \"{seen}\", \"{url}\"]]\n  \
                  down: [look, \"{id}\"]\n  destroy: [[one, \"{id}\"], [two]]\n";
    let gate = parse(&surviving(stages), Path::new("gate.yaml"), Path::new("/")).unwrap();
    let survival = gate.survival.unwrap();
    let counts =
        [&survival.create, &survival.verify, &survival.down, &survival.verify_after, &survival.destroy];
    assert_eq!(counts.map(Vec::len), [1, 2, 1, 0, 2]);
}

#[test]
fn survival_that_is_wrong_is_named_with_its_place() {
    let make = "  create: [{request: {method: POST, path: /items}, keep: {id: /id}}]\n";
    for (stages, place, expected) in [
        ("  verify: [look, \"{ib}\"]\n", "verify:", "survival.verify: `{ib}` is not known here; allowed: "),
        (
            "  verify:\n  - request: {path: \"/items/{ib}\"}\n",
            "request: {path: \"/items/{ib}",
            "survival.verify[0]: `{ib}` is not known here; allowed: {id}, {run}",
        ),
        (
            "  verify: [look]\n  down:\n  - request: {path: \"/items/{id}\"}\n",
            "request: {path: \"/items/{id}",
            "survival.down[0]: is an HTTP step, but no instance runs in this stage",
        ),
        (
            "  verify: [look]\n  down: [look, \"{url}\"]\n",
            "down:",
            "survival.down: `{url}` is not known here",
        ),
        ("  verify: []\n", "verify:", "survival.verify: is empty"),
        (
            "  verify:\n  - look\n  - request: {path: /items}\n",
            "look",
            "survival.verify[0]: `look` is a word, and not a command or a step",
        ),
        (
            "  verify:\n  - request: {path: /items}\n    keep: {url: /url}\n",
            "keep: {url",
            "survival.verify[0].keep: `url` has a meaning of its own",
        ),
        ("  verify:\n  - request: {path: items}\n", "path: items", "`items` does not begin with `/`"),
        ("  verify:\n  - reqest: {path: /items}\n", "reqest", "unknown field `reqest`"),
        ("  verify: [look, 3]\n", "3]", "a word of a command in quotes"),
    ] {
        let text = surviving(&format!("{make}{stages}"));
        let said = findings(&text);
        let after = text.find("survival:\n").unwrap() + make.len();
        let (before, rest) = text.split_at(after + text[after..].find(place).unwrap());
        let line = before.lines().count() + usize::from(before.ends_with('\n'));
        let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1) + 1;
        assert!(
            said.starts_with(&format!("gate.yaml:{line}:{column}: ")),
            "{place} is at {line}:{column}: {said}\n{rest}"
        );
        assert!(said.contains(expected), "{stages}: {said}");
    }
}

/// The example with another load and other tags.
fn loaded(load: &str, tags: &str) -> String {
    let (before, after) = GOOD.split_once("\nload:\n").unwrap();
    let (_, after) = after.split_once("\n# faults:").unwrap();
    let (after, _) = after.split_once("\ntags:").unwrap();
    format!("{before}\nload:\n{load}\n# faults:{after}\ntags: [{tags}]\n")
}

const COMMAND: &str = "  command: [send, \"{url}\", \"{ledger}\", \"{began_ms}\"]";

#[test]
fn load_by_command_needs_no_steps() {
    let text = loaded(COMMAND, "zero-downtime");
    let gate = parse(&text, Path::new("gate.yaml"), Path::new("/")).unwrap();
    assert!(gate.script.is_none() && gate.load_command.is_some());
    let survives =
        format!("{}survival: {{create: [make], verify: [look]}}\n", loaded(COMMAND, "supports-upgrade"));
    parse(&survives, Path::new("gate.yaml"), Path::new("/")).unwrap();
}

#[test]
fn unjudgeable_load_by_command_is_refused_with_its_place() {
    let partial = "  command: [send, \"{url}\", \"{ledger}\"]";
    let steps = "  steps: [{name: get, request: {path: /items}}]";
    for (load, tags, begin, expected) in [
        (partial, "zero-downtime", "command: [send", "load.command: has no {began_ms}: the Unix time"),
        (&format!("{COMMAND}\n  rate: 50"), "zero-downtime", "rate: 50", "load.rate: is for `steps`"),
        (COMMAND, "rolling", "tags:", "tags: rolling needs `load.steps`"),
        (COMMAND, "supports-upgrade", "tags:", "tags: supports-upgrade needs resources that are read again"),
        (COMMAND, "zero-impact", "tags:", "tags: zero-impact sends the same requests to two pools"),
        (steps, "zero-downtime", "load:", "load.rate: is missing"),
        (
            &COMMAND.replace("began_ms", "began"),
            "zero-downtime",
            "command: [send",
            "load.command: `{began}` is not known here",
        ),
    ] {
        let text = loaded(load, tags);
        let said = findings(&text);
        let expected = at(&text, begin) + expected;
        assert!(said.lines().any(|line| line.contains(&expected)), "{expected}\n{said}");
    }
}

#[test]
fn documented_steps_are_kept_and_bad_ones_have_their_place() {
    let good = format!("{GOOD}\ndocumented: [tidegate upgrade start … --id …]\n");
    let gate = parse(&good, Path::new("gate.yaml"), Path::new("/")).unwrap();
    assert_eq!(gate.documented.unwrap().steps(), ["tidegate upgrade start … --id …"]);
    for (written, begin, expected) in [
        ("documented: []", "documented", "documented: is empty; at least one command is needed"),
        ("documented:\n- start\n- …", "…", "documented[1]: `…` names no command"),
        ("documented: start", "documented", "documented: "),
    ] {
        let text = format!("{GOOD}\n{written}\n");
        let said = findings(&text);
        let line = text.lines().position(|line| line.starts_with("documented")).unwrap() + 1;
        let line = line + usize::from(begin == "…") * 2;
        assert!(said.starts_with(&format!("gate.yaml:{line}:")) && said.contains(expected), "{said}");
    }
}
