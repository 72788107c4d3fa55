//! Hostile certificates and manifests.

use serde_json::Value as Json;
use tidegate_fuzz::{Border, Counting, Form, Limits, Shape};
use tidegate_planner::certificate::{Sealed, check, joined};
use tidegate_planner::release::manifest;
use tidegate_planner::release::settings::{Asked, Outside, Role, resolve};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Verifies a text as `tidegate certificate verify` does, and its conditions also where the digest is wrong.
fn certificate(bytes: &[u8]) {
    let Ok(sealed) = serde_json::from_slice::<Sealed>(bytes) else { return };
    let found = check(&sealed.certificate);
    std::hint::black_box(joined(&found));
    match sealed.verify() {
        Ok(()) => assert!(found.is_empty(), "it is taken for true, and {found:?}"),
        Err(why) => drop(std::hint::black_box(why.to_string())),
    }
    // What is written of it is read as the same certificate, so that the digest of a stored text can be checked.
    let text = sealed.certificate.text();
    assert_eq!(
        serde_json::from_str::<tidegate_planner::certificate::Certificate>(&text).unwrap(),
        sealed.certificate
    );
}

fn certificates() -> Border {
    // A session that may not stay is three bytes of a list and some hundred bytes of help.
    Border::new(ROOT, "certificate", Form::Json).within(Limits {
        base: 64 * 1024,
        per_byte: 128,
        turnover: 8,
    })
}

#[test]
fn hostile_certificate_is_verified_or_refused() {
    certificates().holds(certificate);
}

#[test]
fn certificate_is_verified_in_linear_time() {
    let whole = include_str!("certificate_of_one_endpoint.json");
    let at = |mark: &str| {
        let at = whole.find(mark).unwrap() + mark.len();
        (whole[..at].to_owned(), whole[at..].trim_end().to_owned().leak() as &'static str)
    };
    let ((instances, after_instances), (sessions, after_sessions)) =
        (at("\"instances\":{"), at("{\"proved\":["));
    let ((required, after_required), (allowed, _)) = (at("\"required\":{"), at("\"allowed_sessions\":["));
    let shapes = [
        Shape::repeated(
            "instances",
            &instances,
            "\"m{n}\":{\"admission\":1,\"admitted\":1,\"report\":1,\"reported\":null,\"report_admission\":1,\"acknowledged\":1},",
            after_instances,
        ),
        Shape::repeated(
            "sessions",
            &sessions,
            "{\"name\":\"s{n}\",\"kind\":\"session\",\"pid\":1},",
            after_sessions,
        ),
        Shape::repeated("services", &required, "\"s{n}\":1,", after_required),
        Shape::repeated(
            "allowed sessions",
            &allowed,
            "\"s{n}\",",
            "\"z\"]},\"digest\":\"43d14983d9d189ac6cc128b0d0f276a58e0d57a8f7170e03fe01906ec6a1e0b2\"}",
        ),
    ];
    certificates().grows_linearly(4_000, &shapes, certificate);
}

/// A manifest comes as a file of YAML, or as a part of a JSON body: whose keys may be as long as the body.
fn settings(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match manifest::read(text) {
        Ok(read) => settings_of(&read),
        Err(why) => drop(std::hint::black_box(why.to_string())),
    }
    if let Ok(read) = serde_json::from_str(text) {
        settings_of(&read);
    }
}

/// Finds what is wrong with a manifest and resolves settings from it, as a create and a start do.
fn settings_of(read: &Json) {
    let found = manifest::findings(read);
    for finding in &found {
        let control = |text: &str| text.contains(|c: char| c.is_control());
        assert!(!control(&finding.path) && !control(&finding.what), "{finding:?} reaches a terminal");
    }
    for (pg_version, role) in [(17, Role::Replica), (16, Role::Primary)] {
        let resolved = resolve(read, &Asked { pg_version, role }, &Outside::default());
        assert!(resolved.values().all(|setting| setting.replaced.len() < 6));
    }
    // It is kept as JSON, and what is kept is what was read.
    let kept = serde_json::to_string(read).unwrap();
    assert_eq!(serde_json::from_str::<Json>(&kept).unwrap(), *read);
}

fn manifests() -> Border {
    Border::new(ROOT, "manifest", Form::Yaml).within(Limits { base: 512 * 1024, per_byte: 512, turnover: 8 })
}

#[test]
fn hostile_manifest_is_read_or_refused() {
    manifests().holds(settings);
}

#[test]
fn manifest_is_read_in_linear_time() {
    let common = "{\"pg_settings\":{\"common\":{";
    let shapes = [
        Shape::repeated("settings", common, "\"s{n}\":\"1\",", "\"z\":\"1\"}}}"),
        Shape::repeated("versions", "{\"pg_settings\":{\"per_version\":{", "\"{n}\":{},", "\"x\":{}}}}"),
        Shape::repeated("lines", "pg_settings:\n  common:\n", "    s{n}: \"1\"\n", ""),
        Shape::repeated("a list", "a: [", "1e22,", "1]"),
        Shape::repeated("nested lists", "a: ", "[", ""),
        Shape::repeated("aliases", "a: &a [1]\nb: [", "*a,", "*a]"),
        Shape::repeated("anchors", "a: [", "&a{n} 1,", "1]"),
        Shape::repeated("merges", "a: &a {x: 1}\nb:\n", "  k{n}: {<<: *a}\n", ""),
        Shape::repeated("a long text", "a: \"", "\\u00e9", "\""),
        Shape::repeated("blocks", "a: |\n", "  x\n", ""),
        Shape::repeated("comments", "a: 1\n", "# x\n", ""),
        Shape::repeated("documents", "a: 1\n", "---\n", ""),
        Shape::repeated("question marks", "", "? ", ""),
        Shape::made("settings under a long version", |bytes| {
            let version = "v".repeat(bytes / 2);
            let settings: String = (0..bytes / 22).map(|n| format!("\"s{n}\":\"1\",")).collect();
            format!("{{\"pg_settings\":{{\"per_version\":{{\"{version}\":{{\"common\":{{{settings}\"z\":\"1\"}}}}}}}}}}").into_bytes()
        }),
        Shape::made("numbers under a long name", |bytes| {
            format!("{{\"{}\":[{}1]}}", "n".repeat(bytes / 2), "1,".repeat(bytes / 4)).into_bytes()
        }),
        Shape::made("aliases of a long text", |bytes| {
            format!("a: &a {}\nb: [{}*a]", "x".repeat(bytes / 2), "*a,".repeat(bytes / 6)).into_bytes()
        }),
        Shape::made("doubling aliases", |bytes| {
            let mut text = "a0: &a0 [1,1]\n".to_owned();
            let mut n = 1;
            while text.len() < bytes {
                text.push_str(&format!("a{n}: &a{n} [*a{m},*a{m}]\n", m = n - 1));
                n += 1;
            }
            text.into_bytes()
        }),
    ];
    manifests().grows_linearly(4_000, &shapes, settings);
}
