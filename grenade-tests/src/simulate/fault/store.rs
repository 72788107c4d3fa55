//! Faults of the store and of records in it.

use super::network::each_line;
use super::undo::Undo;
use super::{node, process};
use crate::simulate::deposed;
use crate::simulate::line::Line;
use crate::simulate::narrow_store;
use crate::simulate::slot::At;
use crate::simulate::tamper;
use crate::simulate::world::World;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::{Key, Prefix, Value};

pub(super) async fn compact(world: &World) -> Vec<Undo> {
    let Ok(mut client) = world.place.store().client().await else { return Vec::new() };
    let Ok(answer) = client.get("compaction", None).await else { return Vec::new() };
    let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
    // The auditor has already read the history that is compacted away.
    let done = client.compact(revision, None).await;
    world.testbed.log(format!("compacted at {revision}: {}", done.is_ok()));
    Vec::new()
}

/// Replaces the store by the last backup, if there is one.
pub(super) async fn restore(world: &mut World) -> Vec<Undo> {
    if let Some(copy) = world.snapshot.as_ref().map(Embedded::restored_in_memory) {
        replace(world, copy).await;
    }
    Vec::new()
}

/// Replaces the store by a blank one. Where everything is reinstalled with it, no process runs then: the coordinators are
/// started after the nodes.
pub(super) async fn blank(world: &mut World) -> Vec<Undo> {
    let mut undo = Vec::new();
    if world.scenario.reinstalled {
        undo.extend(node::reinstall_all(world));
        undo.extend((0..world.coordinators.len()).flat_map(|n| process::kill_coordinator(world, n)));
    }
    let store = narrow_store::empty(&world.scenario);
    replace(world, store).await;
    undo
}

/// Replaces the store by another one. What the databases obeyed until then is judged by the former one.
async fn replace(world: &mut World, store: Embedded) {
    deposed::look(world).await;
    if let Err(error) = world.auditor.catch_up(&world.place.store()).await {
        world.testbed.log(format!("the former store cannot be followed: {error}"));
    }
    world.place.replace(store);
    world.store_lost = true;
    world.testbed.state().facts.streams.lost = true;
    // What a former store admitted, and what is drained after its loss, have conditions of their own.
    world.testbed.state().facts.struck_until = u64::MAX;
    // Before anything is written to it: its history ends where the copy was made.
    if let Err(error) = world.audit_new_store().await {
        world.testbed.log(format!("the new store cannot be followed: {error}"));
    }
    // Unreadable records that were removed since the copy was made are removed again. A copy from before or after that has
    // a readable record: an agent's report, whose lease is alive.
    for key in &world.garbage {
        if !is_readable(world, key).await {
            tamper::remove(world, key).await;
        }
    }
    tamper::remove_former_lies(world).await;
    each_line(world, Line::reset);
}

pub(super) async fn write_garbage(world: &mut World, (service, node): At) -> Vec<Undo> {
    let key = tamper::garbage(world, service, node).await;
    world.garbage.extend(key.clone());
    key.map(Undo::Garbage).into_iter().collect()
}

/// A store that replaced the one with the unreadable record may have a readable one, which stays.
pub(super) async fn remove_unreadable(world: &World, key: &Key) {
    if !is_readable(world, key).await {
        tamper::remove(world, key).await;
    }
}

async fn is_readable(world: &World, key: &Key) -> bool {
    let Ok(mut client) = world.place.store().client().await else { return false };
    let found = client.get(Prefix::default().key(key), None).await;
    found.is_ok_and(|found| found.kvs().first().is_some_and(|kv| Value::decode(key, kv.value()).is_ok()))
}
