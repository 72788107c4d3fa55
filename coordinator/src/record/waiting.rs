//! Why each upgrade waits, kept in the store for people: written when the reasons change, at most once a second.
//! No decision reads them.

use crate::room::Room;
use crate::seat::{Seat, now};
use crate::telemetry::Chain;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tidegate_planner::Reason;
use tidegate_proto::record::waiting::{Waiting, WaitingFor};
use tidegate_proto::{Commit, Key, UpgradeId};
use tokio::time::Instant;

/// The most reasons that are stored; the rest is counted.
const MOST: usize = 100;

/// Reasons that change faster than people read are not all written.
const SPACING: Duration = Duration::from_secs(1);

/// What this leader has written.
#[derive(Debug, Default)]
pub struct Notes {
    written: BTreeMap<UpgradeId, Instant>,
}

impl Notes {
    /// Writes what has changed since the store was last told.
    pub async fn write(&mut self, room: &Room, seat: &Seat, reasons: BTreeMap<UpgradeId, Vec<Reason>>) {
        room.metrics.waits_for(&reasons);
        for (id, commit) in self.due(room, seat, &reasons) {
            match room.store.commit(&commit).await {
                Ok(committed) => seat.has_committed(committed.revision),
                // Nothing depends on it, and the next turn writes it again; a lost leadership ends by itself.
                Err(error) => tracing::debug!(upgrade = %id, error = %Chain(&error), "reasons not written"),
            }
            self.written.insert(id, Instant::now());
        }
    }

    fn due(
        &self,
        room: &Room,
        seat: &Seat,
        reasons: &BTreeMap<UpgradeId, Vec<Reason>>,
    ) -> Vec<(UpgradeId, Commit)> {
        let picture = room.mirror.picture();
        let ids: BTreeSet<&UpgradeId> = reasons.keys().chain(picture.waiting.keys()).collect();
        let mut due = Vec::new();
        for id in ids {
            let wanted = told(id, reasons.get(id).map_or(&[], Vec::as_slice));
            let stored = picture.waiting.get(id);
            let same = match stored {
                Some(stored) => stored.reasons == wanted.reasons && stored.more == wanted.more,
                None => wanted.reasons.is_empty(),
            };
            let recent = self.written.get(id).is_some_and(|at| at.elapsed() < SPACING);
            // The end of a wait is told at once: nobody should act on reasons that are gone.
            if same || (recent && !wanted.reasons.is_empty()) {
                continue;
            }
            let commit = Commit::new().when(seat.leading.fence());
            let key = Key::Waiting(id.clone());
            let commit = if wanted.reasons.is_empty() { commit.delete(key) } else { commit.put(key, wanted) };
            due.push((id.clone(), commit));
        }
        due
    }
}

fn told(id: &UpgradeId, reasons: &[Reason]) -> Waiting {
    let first: Vec<WaitingFor> = reasons.iter().take(MOST).map(|reason| reason.for_people(id)).collect();
    Waiting { more: (reasons.len() - first.len()) as u64, reasons: first, at: now() }
}
