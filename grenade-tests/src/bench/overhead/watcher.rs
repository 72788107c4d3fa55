//! One watcher of etcd, outside the coordinator, who stamps what an upgrade comes to.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, bail};
use etcd_client::{Client, EventType, KeyValue, WatchOptions, WatchStream};
use tidegate_proto::key::Prefix;
use tidegate_proto::record::report::{Report, Rotation, Step};
use tidegate_proto::record::upgrade::{Phase, Upgrade};
use tidegate_proto::{Key, NodeId, Value};

/// A watcher that has begun.
pub(super) struct Watcher {
    stream: WatchStream,
    id: String,
    to: i64,
    nodes: usize,
}

/// When what was seen.
#[derive(Debug)]
pub(super) struct Walk {
    asked: Instant,
    rolls: Instant,
    last_back: Instant,
    completed: Instant,
    /// The sizes of the waves, as they were stored.
    pub waves: Vec<u32>,
}

impl Walk {
    /// Seconds from the roll being entered until the last instance was in rotation.
    pub(super) fn wall(&self) -> f64 {
        (self.last_back - self.rolls).as_secs_f64()
    }

    /// Seconds from the upgrade being stored until it was completed.
    pub(super) fn whole(&self) -> f64 {
        (self.completed - self.asked).as_secs_f64()
    }
}

/// Watches for the upgrade `id` of `nodes` instances to version `to`.
///
/// # Errors
/// When etcd cannot be watched.
pub(super) async fn watch(client: &mut Client, id: &str, to: u32, nodes: usize) -> anyhow::Result<Watcher> {
    let everything = WatchOptions::new().with_prefix();
    let stream = client.watch("/", Some(everything)).await.context("could not watch etcd")?;
    Ok(Watcher { stream, id: id.to_owned(), to: i64::from(to), nodes })
}

#[derive(Default)]
struct Stamps {
    asked: Option<Instant>,
    rolls: Option<Instant>,
    last_back: Option<Instant>,
    completed: Option<Instant>,
    back: BTreeSet<NodeId>,
    waves: Vec<u32>,
}

impl Watcher {
    /// Waits until the upgrade is completed.
    ///
    /// # Errors
    /// When it ends otherwise, or the watch breaks.
    pub(super) async fn end(mut self) -> anyhow::Result<Walk> {
        let prefix = Prefix::default();
        let mut stamps = Stamps::default();
        loop {
            let message = self.stream.message().await.context("the watch broke")?;
            let now = Instant::now();
            let message = message.context("the watch ended")?;
            let puts = message.events().iter().filter(|e| e.event_type() == EventType::Put);
            for (key, value) in puts.filter_map(|e| read(&prefix, e.kv()?)) {
                match (key, value) {
                    (Key::Upgrade(id), Value::Upgrade(upgrade)) if id.as_str() == self.id => {
                        stamps.moved(&upgrade.body, now)?;
                    }
                    (Key::Report(_, node), Value::Report(report)) => {
                        stamps.reported(node, &report.body, self.to, self.nodes, now);
                    }
                    _ => {}
                }
            }
            if let Some(completed) = stamps.completed {
                return stamps.whole(completed);
            }
        }
    }
}

impl Stamps {
    fn moved(&mut self, upgrade: &Upgrade, now: Instant) -> anyhow::Result<()> {
        self.asked.get_or_insert(now);
        if let Some(waves) = &upgrade.waves {
            self.waves.clone_from(&waves.sizes);
        }
        match &upgrade.phase {
            Phase::Roll { .. } => {
                self.rolls.get_or_insert(now);
            }
            Phase::Completed => self.completed = Some(now),
            phase @ (Phase::RollingBack { .. } | Phase::RolledBack { .. } | Phase::Failed { .. }) => {
                bail!("the upgrade came to {phase:?}")
            }
            _ => {}
        }
        Ok(())
    }

    fn reported(&mut self, node: NodeId, report: &Report, to: i64, nodes: usize, now: Instant) {
        let at = report.version.is_some_and(|version| i64::from(version.get()) == to);
        if at && report.step == Step::Serving && report.rotation == Rotation::In {
            self.back.insert(node);
            if self.back.len() == nodes {
                self.last_back.get_or_insert(now);
            }
        }
    }

    fn whole(self, completed: Instant) -> anyhow::Result<Walk> {
        Ok(Walk {
            asked: self.asked.context("the upgrade was never seen")?,
            rolls: self.rolls.context("the roll was never seen")?,
            last_back: self.last_back.context("not every instance was seen in rotation")?,
            completed,
            waves: self.waves,
        })
    }
}

fn read(prefix: &Prefix, kv: &KeyValue) -> Option<(Key, Value)> {
    let key = prefix.parse(kv.key())?.ok()?;
    let value = Value::decode(&key, kv.value()).ok()?;
    Some((key, value))
}
