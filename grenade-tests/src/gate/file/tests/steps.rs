use super::{GOOD, findings, place};

#[test]
fn required_field_of_wrong_kind_is_not_missing_too() {
    let body = "json: {name: \"{name}\", colour: \"{colour}\"}}\n";
    assert!(GOOD.contains(body));
    let text = GOOD.replacen(body, "upload: {bytes: 5, over: 2}}\n", 1);
    let said = findings(&text);
    assert!(said.contains("load.steps.0.request.upload.over: \"2\" is not a duration"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn unknown_method_is_the_only_finding() {
    let text = GOOD.replace("method: POST", "method: FE TCH");
    let said = findings(&text);
    let expected = "load.steps[0].request.method: `FE TCH` is no HTTP method; one word is, such as GET, POST, PUT, PATCH or DELETE";
    assert!(said.ends_with(expected), "{said}");
    assert_eq!(said.lines().count(), 1, "what only follows from it is listed: {said}");
}

/// A command beside the steps must not make them look absent.
#[test]
fn step_that_is_wrong_is_still_there_beside_a_command() {
    let command = "rate: 50\n  command: [send, \"{url}\", \"{ledger}\", \"{began_ms}\"]";
    let text = GOOD.replace("method: POST", "method: FE TCH").replace("rate: 50", command);
    let said = findings(&text);
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn survival_step_that_is_wrong_hides_no_variable_of_it() {
    let stages = "survival:\n  create:\n  - {request: {method: FE TCH, path: /items}, keep: {id: /id}}\n  \
                  verify: [{request: {path: \"/items/{id}\"}}]\n";
    let said = findings(&format!("{GOOD}\n{stages}"));
    assert!(said.contains("survival.create[0].request.method: `FE TCH`"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn existing_objects_that_no_step_reads_are_refused() {
    let existing = "load:\n  existing:\n    - kind: thing\n      objects: [{id: \"1\"}]\n";
    let text = GOOD.replacen("load:\n", existing, 1);
    let said = findings(&text);
    let expected = place(&text, "kind: thing")
        + "load.existing[0].kind: no step uses or ends a `thing`, so these objects would never be read; steps use or end: item";
    assert_eq!(said, expected);
    let known = text.replace("kind: thing", "kind: item");
    super::parse(&known, std::path::Path::new("gate.yaml"), std::path::Path::new("/")).unwrap();
}
