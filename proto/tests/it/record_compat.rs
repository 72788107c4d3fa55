//! Golden files: each record of each form that was ever written is read, and written again without loss. A change of
//! form adds a file and bumps the schema number; it never changes a file that is here.

use serde_json::{Value as Json, json};
use std::path::PathBuf;
use tidegate_proto::key::Kind;
use tidegate_proto::record::{MAX_RECORD_BYTES, Malformed};
use tidegate_proto::{Key, Value};

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// A key of each kind: what a record under it is read as.
pub(crate) fn key_of(kind: Kind) -> Key {
    let path = match kind {
        Kind::Report | Kind::Inventory | Kind::Decommission | Kind::Directive => {
            format!("{}/pantry-api/n1", kind.word())
        }
        Kind::Exception => format!("{}/u1/n1", kind.word()),
        Kind::Waves | Kind::Certificate => format!("{}/u1/000000", kind.word()),
        Kind::Event => format!("{}/fleet/{:020}-{:010}", kind.word(), 1, 1),
        kind if kind.single().is_some() => kind.word().to_owned(),
        Kind::Release => format!("{}/compute/{:012}", kind.word(), 53),
        Kind::ReleaseTag => format!("{}/compute/release-9057", kind.word()),
        Kind::Evidence => format!("{}/release-9057/release-8100", kind.word()),
        Kind::GateVerdict => {
            let artifact = |version, digit: &str| format!("{version}-{}", digit.repeat(64));
            format!("{}/pantry-api/rolling/{}/{}", kind.word(), artifact(1, "a"), artifact(2, "b"))
        }
        Kind::Signal => format!("{}/release-compute-53/c1", kind.word()),
        Kind::Task | Kind::TaskResult => format!("{}/n1/prewarm-1", kind.word()),
        Kind::Document => format!("{}/edge/{:012}", kind.word(), 7),
        Kind::Exposed => format!("{}/edge/{:06}", kind.word(), 7),
        Kind::Manifest => format!("{}/{}", kind.word(), "b".repeat(64)),
        _ => format!("{}/x", kind.word()),
    };
    path.parse().unwrap()
}

pub(crate) fn files() -> Vec<(Kind, String, Json)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let kind = Kind::ALL.into_iter().find(|kind| name.starts_with(&format!("{}.", kind.word())));
        let kind = kind.unwrap_or_else(|| panic!("{name} is named after no kind of key"));
        let text = std::fs::read_to_string(&path).unwrap();
        found.push((kind, name, serde_json::from_str(&text).unwrap()));
    }
    found
}

#[test]
fn every_stored_record_format_round_trips_without_loss() {
    let files = files();
    for kind in Kind::ALL {
        assert!(files.iter().any(|(k, _, _)| *k == kind), "there is no golden file for {kind:?}");
    }
    for (kind, name, mut json) in files {
        let read = Value::decode(&key_of(kind), &serde_json::to_vec(&json).unwrap())
            .unwrap_or_else(|e| panic!("{name} {e}"));
        let written: Json = serde_json::from_slice(&read.encode()).unwrap();
        let number = json.as_object_mut().and_then(|fields| fields.remove("schema")).unwrap();
        assert!(written["schema"].as_u64() >= number.as_u64(), "{name}: the schema number fell");
        renamed(&mut json);
        assert_eq!(kept(&json, &written), None, "{name}: a field was lost or changed");
    }
}

/// Fields that have another name now; the former one is still read.
fn renamed(json: &mut Json) {
    const NAMES: [(&str, &str); 4] =
        [("what", "blocked_on"), ("who", "owner"), ("command", "next_step"), ("deadline", "timeout")];
    if let Some(step) = json.get_mut("phase").and_then(Json::as_object_mut).and_then(|p| p.remove("retreat"))
    {
        json["phase"]["step"] = if step == "walk" { json!("move") } else { step };
    }
    for reason in json.get_mut("reasons").and_then(Json::as_array_mut).into_iter().flatten() {
        for (former, name) in NAMES {
            if let Some(value) = reason.as_object_mut().and_then(|fields| fields.remove(former)) {
                reason[name] = value;
            }
        }
    }
}

/// The first field of `before` that `after` has not, or has otherwise. Defaults may be added.
fn kept(before: &Json, after: &Json) -> Option<String> {
    match (before, after) {
        (Json::Object(b), Json::Object(a)) => b.iter().find_map(|(field, value)| match a.get(field) {
            Some(same) => kept(value, same).map(|inner| format!("{field}.{inner}")),
            None => Some(field.clone()),
        }),
        (b, a) => (b != a).then(|| format!("{b} became {a}")),
    }
}

#[test]
fn fields_of_a_newer_version_survive_a_rewrite() {
    for (kind, name, json) in files() {
        let mut newer = json;
        newer["schema"] = json!(99);
        newer["from_the_future"] = json!({"deep": [1, 2, 3]});
        let read = Value::decode(&key_of(kind), &serde_json::to_vec(&newer).unwrap())
            .unwrap_or_else(|e| panic!("{name} {e}"));
        assert!(read.is_newer(), "{name}");
        let written: Json = serde_json::from_slice(&read.encode()).unwrap();
        assert_eq!(written["schema"], json!(99), "{name}: the schema number fell");
        assert_eq!(written["from_the_future"], json!({"deep": [1, 2, 3]}), "{name}");
    }
}

#[test]
fn a_report_without_a_version_is_at_1_and_null_is_unknown() {
    let read = |version: Option<Json>| {
        let mut report = json!({"schema": 1, "identity": {"nonce": "a", "boot": "b"}});
        if let Some(version) = version {
            report["version"] = version;
        }
        match Value::decode(&key_of(Kind::Report), &serde_json::to_vec(&report).unwrap()) {
            Ok(Value::Report(record)) => Ok(record.body.version.map(|v| v.get())),
            Ok(other) => panic!("{other:?}"),
            Err(malformed) => Err(malformed),
        }
    };
    assert_eq!(read(None), Ok(Some(1)), "Nova: absent reads as 1");
    assert_eq!(read(Some(json!(null))), Ok(None));
    assert_eq!(read(Some(json!(7))), Ok(Some(7)));
    for absurd in [json!(0), json!(-1), json!(1.5), json!("7"), json!(4_294_967_296u64), json!([7])] {
        assert!(read(Some(absurd.clone())).is_err(), "version {absurd} was taken");
    }
}

#[test]
fn hostile_records_are_malformed_and_nothing_worse() {
    let key = key_of(Kind::Report);
    let decode = |bytes: &[u8]| Value::decode(&key, bytes).unwrap_err();
    let too_large = |kind: Kind, allowed: usize| {
        let bytes = vec![b' '; allowed + 1];
        let refused = Value::decode(&key_of(kind), &bytes).unwrap_err();
        assert_eq!(refused, Malformed::Oversized { bytes: allowed + 1, allowed }, "{kind:?}");
    };
    too_large(Kind::Upgrade, MAX_RECORD_BYTES);
    for (kind, kib) in [(Kind::Report, 64), (Kind::TaskResult, 32), (Kind::Inventory, 16), (Kind::Signal, 16)]
    {
        too_large(kind, kib * 1024);
    }
    assert_eq!(decode(b"{\"schema\": 1, \"x\": \"\xff\"}"), Malformed::Encoding);
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    for text in ["", "null", "[]", "1", "{}", "{\"schema\":\"1\"}", &deep] {
        assert!(matches!(decode(text.as_bytes()), Malformed::Shape(_)), "{}", &text[..text.len().min(40)]);
    }
}

#[test]
fn malformed_record_of_a_newer_version_is_told_apart() {
    let decode = |text: &str| Value::decode(&key_of(Kind::Upgrade), text.as_bytes()).unwrap_err();
    let newer = decode(r#"{"spec": {"form": "another"}, "schema": 99}"#);
    assert!(matches!(newer, Malformed::Newer { schema: 99, .. }), "{newer}");
    for text in [r#"{"schema": 1, "spec": 7}"#, r#"{"schema": 99, "spec": {"#, "[99]", "nonsense"] {
        assert!(matches!(decode(text), Malformed::Shape(_)), "{text}");
    }
}

#[test]
fn hostile_numbers_in_release_records_are_malformed() {
    let release = files().into_iter().find(|(_, name, _)| name == "releases.1").unwrap().2;
    let absurd = [
        ("revision", json!(0)),
        ("revision", json!(-1)),
        ("version", json!(1.5)),
        ("version", json!("9057")),
        ("tag", json!("../../etc")),
        ("status", json!("gone")),
        ("requires", json!({"pageserver": 0})),
        ("requires", json!({"a/b": 1})),
        ("canary", json!({"fraction": 1.5})),
        ("canary", json!({"fraction": 0})),
        ("manifest", json!("abc")),
    ];
    for (field, value) in absurd {
        let mut hostile = release.clone();
        hostile[field] = value.clone();
        let read = Value::decode(&key_of(Kind::Release), &serde_json::to_vec(&hostile).unwrap());
        assert!(matches!(read, Err(Malformed::Shape(_))), "{field}: {value} was taken");
    }
}

#[test]
fn the_largest_stream_is_a_record() {
    use tidegate_proto::record::stream::{self, Head, Pin, Running, Stream};
    let json = files().into_iter().find(|(_, name, _)| name == "releases.1").unwrap().2;
    let Ok(Value::Release(release)) =
        Value::decode(&key_of(Kind::Release), &serde_json::to_vec(&json).unwrap())
    else {
        panic!("the golden release is a release")
    };
    let long = |n: usize| format!("{n:0>63}");
    let mut fat = release.body;
    fat.tag = long(0).parse().unwrap();
    fat.requires = (0..stream::MAX_REQUIRES)
        .map(|n| (long(n).parse().unwrap(), tidegate_proto::ServiceVersion::MAX))
        .collect();
    let said = || "x".repeat(500);
    fat.because = said();
    fat.by = said();
    fat.approved.as_mut().unwrap().who = said();
    fat.approved.as_mut().unwrap().why = said();
    let (requires, head) = (fat.requires.clone(), Head::new(fat));
    let pin = Pin { revision: head.release.revision, who: said(), why: said(), at: Default::default() };
    let running = Running { count: u64::MAX, revision: None, version: None, requires };
    let largest = Stream {
        deployed: Some(Box::new(head.clone())),
        canary: Some(Box::new(head.clone())),
        pending: vec![head.clone(); stream::MAX_PENDING],
        kept: vec![head; stream::MAX_KEPT],
        pins: (0..stream::MAX_PINS).map(|n| (long(n).parse().unwrap(), pin.clone())).collect(),
        running: (0..stream::MAX_RUNNING_TAGS).map(|n| (long(n).parse().unwrap(), running.clone())).collect(),
        ..Stream::default()
    };
    let bytes = Value::from(largest).encode().len();
    assert!(bytes < MAX_RECORD_BYTES, "{bytes} bytes");
}

#[test]
fn a_token_that_says_more_than_it_may_is_malformed() {
    let golden = std::fs::read_to_string(golden().join("tokens.1.json")).unwrap();
    let read = |change: &dyn Fn(&mut Json)| {
        let mut token: Json = serde_json::from_str(&golden).unwrap();
        change(&mut token);
        Value::decode(&key_of(Kind::Token), &serde_json::to_vec(&token).unwrap())
    };
    assert!(read(&|_| {}).is_ok());
    assert!(read(&|token| token["role"] = json!("root")).is_err(), "no such role");
    assert!(read(&|token| token["name"] = json!("a\nb")).is_err(), "a name is one word");
    assert!(read(&|token| token["credential"] = json!({})).is_err(), "known by nothing");
    assert!(read(&|token| token["credential"] = json!({"digest": ""})).is_err(), "known by an empty digest");
    assert!(read(&|token| token["credential"] = json!({"certificate": ""})).is_err(), "known by no name");
    let both = json!({"digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "certificate": "x"});
    assert!(read(&|token| token["credential"] = both.clone()).is_err(), "known by two things");
    assert!(read(&|token| token["expires"] = json!("never")).is_err(), "a time is a number");
}

#[test]
fn the_largest_update_of_metadata_is_one_transaction() {
    use tidegate_proto::metadata::{MAX_DOCUMENT_BYTES, MAX_MEMBERS, MetadataGeneration};
    use tidegate_proto::record::group::{Document, ExposedPage, NamedMembers};
    let name = |n: u32| -> tidegate_proto::NodeId { format!("{n:0>63}").parse().unwrap() };
    let each = || 0..MAX_MEMBERS as u32;
    let members = each().map(|n| (name(n), n)).collect();
    let pages = Value::from(ExposedPage { generation: MetadataGeneration::FIRST, members }).encode().len();
    let named = Value::from(NamedMembers { instances: each().map(name).collect() }).encode().len();
    let document = json!({ "x": "y".repeat(MAX_DOCUMENT_BYTES - 8) });
    let bytes = pages + named + Value::from(Document { document }).encode().len();
    assert!(bytes < MAX_RECORD_BYTES - 16 * 1024, "{bytes} bytes, beside a small record and an event");
}

#[test]
fn instance_is_served_by_its_page_and_by_no_other() {
    use tidegate_proto::metadata::MetadataGeneration;
    use tidegate_proto::record::group::{ExposedPage, ExposureUnknown, page_of, served};
    let json = files().into_iter().find(|(_, name, _)| name == "groups.1").unwrap().2;
    let Ok(Value::Group(group)) = Value::decode(&key_of(Kind::Group), &serde_json::to_vec(&json).unwrap())
    else {
        panic!("the golden group is a group")
    };
    let node: tidegate_proto::NodeId = "n1".parse().unwrap();
    let mut page = ExposedPage {
        generation: MetadataGeneration::new(7).unwrap(),
        members: [(node.clone(), 1), ("n2".parse().unwrap(), 2)].into(),
    };
    let generation = |page: Option<&ExposedPage>, node: &str| {
        served(&group.body, page, &node.parse().unwrap()).map(|served| served.unwrap().generation.get())
    };
    assert_eq!((generation(Some(&page), "n1"), generation(Some(&page), "n2")), (Ok(7), Ok(6)));
    assert_eq!(generation(Some(&page), "n3"), Ok(6), "not drawn");
    let unknown = Err(ExposureUnknown(page.generation));
    assert_eq!(generation(None, "n1"), unknown, "no page");
    page.generation = MetadataGeneration::new(6).unwrap();
    assert_eq!(generation(Some(&page), "n1"), unknown, "a page of another update");
    assert_eq!((page_of(&node, 0), page_of(&node, 1)), (0, 0));
    assert!((2..50).all(|pages| page_of(&node, pages) < pages));
}
