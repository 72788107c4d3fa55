//! What an agent that lies writes beside its admissions and reports (`tamper.rs`): the signal of its node to a metadata group,
//! and results of tasks that it never did. With its reports and admissions, that is all that an agent may write.

use super::document::GROUP;
use super::world::World;
use crate::trace::LIE;
use etcd_client::{Client, GetOptions};
use tidegate_proto::key::Kind;
use tidegate_proto::record::signal::Signal;
use tidegate_proto::record::task::{Outcome, TaskResult};
use tidegate_proto::{Key, NodeId, Prefix, Value};

/// Every agent that lies writes once more, where the scenario has them lie everywhere.
pub(super) async fn lie(world: &mut World) {
    if !world.scenario.lies_everywhere {
        return;
    }
    for node in world.byzantine.clone() {
        if let Err(error) = lie_of(world, node).await {
            world.testbed.log(format!("a lie was not written: {error}"));
        }
    }
}

async fn lie_of(world: &mut World, place: usize) -> anyhow::Result<()> {
    let node: NodeId = world.testbed.names().nodes[place].parse()?;
    let mut client = world.place.store().client().await?;
    if world.scenario.metadata.is_some() && world.lies.percent(30) {
        let lied = signal(world, &mut client).await?;
        put(world, &mut client, &Key::GroupSignal(GROUP.parse()?, node.clone()), lied).await?;
    }
    for task in tasks(&mut client, &node).await? {
        if world.lies.percent(30) {
            let so = || "so it says".to_owned();
            let outcome = match world.lies.below(4) {
                0 => Outcome::Claimed,
                1 => Outcome::Failed { why: so() },
                2 => Outcome::Unknown { why: so() },
                _ => Outcome::Succeeded,
            };
            if outcome == Outcome::Succeeded {
                world.testbed.state().facts.streams.false_results.insert(place);
            }
            put(world, &mut client, &task, TaskResult::new(outcome, LIE).into()).await?;
        }
    }
    Ok(())
}

/// A signal about the document of the update that runs, of the current one, or of none that is known.
async fn signal(world: &mut World, client: &mut Client) -> anyhow::Result<Value> {
    let key = Key::Group(GROUP.parse()?);
    let found = client.get(Prefix::default().key(&key), None).await?;
    let group = found.kvs().first().and_then(|kv| Value::decode(&key, kv.value()).ok());
    let latest = match group {
        Some(Value::Group(group)) => Some(group.body.latest),
        _ => None,
    };
    Ok(Signal {
        generation: latest.filter(|_| world.lies.percent(80)),
        success: world.lies.percent(50),
        failure: None,
        why: "so it says".to_owned(),
        who: "an agent that lies".to_owned(),
        at: LIE,
    }
    .into())
}

/// The keys of the results of a node's tasks.
async fn tasks(client: &mut Client, node: &NodeId) -> anyhow::Result<Vec<Key>> {
    let of_node = Prefix::default().all_within(Kind::Task, node.as_str());
    let tasks = client.get(of_node, Some(GetOptions::new().with_prefix())).await?;
    let result = |path: &[u8]| match Prefix::default().parse(path) {
        Some(Ok(Key::Task(node, task))) => Some(Key::TaskResult(node, task)),
        _ => None,
    };
    Ok(tasks.kvs().iter().filter_map(|kv| result(kv.key())).collect())
}

async fn put(world: &World, client: &mut Client, key: &Key, lie: Value) -> anyhow::Result<()> {
    let put = client.put(Prefix::default().key(key), lie.encode(), None).await?;
    world.auditor.note_lie(put.header().map_or(0, etcd_client::ResponseHeader::revision));
    world.testbed.log(format!("{key} holds a lie"));
    Ok(())
}
