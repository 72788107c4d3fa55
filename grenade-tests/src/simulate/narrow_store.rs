//! A store that takes small requests only, and what an earlier version of Tidegate left in it: an upgrade whose record is
//! so large that none of its commits fits.

use super::scenario::{Scenario, What};
use serde_json::json;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::{Digest, Key, Prefix};

/// The service of that upgrade, which no node of the world runs, and which shares no schema. It comes before every other
/// one in each turn.
const SERVICE: &str = "attic";

/// The upgrade.
const UPGRADE: &str = "left-over";

/// How much smaller its record is than the largest request, in bytes: it can be put, and a commit that compares the fence
/// as well does not fit.
const SPARE: usize = 100;

/// What a failure in that list says, in bytes.
const WORDS: usize = 100;

/// The store of a world, without anything in it.
pub(super) fn empty(scenario: &Scenario) -> Embedded {
    match limit(scenario) {
        Some(bytes) => Embedded::in_memory().with_max_request(bytes),
        None => Embedded::in_memory(),
    }
}

fn limit(scenario: &Scenario) -> Option<usize> {
    scenario.max_request.and_then(|bytes| usize::try_from(bytes).ok())
}

/// What a hook prints before it fails: in such a world so much that it fits a report, and no commit twice.
pub(super) fn failure_output(scenario: &Scenario) -> String {
    const WORD: &str = "\u{1f30a}";
    limit(scenario)
        .map_or_else(|| "the hook failed".to_owned(), |bytes| WORD.repeat(bytes * 5 / 8 / WORD.len()))
}

/// Writes what the earlier version left; the revision after which the world begins. Where the store is replaced, nothing is
/// left in it: a reconciliation is about what agents obeyed.
///
/// # Errors
/// None in practice: the store is reached in process.
pub(super) async fn leave(scenario: &Scenario, store: &Embedded) -> anyhow::Result<i64> {
    let is_replaced = |what: &What| matches!(what, What::StoreRestored | What::StoreBlank);
    let Some(bytes) = limit(scenario).filter(|_| !scenario.faults.iter().any(|f| is_replaced(&f.what)))
    else {
        return Ok(0);
    };
    let (prefix, mut client) = (Prefix::default(), store.client().await?);
    let window = json!({"schema": 1, "floor": 1, "ceiling": 2, "set_by": UPGRADE}).to_string();
    let active = json!({"schema": 1, "upgrade": UPGRADE}).to_string();
    client
        .put(prefix.key(&Key::Upgrade(UPGRADE.parse()?)), record(bytes.saturating_sub(SPARE)), None)
        .await?;
    client.put(prefix.key(&Key::Window(SERVICE.parse()?)), window, None).await?;
    let written = client.put(prefix.key(&Key::Active(SERVICE.parse()?)), active, None).await?;
    Ok(written.header().map_or(0, etcd_client::ResponseHeader::revision))
}

/// The record of that upgrade, of so many bytes: more failures than it tolerates, all of them in it. The next that is
/// planned is a pause, which would make it larger.
fn record(bytes: usize) -> String {
    let (from, to) = (Digest::of(b"attic-1"), Digest::of(b"attic-2"));
    let mut record = json!({
        "schema": 1,
        "spec": {
            "service": SERVICE, "from": 1, "to": 2, "release": {"tag": "attic-2", "sha256": to},
            "failures": {"tolerate": 0, "per_wave": 1, "then": "pause"},
        },
        "digest": to,
        "by": "operator",
        "at": 1,
        "phase": {"name": "roll", "wave": 0},
        "former": {
            "release": {"tag": "attic-1", "sha256": from, "version": 1}, "window": null, "window_set_by": null,
        },
        "failed": {},
    });
    let failure = |words: usize| json!({"wave": 0, "reason": "x".repeat(words), "accepted": false});
    let mut size = record.to_string().len();
    for n in 0.. {
        let (node, one) = (format!("n{n:05}"), failure(WORDS));
        // Its name, with quotes, a colon and a comma.
        let more = node.len() + 4 + one.to_string().len();
        let left = bytes.saturating_sub(size);
        if left < 2 * more {
            // The last one takes what is left, less what it needs without a word.
            record["failed"][node] = failure(left.saturating_sub(more - WORDS));
            break;
        }
        record["failed"][node] = one;
        size += more;
    }
    record.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{draw, sharing};
    use tidegate_proto::Value;

    #[test]
    fn record_that_was_left_can_be_read_and_nearly_fills_a_request() {
        let text = record(64 * 1024 - SPARE);
        assert!((64 * 1024 - SPARE - 2..=64 * 1024 - SPARE).contains(&text.len()), "{}", text.len());
        let key = Key::Upgrade(UPGRADE.parse().unwrap());
        let Ok(Value::Upgrade(upgrade)) = Value::decode(&key, text.as_bytes()) else { panic!("{text}") };
        assert!(upgrade.body.failed.len() > 300);
        // As the coordinator writes it again, it is not smaller.
        assert!(Value::Upgrade(upgrade).encode().len() + SPARE >= 64 * 1024);
    }

    #[tokio::test(start_paused = true)]
    async fn store_of_a_narrow_world_takes_it_and_nothing_larger() {
        let scenario = Scenario { max_request: Some(64 * 1024), ..draw::scenario(1) };
        let scenario = Scenario { faults: Vec::new(), ..scenario };
        let store = empty(&scenario);
        assert_eq!(leave(&scenario, &store).await.unwrap(), 4);
        let large = store.client().await.unwrap().put("x", "x".repeat(64 * 1024), None).await;
        assert!(large.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn service_of_the_left_upgrade_shares_no_schema() {
        let shares = |one: &Scenario| one.upgrades.iter().any(|plan| sharing::empty(one, plan).is_some());
        let drawn = (1..2_000).map(draw::scenario).find(shares).unwrap();
        let scenario = Scenario { max_request: Some(64 * 1024), faults: Vec::new(), ..drawn };
        let store = empty(&scenario);
        assert_ne!(leave(&scenario, &store).await.unwrap(), 0);
        let mut client = store.client().await.unwrap();
        let with_nodes = scenario.services.iter().map(|service| service.name.as_str());
        let without = scenario.upgrades.iter().filter_map(|plan| sharing::empty(&scenario, plan));
        for name in with_nodes.chain(without) {
            let key = Prefix::default().key(&Key::Active(name.parse().unwrap()));
            let found = client.get(key, None).await.unwrap();
            assert!(found.kvs().is_empty(), "{name} has the upgrade that was left");
        }
    }
}
