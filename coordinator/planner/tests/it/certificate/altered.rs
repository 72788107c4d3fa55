//! A certificate that was altered after it was made fails its verification.

use super::ready;
use crate::sim::{node, service};
use serde_json::{Value as Json, json};
use tidegate_planner::certificate::{Certificate, Sealed};
use tidegate_proto::Digest;

#[test]
fn each_altered_field_is_found_out() {
    let mut world = ready();
    world.fall_silent(2);
    let id = tidegate_proto::InstanceId::new(service(), node(2));
    let asker =
        tidegate_planner::ask::Asker { who: "op".into(), why: "gone".into(), accepts: Default::default() };
    let commit = tidegate_planner::ask::decommission(
        world.store.fleet(),
        &world.moment(),
        &id,
        tidegate_planner::ask::Gone { stopped_how: Some("power off".into()), ..Default::default() },
        &asker,
    )
    .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.certify().unwrap();
    let certificate = world.certificate.unwrap();
    let sealed = serde_json::to_value(Sealed { digest: certificate.digest(), certificate }).unwrap();
    let leaves = leaves(&sealed, String::new());
    assert!(leaves.len() > 30, "only {} fields", leaves.len());
    for pointer in leaves {
        let mut altered = sealed.clone();
        let leaf = altered.pointer_mut(&pointer).unwrap();
        *leaf = other(leaf);
        let verdict = serde_json::from_value::<Sealed>(altered)
            .map_err(|e| e.to_string())
            .and_then(|s| s.verify().map_err(|e| e.to_string()));
        assert!(verdict.is_err(), "{pointer} was altered and not noticed");
    }
}

#[test]
fn conditions_are_recomputed_although_digest_matches() {
    let mut world = ready();
    world.certify().unwrap();
    let certificate = world.certificate.unwrap();
    let cases: [(&str, Json, &str); 6] = [
        ("/services/pantry-api/window/floor", json!(1), "services.pantry-api.window"),
        ("/services/pantry-api/instances/n1/reported", json!(1), "services.pantry-api.instances.n1"),
        ("/services/pantry-api/instances/n1/acknowledged", json!(1), "services.pantry-api.instances.n1"),
        ("/pending_rows/proved/pending", json!(1), "pending_rows"),
        ("/approval_asked", json!(true), "approval"),
        ("/read_at", json!(1), "services.pantry-api.window"),
    ];
    for (pointer, value, part) in cases {
        let mut altered = serde_json::to_value(&certificate).unwrap();
        *altered.pointer_mut(pointer).unwrap() = value;
        let altered: Certificate = serde_json::from_value(altered).unwrap();
        let found = Sealed { digest: altered.digest(), certificate: altered }.verify().unwrap_err();
        assert_eq!(found.part, part, "{pointer}: {found}");
    }
}

fn leaves(value: &Json, at: String) -> Vec<String> {
    match value {
        Json::Object(map) => map
            .iter()
            .flat_map(|(k, v)| leaves(v, format!("{at}/{}", k.replace('~', "~0").replace('/', "~1"))))
            .collect(),
        Json::Array(items) => {
            items.iter().enumerate().flat_map(|(i, v)| leaves(v, format!("{at}/{i}"))).collect()
        }
        _ => vec![at],
    }
}

fn other(leaf: &Json) -> Json {
    match leaf {
        Json::Bool(b) => json!(!b),
        Json::Number(n) => json!(n.as_i64().unwrap() + 1),
        Json::String(s) if s.parse::<Digest>().is_ok() => json!(Digest::of(s.as_bytes())),
        Json::String(s) => json!(format!("{s}x")),
        _ => json!("x"),
    }
}
