//! Why each upgrade waits, kept in the store for people: written when the reasons change, at most once a second, and
//! their end at once, by a task of its own, so that no turn waits for it. No decision reads them, so a record that cannot be
//! read is written again, or removed.

use crate::context::Context;
use crate::leadership::{Leadership, now};
use crate::report::{Mirror, View};
use crate::telemetry::Chain;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tidegate_planner::Reason;
use tidegate_planner::gate::Waits;
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::waiting::{Waiting, WaitingFor};
use tidegate_proto::{Commit, Key, UpgradeId};
use tidegate_store::process::spawn;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The most reasons that are stored; the rest is counted.
const MOST: usize = 100;

/// Reasons that change faster than people read are not all written.
const SPACING: Duration = Duration::from_secs(1);

/// The reasons of every active upgrade, as a turn found them.
pub type Reasons = BTreeMap<UpgradeId, Vec<Reason>>;

/// The task that writes them, for one leadership.
pub struct Recorder {
    /// None until the first turn: what a former leader wrote is kept until then.
    reasons: watch::Sender<Option<Reasons>>,
    mirror: Arc<Mirror>,
    task: JoinHandle<()>,
}

impl Recorder {
    /// Begins to write.
    pub fn begin(context: &Context, leadership: &Arc<Leadership>) -> Self {
        let (reasons, found) = watch::channel(None);
        let writer = Writer {
            context: context.clone(),
            leadership: Arc::clone(leadership),
            recorded: BTreeMap::new(),
        };
        Self { reasons, mirror: Arc::clone(&context.mirror), task: spawn(writer.write(found)) }
    }

    /// Records what a turn found.
    pub fn record(&self, found: Reasons) {
        let is_unreadable = unreadable(&self.mirror.view()).next().is_some();
        self.reasons.send_if_modified(|reasons| {
            let found = Some(found);
            let changed = *reasons != found || is_unreadable;
            *reasons = found;
            changed
        });
    }

    /// Ends after the line under way.
    pub async fn stop(self) {
        drop(self.reasons);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the recorder broke");
        }
    }
}

struct Writer {
    context: Context,
    leadership: Arc<Leadership>,
    recorded: BTreeMap<UpgradeId, Recorded>,
}

/// What was last written of one upgrade.
struct Recorded {
    waiting: Waiting,
    /// When reasons were last written. The end of a wait does not count: of an upgrade whose orders are withdrawn and
    /// given again within a second, nothing would be written.
    reasons_at: Option<Instant>,
}

impl Recorded {
    /// The next record, written now.
    fn after(last: Option<&Self>, waiting: Waiting, now: Instant) -> Self {
        let reasons_at = match waiting.reasons.is_empty() {
            true => last.and_then(|last| last.reasons_at),
            false => Some(now),
        };
        Self { waiting, reasons_at }
    }

    /// From when on other reasons may be written; none = at once.
    fn due(&self) -> Option<Instant> {
        self.reasons_at.map(|at| at + SPACING)
    }
}

impl Writer {
    async fn write(mut self, mut found: watch::Receiver<Option<Reasons>>) {
        let mut later = None;
        loop {
            let wait = later.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
            tokio::select! {
                changed = found.changed() => if changed.is_err() { break },
                () = tokio::time::sleep_until(wait) => {}
            }
            let Some(reasons) = found.borrow_and_update().clone() else { continue };
            self.context.metrics.waits_for(&reasons);
            later = self.write_due(&reasons).await;
        }
        // Only the coordinator that leads knows why an upgrade waits.
        self.context.metrics.waits_for(&Reasons::new());
    }

    /// Writes what may be written now; when to look again.
    async fn write_due(&mut self, reasons: &Reasons) -> Option<Instant> {
        let mut later = None;
        for (id, wanted) in self.changed(reasons) {
            let due = self.recorded.get(&id).and_then(Recorded::due).filter(|due| *due > Instant::now());
            // The end of a wait is written at once, so that no operator acts on reasons that are gone.
            if let (Some(due), false) = (due, wanted.reasons.is_empty()) {
                later = Some(later.map_or(due, |other: Instant| other.min(due)));
                continue;
            }
            let now = Instant::now();
            if self.write_one(&id, &wanted).await {
                let written = Recorded::after(self.recorded.get(&id), wanted, now);
                self.recorded.insert(id, written);
            } else {
                later = Some(now + SPACING);
            }
        }
        later
    }

    /// Whether it is written; what is not is written a little later, or by the next leader.
    async fn write_one(&self, id: &UpgradeId, wanted: &Waiting) -> bool {
        let key = Key::Waiting(id.clone());
        let commit = match wanted.reasons.is_empty() {
            true => Commit::new().delete(key),
            false => Commit::new().put(key, wanted.clone()),
        };
        let written = self.leadership.commit(&commit).await;
        if let Err(error) = &written {
            // Nothing depends on it; a lost leadership ends by itself.
            tracing::debug!(upgrade = %id, error = %Chain(error), "reasons not written");
        }
        written.is_ok()
    }

    /// The reasons that differ from those recorded last, and those whose record cannot be read.
    fn changed(&self, reasons: &Reasons) -> Vec<(UpgradeId, Waiting)> {
        let view = self.context.mirror.view();
        let unreadable: BTreeSet<&UpgradeId> = unreadable(&view).collect();
        let known = reasons.keys().chain(view.waiting.keys()).chain(self.recorded.keys());
        let ids: BTreeSet<&UpgradeId> = known.chain(unreadable.iter().copied()).collect();
        let mut changed = Vec::new();
        for id in ids {
            let last = self
                .recorded
                .get(id)
                .map(|recorded| &recorded.waiting)
                .or(view.waiting.get(id).map(|stored| &stored.record.body));
            let wanted = recorded(id, reasons.get(id).map_or(&[], Vec::as_slice), last);
            let same = match last {
                Some(last) => last.reasons == wanted.reasons && last.more == wanted.more,
                None => wanted.reasons.is_empty(),
            };
            if !same || unreadable.contains(id) {
                changed.push((id.clone(), wanted));
            }
        }
        changed
    }
}

/// The upgrades whose record of reasons cannot be read.
fn unreadable(view: &View) -> impl Iterator<Item = &UpgradeId> {
    view.fleet.unreadable().filter_map(|(key, ..)| match key {
        Key::Waiting(id) => Some(id),
        _ => None,
    })
}

/// The record to write, where `last` is the record written last.
fn recorded(id: &UpgradeId, reasons: &[Reason], last: Option<&Waiting>) -> Waiting {
    let (at, last) = (now(), last.map_or(&[][..], |last| &last.reasons));
    let first = reasons.iter().take(MOST).map(|reason| reason.explained(Waits::Upgrade(id)));
    let first: Vec<WaitingFor> = first
        .map(|reason| WaitingFor { since: Some(since(&reason, last).unwrap_or(at)), ..reason })
        .collect();
    Waiting { more: (reasons.len() - first.len()) as u64, reasons: first, at }
}

/// Since when this has been waited for: the time of the same sentence in the last record, else of the oldest reason of
/// its kind, because counts and names change while the wait goes on.
fn since(reason: &WaitingFor, last: &[WaitingFor]) -> Option<Timestamp> {
    let same =
        last.iter().find(|other| (&other.kind, &other.blocked_on) == (&reason.kind, &reason.blocked_on));
    let alike = last.iter().filter(|other| other.kind == reason.kind).filter_map(|other| other.since).min();
    same.and_then(|same| same.since).or(alike)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_planner::gate::{BudgetGate, PersonGate};

    fn paused(why: &str) -> Reason {
        Reason::Person(PersonGate::Paused {
            who: "maria".to_owned(),
            why: why.to_owned(),
            rollback_path: true,
        })
    }

    /// The reasons as recorded a second after 1970.
    fn long_ago(reasons: &[Reason]) -> Waiting {
        let mut waiting = recorded(&"u".parse().unwrap(), reasons, None);
        waiting.reasons.iter_mut().for_each(|reason| reason.since = Some(Timestamp(1_000)));
        waiting
    }

    #[test]
    fn reasons_are_spaced_from_reasons_and_not_from_their_end() {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        let wait = || long_ago(&[paused("lunch")]);
        let first = Recorded::after(None, wait(), begun);
        assert_eq!(first.due(), Some(begun + second));
        let over = Recorded::after(Some(&first), Waiting::default(), begun + second);
        assert_eq!(over.due(), Some(begun + second), "the next wait is written as soon as it begins");
        let next = Recorded::after(Some(&over), wait(), begun + second);
        assert_eq!(next.due(), Some(begun + second + second));
        assert_eq!(Recorded::after(None, Waiting::default(), begun).due(), None);
    }

    #[test]
    fn a_wait_begins_once_whatever_is_said_of_it() {
        let id = "u".parse().unwrap();
        let begun = recorded(&id, &[paused("lunch")], None).reasons[0].since.unwrap();
        assert!(begun > Timestamp(1_000), "it begins when it is first recorded");
        let before = long_ago(&[paused("lunch")]);
        let other =
            Reason::Budget(BudgetGate::Capacity { in_service: 4, required: 4, out: Default::default() });
        let later = recorded(&id, &[paused("lunch, still"), other], Some(&before));
        assert_eq!(later.reasons[0].since, Some(Timestamp(1_000)));
        assert!(later.reasons[1].since >= Some(begun), "another kind of wait begins now");
        assert!(recorded(&id, &[paused("lunch")], Some(&Waiting::default())).reasons[0].since >= Some(begun));
    }
}
