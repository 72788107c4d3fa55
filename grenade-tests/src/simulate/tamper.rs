//! What is written beside the product: into the store by an agent that is not itself, into the database by a program that
//! is unknown to the fleet.

use super::upgrade_id::place_of;
use super::world::World;
use crate::trace::LIE;
use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use std::collections::BTreeSet;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::report::{Fault, Health, Report, Rotation, Step};
use tidegate_proto::record::upgrade::{Decision, PhaseName};
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Key, NodeId, Prefix, Record, Revision, ServiceName, ServiceVersion, Value};

/// A value that is no record.
const NONSENSE: &str = "{\"schema\": 1, \"version\": -7";

/// No store counts so far.
const HUGE: i64 = i64::MAX / 2;

/// What one agent may write, as a value that is no record.
pub(super) async fn garbage(world: &World, service: usize, node: usize) -> Option<Key> {
    let mut client = world.place.store().client().await.ok()?;
    let names = world.testbed.names();
    let key = Key::Report(names.services[service].parse().ok()?, names.nodes[node].parse().ok()?);
    client.put(Prefix::default().key(&key), NONSENSE, None).await.ok()?;
    Some(key)
}

/// A record that became unreadable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spoilt {
    /// Its key.
    pub key: Key,
    /// Its value before.
    was: Vec<u8>,
    /// The revision that made it unreadable.
    at: i64,
}

/// A record of the coordinators becomes unreadable; none where it is unreadable already.
pub(super) async fn spoil(
    world: &World,
    id: Option<&str>,
    (service, node): (usize, usize),
    which: usize,
) -> Option<Spoilt> {
    let mut client = world.place.store().client().await.ok()?;
    let names = world.testbed.names();
    let (service, node) = (names.services[service].parse().ok()?, names.nodes[node].parse().ok()?);
    let key = match which % 4 {
        0 => Key::Window(service),
        1 => Key::Active(service),
        2 => Key::Directive(service, node),
        _ => Key::Upgrade(id?.parse().ok()?),
    };
    let spoilt = made_unreadable(&mut client, key).await?;
    world.testbed.log(format!("{} cannot be read any more", spoilt.key));
    Some(spoilt)
}

async fn made_unreadable(client: &mut Client, key: Key) -> Option<Spoilt> {
    let path = Prefix::default().key(&key);
    let found = client.get(path.clone(), None).await.ok()?;
    let kv = found.kvs().first().filter(|kv| kv.value() != NONSENSE.as_bytes())?;
    // What is written meanwhile would be lost.
    let same = Compare::mod_revision(path.clone(), CompareOp::Equal, kv.mod_revision());
    let put = Txn::new().when(vec![same]).and_then(vec![TxnOp::put(path, NONSENSE, None)]);
    let done = client.txn(put).await.ok()?;
    let at = done.header().filter(|_| done.succeeded())?.revision();
    Some(Spoilt { key, was: kv.value().to_vec(), at })
}

/// A person puts back what a record was before it became unreadable, where it still is. The same record may have become
/// unreadable before, and a restored store has the revision of that time: each value belongs to one revision.
pub(super) async fn put_back(world: &World, spoilt: &Spoilt) {
    let Ok(mut client) = world.place.store().client().await else { return };
    if let Some(done) = written_back(&mut client, spoilt).await {
        world.testbed.log(format!("{} is put back: {done}", spoilt.key));
    }
}

/// Whether the value was written; none where another revision holds the record.
async fn written_back(client: &mut Client, spoilt: &Spoilt) -> Option<bool> {
    let path = Prefix::default().key(&spoilt.key);
    let found = client.get(path.clone(), None).await.ok()?;
    let is_it = found
        .kvs()
        .first()
        .is_some_and(|kv| kv.value() == NONSENSE.as_bytes() && kv.mod_revision() == spoilt.at);
    if !is_it {
        return None;
    }
    Some(client.put(path, spoilt.was.clone(), None).await.is_ok())
}

/// Removes what is there in place of an agent's report: the agent writes it again.
pub(super) async fn remove(world: &World, key: &Key) {
    let Ok(mut client) = world.place.store().client().await else { return };
    let done = client.delete(Prefix::default().key(key), None).await;
    world.testbed.log(format!("{key} is removed: {}", done.is_ok()));
}

/// The record of an upgrade grows beside the product.
pub(super) async fn swell(world: &World, id: &str) -> Option<()> {
    let key = Key::Upgrade(id.parse().ok()?);
    let (at, mut client) = (Prefix::default().key(&key), world.place.store().client().await.ok()?);
    let found = client.get(at.clone(), None).await.ok()?;
    let Ok(Value::Upgrade(mut record)) = Value::decode(&key, found.kvs().first()?.value()) else {
        return None;
    };
    let approval = Decision {
        who: "operator".to_owned(),
        why: "x".repeat(20_000),
        accepts: BTreeSet::new(),
        at: Timestamp(1),
    };
    record.body.approvals.insert(ApprovalPoint::Stage, approval);
    client.put(at, Value::Upgrade(record).encode(), None).await.ok().map(drop)
}

/// A program of the former version writes once more, where the form that it knows is still there.
pub(super) async fn late_row(world: &mut World, id: Option<&str>) {
    let Some((id, place)) = id.and_then(|id| Some((id, place_of(id)?))) else { return };
    let phase = world.testbed.state().facts.phases.get(id).map(|(phase, _)| *phase);
    if matches!(phase, Some(PhaseName::Contract | PhaseName::Completed) | None) {
        return;
    }
    let Some(plan) = world.scenario.upgrades.get(place) else { return };
    let Some(schema) = world.scenario.owned_schema(plan.service) else { return };
    let database = &mut world.databases[schema];
    if !database.is_away() {
        let done = database.write(plan.from).await;
        world.testbed.log(format!("a row in the form of version {}: {done:?}", plan.from));
    }
}

/// Every agent that lies writes once more, whatever it may write.
pub(super) async fn lie(world: &mut World) {
    for node in world.byzantine.clone() {
        for service in world.services_on(node) {
            if let Err(error) = lie_of(world, service, node).await {
                world.testbed.log(format!("a lie was not written: {error}"));
            }
        }
    }
}

async fn lie_of(world: &mut World, service: usize, node: usize) -> anyhow::Result<()> {
    let names = world.testbed.names();
    let (service, node): (ServiceName, NodeId) =
        (names.services[service].parse()?, names.nodes[node].parse()?);
    let key = match world.dice.percent(20) {
        true => Key::Inventory(service.clone(), node.clone()),
        false => Key::Report(service.clone(), node.clone()),
    };
    let (prefix, mut client) = (Prefix::default(), world.place.store().client().await?);
    let found = client.get(prefix.key(&key), None).await?;
    let Some(kv) = found.kvs().first() else { return Ok(()) };
    let Ok(value) = Value::decode(&key, kv.value()) else { return Ok(()) };
    let (version, form) =
        (ServiceVersion::new(i64::try_from(world.dice.within(1, 6))?)?, world.dice.below(9));
    let ordered = client.get(prefix.key(&Key::Directive(service, node)), None).await?;
    let ordered = ordered.kvs().first().map_or(Revision::ABSENT, |kv| Revision(kv.mod_revision()));
    let lied = match value {
        Value::Inventory(mut record) => {
            (record.body.version, record.body.at) = (version, LIE);
            Value::Inventory(record)
        }
        Value::Report(mut record) => {
            false_report(&mut record, version, form, ordered);
            Value::Report(record)
        }
        _ => return Ok(()),
    };
    world.testbed.log(format!("{key} holds a lie ({form}, {version})"));
    let put = client.put(prefix.key(&key), lied.encode(), None).await?;
    world.auditor.note_lie(put.header().map_or(0, etcd_client::ResponseHeader::revision));
    Ok(())
}

/// What an agent may say that is not so, also of what it was ordered last.
fn false_report(record: &mut Record<Report>, version: ServiceVersion, form: u64, ordered: Revision) {
    let body = &mut record.body;
    (body.health, body.rotation, body.step) = (Health::Healthy, Rotation::In, Step::Serving);
    body.version = Some(version);
    match form {
        0 => body.version = None,
        1 => {
            let failed = || Step::Failed { at: "verifying".to_owned(), reason: "so it says".to_owned() };
            (body.health, body.step) = (Health::Unhealthy, failed());
            let fault = Fault { reason: "so it says".to_owned(), lasting: true, recent: true };
            body.fault = Some(Box::new(fault));
        }
        2 => body.generation = Revision(HUGE),
        3 => (body.window, body.admission) = (Revision(HUGE), Revision(HUGE)),
        4 => body.witness.floor = Some(version),
        5 => body.witness.term = "a-term-of-its-own".parse().ok(),
        6 => (body.rotation, body.step) = (Rotation::Out, Step::Drained { forced: false }),
        7 => (body.generation, body.declined) = (ordered, true),
        _ => {}
    }
}

/// The machine of an agent that lied is rebuilt, and its services are as they were. Its report is gone, as after the end of
/// its lease; that of an agent, which hangs on a lease, goes with that. A false admission stays until the agent is admitted
/// again: the record of an admission is never deleted.
pub(super) async fn rebuilt(world: &mut World, node: usize) {
    world.byzantine.remove(&node);
    let now = world.testbed.now();
    world.testbed.state().facts.byzantine.insert(node, now);
    world.agents[node].take().into_iter().for_each(super::agent::Agent::kill);
    remove_lies(world, node).await;
    world.start_agent(node);
}

/// In a restored store, the reports of agents that lied are removed as they were from the former one: no lease ends them.
pub(super) async fn remove_former_lies(world: &World) {
    let lied: Vec<usize> = world.testbed.state().facts.byzantine.keys().copied().collect();
    for node in lied.into_iter().filter(|node| !world.byzantine.contains(node)) {
        remove_lies(world, node).await;
    }
}

/// Removes the reports of a node that no agent wrote.
async fn remove_lies(world: &World, node: usize) {
    for service in world.services_on(node) {
        let names = world.testbed.names();
        let parsed = (names.services[service].parse().ok(), names.nodes[node].parse().ok());
        if let (Some(service), Some(node)) = parsed {
            let key = Key::Report(service, node);
            if has_no_lease(&world.place.store(), &key).await {
                remove(world, &key).await;
            }
        }
    }
}

/// Whether a record is there and hangs on no lease: no agent wrote it.
async fn has_no_lease(store: &Embedded, key: &Key) -> bool {
    let Ok(mut client) = store.client().await else { return false };
    let found = client.get(Prefix::default().key(key), None).await;
    found.is_ok_and(|found| found.kvs().first().is_some_and(|kv| kv.lease() == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etcd_client::PutOptions;

    #[tokio::test(start_paused = true)]
    async fn only_what_no_agent_wrote_has_no_lease() {
        let store = Embedded::in_memory();
        let mut client = store.client().await.unwrap();
        let key = Key::Report("pantry".parse().unwrap(), "n00".parse().unwrap());
        assert!(!has_no_lease(&store, &key).await, "it is not there");
        let lease = client.lease_grant(60, None).await.unwrap().id();
        let options = PutOptions::new().with_lease(lease);
        client.put(Prefix::default().key(&key), "by an agent", Some(options)).await.unwrap();
        assert!(!has_no_lease(&store, &key).await);
        assert!(!has_no_lease(&store.restored_in_memory(), &key).await, "a copy has the lease");
        client.put(Prefix::default().key(&key), "a lie", None).await.unwrap();
        assert!(has_no_lease(&store, &key).await);
        assert!(has_no_lease(&store.restored_in_memory(), &key).await, "a copy has the lie");
    }

    #[tokio::test(start_paused = true)]
    async fn record_is_put_back_as_it_was_before_that_revision() {
        let store = Embedded::in_memory();
        let mut client = store.client().await.unwrap();
        let key = Key::Active("pantry".parse().unwrap());
        let path = Prefix::default().key(&key);
        client.put(path.clone(), "first", None).await.unwrap();
        let first = made_unreadable(&mut client, key.clone()).await.unwrap();
        assert_eq!(made_unreadable(&mut client, key.clone()).await, None, "it is unreadable already");
        let copy = store.restored_in_memory();
        assert_eq!(written_back(&mut client, &first).await, Some(true));
        client.put(path.clone(), "second", None).await.unwrap();
        let second = made_unreadable(&mut client, key.clone()).await.unwrap();
        assert_eq!(written_back(&mut client, &first).await, None, "it has been written since");
        assert_eq!(written_back(&mut client, &second).await, Some(true));
        let found = client.get(path.clone(), None).await.unwrap();
        assert_eq!(found.kvs()[0].value(), b"second");
        let mut client = copy.client().await.unwrap();
        assert_eq!(written_back(&mut client, &second).await, None, "the copy is older");
        assert_eq!(written_back(&mut client, &first).await, Some(true));
    }
}
