//! The agent of one node: locks its state directory, connects to the store, and runs one task for each service.

use crate::config::Node;
use crate::instance::{Fatal, Instance};
use crate::link::Link;
use crate::machine::Machine;
use crate::metadata::Follower;
use crate::task::Worker;
use crate::{health, identity};
use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Runs until a signal asks it to end, or until it must not go on. Services outlive it.
pub(crate) async fn run(node: Node) -> anyhow::Result<()> {
    let held = identity::hold(&node.state_dir)?;
    std::fs::create_dir_all(&node.runtime_dir)
        .with_context(|| format!("could not make the runtime directory {}", node.runtime_dir.display()))?;
    tracing::info!(node = %node.name, nonce = held.identity.nonce, services = node.services.len(), "agent begins");
    let cancel = CancellationToken::new();
    end_on_signals(&cancel)?;
    let mut servers = health::serve(&node, &cancel).await?;
    let host = Machine::shared();
    let link = Link::open(&node, &cancel);
    let mut tasks: JoinSet<Result<(), Fatal>> = JoinSet::new();
    for service in node.services.values() {
        let instance = Instance::open(&host, &node, service, &held.identity, &link)?;
        tasks.spawn(instance.run(cancel.clone()));
    }
    let mut followers = JoinSet::new();
    for group in node.metadata.values() {
        let follower = Follower::open(&host, &node.name, group, &node.state_dir).with_context(|| {
            format!("could not take up what is remembered of the metadata group {}", group.name)
        })?;
        followers.spawn(follower.run(link.clone(), cancel.clone()));
    }
    // Also where no hook is defined: then what is ordered here is refused, with a word.
    let worker = Worker::open(&host, &node, &held.identity)?;
    followers.spawn(worker.run(link.clone(), cancel.clone()));
    if node.services.is_empty() {
        if node.metadata.is_empty() && node.hooks.is_empty() {
            tracing::warn!(
                "the configuration names neither service nor metadata group nor hook: there is nothing to manage"
            );
        }
        cancel.cancelled().await;
    }
    let mut first = None;
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.context("a service's task ended by a fault of the agent")?;
        // One that must not go on takes the whole agent with it: half an agent is no agent. Services go on.
        if let Err(fatal) = ended {
            first.get_or_insert(fatal);
        }
        cancel.cancel();
    }
    while servers.join_next().await.is_some() {}
    // A hook of a metadata group that runs is waited for.
    while followers.join_next().await.is_some() {}
    first.map_or(Ok(()), |fatal| Err(fatal.into()))
}

fn end_on_signals(cancel: &CancellationToken) -> anyhow::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut signals = signal(kind).context("could not listen for signals")?;
        let cancel = cancel.clone();
        tokio::spawn(async move {
            if signals.recv().await.is_some() {
                tracing::info!("asked to end; the act that has begun is finished first");
                cancel.cancel();
            }
        });
    }
    Ok(())
}
