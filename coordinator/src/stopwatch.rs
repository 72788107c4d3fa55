//! How long each upgrade has waited: what its record says plus what this leader counted since it saw the record.
//! Clocks of two machines are never compared; what is lost between two leaders makes waits longer, never shorter.

use std::collections::BTreeMap;
use tidegate_planner::{Elapsed, Fleet, ServiceFleet};
use tidegate_proto::record::upgrade::{Phase, RollbackStep, Upgrade};
use tidegate_proto::{GroupName, InstanceId, Revision, ServiceName, StreamName, UpgradeId};
use tokio::time::Instant;

/// A stopwatch for each active upgrade.
#[derive(Debug, Default)]
pub(crate) struct Stopwatches {
    each: BTreeMap<UpgradeId, Stopwatch>,
    /// Whether the last turn withheld something.
    withholds: bool,
}

#[derive(Debug)]
struct Stopwatch {
    phase: Phase,
    written: Revision,
    held: bool,
    elapsed: Elapsed,
    at: Instant,
}

impl Stopwatches {
    /// Reads them all, after starting those that are new and dropping those of upgrades that are over. Where nothing acts,
    /// as before a person has reconciled the store, what waits for that is no stall.
    pub(crate) fn read(&mut self, fleet: &Fleet, nothing_acts: bool) -> BTreeMap<UpgradeId, Elapsed> {
        let now = Instant::now();
        let mut kept = BTreeMap::new();
        let mut shown = BTreeMap::new();
        for (id, upgrade) in fleet.active_upgrades() {
            let mut watch = match self.each.remove(id) {
                Some(watch) => watch.carried_on(upgrade, upgrade.at, now, self.withholds),
                None => Stopwatch::begun(upgrade, upgrade.at, now),
            };
            watch.held |= nothing_acts && !goes_back(&upgrade.phase);
            shown.insert(id.clone(), watch.elapsed);
            kept.insert(id.clone(), watch);
        }
        self.each = kept;
        shown
    }

    /// Whether a turn withholds something: no upgrade stalls then until the next turn, however often this is read between.
    pub(crate) fn withhold(&mut self, withholds: bool) {
        self.withholds = withholds;
    }
}

/// Whether instances go back, which they do also where nothing else acts.
fn goes_back(phase: &Phase) -> bool {
    matches!(phase, Phase::RollingBack { step: RollbackStep::Restage | RollbackStep::Move, .. })
}

impl Stopwatch {
    fn begun(upgrade: &Upgrade, written: Revision, at: Instant) -> Self {
        Self {
            phase: upgrade.phase.clone(),
            written,
            held: upgrade.paused.is_some(),
            elapsed: Elapsed { stalled_ms: upgrade.stalled_ms, phase_ms: upgrade.phase_ms },
            at,
        }
    }

    /// The record is the truth about where a count began: a writer that rewrites it carries the count over or restarts
    /// it. Between two rewrites this leader counts on.
    fn carried_on(self, upgrade: &Upgrade, written: Revision, now: Instant, withheld: bool) -> Self {
        let mut next = Self::begun(upgrade, written, now);
        let passed = u64::try_from(now.duration_since(self.at).as_millis()).unwrap_or(u64::MAX);
        // Whole milliseconds only: what is less stays for the next reading.
        next.at = self.at + std::time::Duration::from_millis(passed);
        if self.phase.name() == next.phase.name() {
            next.elapsed.phase_ms = next.elapsed.phase_ms.max(self.elapsed.phase_ms + passed);
        }
        if self.written == written {
            // Waiting for a person or for a recent view never counts as failure.
            let counted = if self.held || withheld { 0 } else { passed };
            next.elapsed.stalled_ms = self.elapsed.stalled_ms + counted;
        }
        next
    }
}

/// How long the record of each release stream is unchanged, by this leader's count: what its own counts lack.
#[derive(Debug, Default)]
pub(crate) struct StreamWatches(RecordWatches<StreamName>);

impl StreamWatches {
    /// Reads them all, in milliseconds. Where nothing acts, no signal of a compute is taken either: that time does not count.
    pub(crate) fn read(&mut self, fleet: &Fleet, nothing_acts: bool) -> BTreeMap<StreamName, u64> {
        self.0.read(fleet.streams().map(|(name, stream)| (name.clone(), stream.at)), nothing_acts)
    }
}

/// The same of each metadata group.
#[derive(Debug, Default)]
pub(crate) struct GroupWatches(RecordWatches<GroupName>);

impl GroupWatches {
    /// Reads them all, in milliseconds.
    pub(crate) fn read(&mut self, fleet: &Fleet, nothing_acts: bool) -> BTreeMap<GroupName, u64> {
        self.0.read(fleet.groups().map(|(name, group)| (name.clone(), group.at)), nothing_acts)
    }
}

/// How long ago each instance was first seen to decline its last directive.
#[derive(Debug, Default)]
pub(crate) struct DeclineWatches(RecordWatches<InstanceId>);

impl DeclineWatches {
    /// Reads them all, in milliseconds.
    pub(crate) fn read(&mut self, fleet: &Fleet) -> BTreeMap<InstanceId, u64> {
        let declined = fleet.services().flat_map(|service| {
            service.declined().each.filter_map(|instance| {
                let id = InstanceId::new(service.name().clone(), instance.node.clone());
                Some((id, instance.directive.as_ref()?.at))
            })
        });
        self.0.read(declined, false)
    }
}

/// How long ago each service was first seen with the last order of its upgrade that let instances back into rotation.
#[derive(Debug, Default)]
pub(crate) struct RecallWatches(RecordWatches<ServiceName>);

impl RecallWatches {
    /// Reads them all, in milliseconds.
    pub(crate) fn read(&mut self, fleet: &Fleet) -> BTreeMap<ServiceName, u64> {
        let last = |service: &ServiceFleet| {
            let (name, at) = (service.name(), service.last_recall()?);
            // The instance of the last order may be taken out again. What is left then is an earlier order, and no new one.
            Some((name.clone(), self.0.written(name).map_or(at, |seen| seen.max(at))))
        };
        let recalled: Vec<_> = fleet.services().filter_map(last).collect();
        self.0.read(recalled.into_iter(), false)
    }
}

/// How long records are unchanged.
#[derive(Debug)]
struct RecordWatches<Name> {
    records: BTreeMap<Name, (Revision, Instant)>,
    /// The last reading, where nothing has counted since then.
    held: Option<Instant>,
}

impl<Name> Default for RecordWatches<Name> {
    fn default() -> Self {
        Self { records: BTreeMap::new(), held: None }
    }
}

impl<Name: Ord + Clone> RecordWatches<Name> {
    /// The revision from which a name is counted.
    fn written(&self, name: &Name) -> Option<Revision> {
        self.records.get(name).map(|(written, _)| *written)
    }

    /// Reads them all, in milliseconds; a rewrite of a record has stored the count, so it restarts. `held`: the time from now
    /// until the next reading does not count.
    fn read(&mut self, records: impl Iterator<Item = (Name, Revision)>, held: bool) -> BTreeMap<Name, u64> {
        let now = Instant::now();
        let uncounted = self.held.map(|at| now.duration_since(at)).unwrap_or_default();
        let mut kept = BTreeMap::new();
        let mut shown = BTreeMap::new();
        for (name, at) in records {
            let stood = self.records.remove(&name).filter(|(written, _)| *written == at);
            let (written, since) = stood.map_or((at, now), |(written, since)| (written, since + uncounted));
            let passed = now.duration_since(since).as_millis();
            shown.insert(name.clone(), u64::try_from(passed).unwrap_or(u64::MAX));
            kept.insert(name, (written, since));
        }
        self.records = kept;
        self.held = held.then_some(now);
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn upgrade(change: serde_json::Value) -> Upgrade {
        let mut value = serde_json::json!({
            "spec": {
                "service": "s", "from": 1, "to": 2, "release": { "tag": "r", "sha256": "0".repeat(64) },
            },
            "digest": "0".repeat(64), "by": "op", "at": 0, "phase": { "name": "roll", "wave": 0 },
            "stalled_ms": 5000, "phase_ms": 7000, "done": 2,
        });
        value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    /// A fleet with that upgrade.
    fn active(change: serde_json::Value) -> (Fleet, UpgradeId) {
        use tidegate_proto::{Key, Value};
        let (mut fleet, id): (Fleet, UpgradeId) = (Fleet::new(), "u1".parse().unwrap());
        let (key, active) =
            (Key::Active("s".parse().unwrap()), serde_json::json!({"schema": 1, "upgrade": id}));
        let value = Value::decode(&key, active.to_string().as_bytes());
        fleet.put(key, value, Revision(1));
        fleet.put(Key::Upgrade(id.clone()), Ok(Value::from(upgrade(change))), Revision(1));
        (fleet, id)
    }

    /// What is shown after a minute, at whose end the first record became this one.
    fn after_a_minute(change: serde_json::Value) -> Elapsed {
        let start = Instant::now();
        let rewritten = Revision(1 + i64::from(change != serde_json::json!({})));
        let watch = Stopwatch::begun(&upgrade(serde_json::json!({})), Revision(1), start);
        watch.carried_on(&upgrade(change), rewritten, start + Duration::from_secs(60), false).elapsed
    }

    #[test]
    fn a_count_goes_on_from_the_record() {
        let same = after_a_minute(serde_json::json!({}));
        assert_eq!(same, Elapsed { stalled_ms: 65_000, phase_ms: 67_000 });
        let stored = after_a_minute(serde_json::json!({"stalled_ms": 64_000, "phase_ms": 66_000}));
        assert_eq!(stored, Elapsed { stalled_ms: 64_000, phase_ms: 67_000 }, "never more than the truth");
    }

    #[test]
    fn progress_resets_the_stall_and_a_phase_both() {
        let progress = after_a_minute(serde_json::json!({"done": 3, "stalled_ms": 0}));
        assert_eq!(progress, Elapsed { stalled_ms: 0, phase_ms: 67_000 });
        let wave = after_a_minute(serde_json::json!({"phase": {"name": "roll", "wave": 1}, "stalled_ms": 0}));
        assert_eq!(wave, Elapsed { stalled_ms: 0, phase_ms: 67_000 });
        let phase =
            after_a_minute(serde_json::json!({"phase": {"name": "remove"}, "stalled_ms": 0, "phase_ms": 0}));
        assert_eq!(phase, Elapsed::default());
    }

    #[test]
    fn count_reset_by_a_person_is_not_continued() {
        let resumed = after_a_minute(serde_json::json!({"stalled_ms": 0}));
        assert_eq!(resumed, Elapsed { stalled_ms: 0, phase_ms: 67_000 });
    }

    #[test]
    fn waiting_for_a_person_is_no_stall() {
        let paused = upgrade(serde_json::json!({"paused": {"who": "op", "why": "x", "at": 0}}));
        let start = Instant::now();
        let watch = Stopwatch::begun(&paused, Revision(1), start);
        let after = watch.carried_on(&paused, Revision(1), start + Duration::from_secs(60), false);
        assert_eq!(after.elapsed, Elapsed { stalled_ms: 5_000, phase_ms: 67_000 });
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_reconciliation_or_a_view_is_no_stall() {
        let stalled = async |phase: serde_json::Value, nothing_acts: bool, withholds: bool| {
            let ((fleet, id), mut watches) =
                (active(serde_json::json!({"phase": phase})), Stopwatches::default());
            watches.read(&fleet, nothing_acts);
            watches.withhold(withholds);
            tokio::time::advance(Duration::from_secs(60)).await;
            watches.read(&fleet, false)[&id].stalled_ms
        };
        let roll = || serde_json::json!({"name": "roll", "wave": 0});
        assert_eq!(stalled(roll(), false, false).await, 65_000);
        assert_eq!(stalled(roll(), true, false).await, 5_000);
        let back = |step: &str| {
            let (name, from) = ("rolling-back", "preflight");
            serde_json::json!({"name": name, "from": from, "step": step, "because": "x"})
        };
        assert_eq!(stalled(back("move"), true, false).await, 65_000, "instances go back all the same");
        assert_eq!(stalled(back("undo"), true, false).await, 5_000);
        assert_eq!(stalled(back("move"), false, true).await, 5_000, "an order was withheld by an old view");
    }

    #[tokio::test(start_paused = true)]
    async fn no_stall_is_counted_from_a_turn_that_withholds_to_the_next() {
        let ((fleet, id), mut watches) = (active(serde_json::json!({})), Stopwatches::default());
        let mut after_10_s = async |withholds: Option<bool>| {
            tokio::time::advance(Duration::from_secs(10)).await;
            let elapsed = watches.read(&fleet, false);
            withholds.into_iter().for_each(|withholds| watches.withhold(withholds));
            elapsed[&id].stalled_ms
        };
        assert_eq!(after_10_s(Some(true)).await, 5_000, "it was just seen");
        assert_eq!(after_10_s(None).await, 5_000, "a turn withheld something");
        assert_eq!(after_10_s(None).await, 5_000, "no turn was taken since");
        assert_eq!(after_10_s(Some(false)).await, 5_000);
        assert_eq!(after_10_s(Some(false)).await, 15_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_is_counted_from_when_its_record_was_last_written() {
        use tidegate_proto::{Key, Value, record::stream::Stream};
        let (mut fleet, mut watches) = (Fleet::new(), StreamWatches::default());
        let name: StreamName = "compute".parse().unwrap();
        let mut shown = async |written: i64, wait: u64| {
            fleet.put(Key::Stream(name.clone()), Ok(Value::from(Stream::default())), Revision(written));
            tokio::time::advance(Duration::from_millis(wait)).await;
            watches.read(&fleet, false)[&name]
        };
        assert_eq!(shown(1, 0).await, 0);
        assert_eq!(shown(1, 1_500).await, 1_500);
        assert_eq!(shown(1, 500).await, 2_000);
        assert_eq!(shown(2, 500).await, 0, "it was written, with its count");
        assert_eq!(shown(2, 300).await, 300);
    }

    #[tokio::test(start_paused = true)]
    async fn stream_counts_no_wait_for_a_reconciliation() {
        use tidegate_proto::{Key, Value, record::stream::Stream};
        let (mut fleet, mut watches) = (Fleet::new(), StreamWatches::default());
        let name: StreamName = "compute".parse().unwrap();
        fleet.put(Key::Stream(name.clone()), Ok(Value::from(Stream::default())), Revision(1));
        let mut shown = async |nothing_acts: bool| {
            tokio::time::advance(Duration::from_secs(60)).await;
            watches.read(&fleet, nothing_acts)[&name]
        };
        assert_eq!(shown(false).await, 0);
        assert_eq!(shown(true).await, 60_000, "until then it was counted");
        assert_eq!(shown(true).await, 60_000);
        assert_eq!(shown(false).await, 60_000, "it was reconciled in this minute");
        assert_eq!(shown(false).await, 120_000);
    }

    #[tokio::test(start_paused = true)]
    async fn decline_is_counted_from_when_it_was_seen() {
        use tidegate_proto::{Key, Value};
        let (mut fleet, mut watches) = (Fleet::new(), DeclineWatches::default());
        let id: InstanceId = "pantry/n0".parse().unwrap();
        let identity = serde_json::json!({"nonce": "n", "boot": "b"});
        let mut shown = async |ordered: i64, declined: bool, wait: u64| {
            let admitted = serde_json::json!({"schema": 1, "version": 1, "identity": identity, "at": 1});
            let directive = serde_json::json!({
                "schema": 1, "upgrade": "u1", "disposition": {"name": "drain"}, "drain": {}, "health": {},
                "term": "t1", "presumes_out": true,
            });
            let report = serde_json::json!({
                "schema": 1, "version": 1, "admission": 1, "rotation": "out", "health": "healthy",
                "step": {"name": "serving"}, "identity": identity, "generation": ordered, "declined": declined,
            });
            let (service, node) = (id.service.clone(), id.node.clone());
            let records = [
                (Key::Inventory(service.clone(), node.clone()), admitted, 1),
                (Key::Directive(service.clone(), node.clone()), directive, ordered),
                (Key::Report(service, node), report, ordered + 1),
            ];
            for (key, text, at) in records {
                let value = Value::decode(&key, text.to_string().as_bytes());
                fleet.put(key, value, Revision(at));
            }
            tokio::time::advance(Duration::from_millis(wait)).await;
            watches.read(&fleet).get(&id).copied()
        };
        assert_eq!(shown(2, false, 900).await, None, "it is not declined");
        assert_eq!(shown(2, true, 900).await, Some(0));
        assert_eq!(shown(2, true, 900).await, Some(900), "its report was written again");
        assert_eq!(shown(5, true, 900).await, Some(0), "the next order is declined, too");
        assert_eq!(shown(5, false, 900).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn recall_is_counted_from_the_last_one_of_the_upgrade() {
        use tidegate_proto::{Key, Value};
        let ((mut fleet, _), mut watches) = (active(serde_json::json!({})), RecallWatches::default());
        let service: ServiceName = "s".parse().unwrap();
        let mut shown = async |node: &str, by: &str, returning: bool, ordered: i64| {
            let identity = serde_json::json!({"nonce": "n", "boot": "b"});
            let admitted = serde_json::json!({"schema": 1, "version": 1, "identity": identity, "at": 1});
            let directive = serde_json::json!({
                "schema": 1, "upgrade": by, "disposition": {"name": "serve", "returning": returning}, "drain": {},
                "health": {}, "term": "t1",
            });
            let node: tidegate_proto::NodeId = node.parse().unwrap();
            let records = [
                (Key::Inventory(service.clone(), node.clone()), admitted, 1),
                (Key::Directive(service.clone(), node), directive, ordered),
            ];
            for (key, text, at) in records {
                let value = Value::decode(&key, text.to_string().as_bytes());
                fleet.put(key, value, Revision(at));
            }
            tokio::time::advance(Duration::from_millis(900)).await;
            watches.read(&fleet).get(&service).copied()
        };
        assert_eq!(shown("n0", "u0", true, 2).await, None, "a former upgrade has ordered it");
        assert_eq!(shown("n0", "u1", false, 3).await, None, "it was not taken out before");
        assert_eq!(shown("n0", "u1", true, 4).await, Some(0));
        assert_eq!(shown("n1", "u1", false, 5).await, Some(900));
        assert_eq!(shown("n1", "u1", true, 6).await, Some(0), "another one follows");
        assert_eq!(shown("n1", "u1", true, 6).await, Some(900));
        assert_eq!(shown("n1", "u1", false, 7).await, Some(1_800), "that of n0 was given before");
        assert_eq!(shown("n0", "u1", true, 8).await, Some(0), "it is given again");
    }
}
