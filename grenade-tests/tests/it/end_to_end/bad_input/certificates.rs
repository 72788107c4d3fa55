//! A certificate is verified without any store, and one that was altered is not true.

use grenade_tests::world::port;
use sha2::{Digest, Sha256};

use super::super::fleet::{Fleet, Said, tidegate};
use super::Wrong;

/// What a person may do to a certificate (and reseal), and the part that `verify` names then.
const ALTERED: [(&str, &str, &str); 8] = [
    ("\"format\":1", "\"format\":2", "format"),
    ("\"floor\":2", "\"floor\":1", "services.pantry-api.window"),
    ("\"reported\":2", "\"reported\":1", "services.pantry-api.instances.node-"),
    ("\"reported\":2", "\"reported\":null", "services.pantry-api.instances.node-"),
    (
        "\"stopped_how\":\"power is off at the rack\"",
        "\"stopped_how\":null",
        "services.pantry-api.decommissioned.node-3",
    ),
    ("\"pending\":0", "\"pending\":7", "pending_rows"),
    ("\"accepts\":[\"sessions\"]", "\"accepts\":[\"other\"]", "approval"),
    ("\"required\":{\"pantry-api\":2}", "\"required\":{\"pantry-api\":3}", "services.pantry-api"),
];

async fn verify(fleet: &Fleet, text: &str) -> Said {
    let path = fleet.rig.world.path("c.json");
    std::fs::write(&path, text).unwrap();
    // No server listens there: the command needs none.
    tidegate(port::free().unwrap(), &["certificate", "verify", path.to_str().unwrap()]).await
}

/// A certificate as `tidegate upgrade certificate` printed it.
pub(crate) async fn certificate(fleet: &Fleet, sealed: &str) {
    let wrong = &mut Wrong::default();
    let good = verify(fleet, sealed).await;
    assert_eq!((good.code, good.out.starts_with("true: ")), (Some(0), true), "{good:#?}");
    let body = sealed.trim().strip_prefix("{\"certificate\":").unwrap();
    let body = &body[..body.rfind(",\"digest\":").unwrap()];
    for (from, to, part) in ALTERED {
        let altered = body.replacen(from, to, 1);
        assert_ne!(altered, body, "{from} is not in {body}");
        wrong.answered(
            from,
            &verify(fleet, &sealed.replacen(body, &altered, 1)).await,
            1,
            &["not true", "digest"],
        );
        let digest = hex::encode(Sha256::digest(altered.as_bytes()));
        let resealed = format!("{{\"certificate\":{altered},\"digest\":\"{digest}\"}}");
        wrong.answered(to, &verify(fleet, &resealed).await, 1, &["not true", part]);
    }
    wrong.answered("no certificate", &verify(fleet, "{}").await, 1, &["no certificate", "certificate"]);
    wrong.answered("half of it", &verify(fleet, &sealed[..sealed.len() / 2]).await, 1, &["no certificate"]);
    let more = sealed.replacen("{\"format\"", "{\"remark\":1,\"format\"", 1);
    wrong.answered("one field more", &verify(fleet, &more).await, 1, &["no certificate", "remark"]);
    std::mem::take(wrong).nothing();
}
