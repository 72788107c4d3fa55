//! One turn: report, spread, gate, plan, act, record. Always from the whole state, never from the event that woke it. No
//! sleep, no retry: the next turn is the retry.

use crate::act::{self, Acted};
use crate::record::waiting::Scribe;
use crate::room::Room;
use crate::seat::{Seat, events_in};
use tidegate_planner::{Action, Plan, plan};
use tracing::Instrument;

/// Takes one turn of this leader. The caller has waited for the report to show the leader's own last commit.
pub async fn turn(room: &Room, seat: &Seat, scribe: &Scribe, workers: &act::Workers) -> Acted {
    let mut plan = {
        // Report and spread: all records at one revision, indexed by version as they came.
        let report = room.mirror.picture();
        // Gate and plan: pure.
        seat.plan(&report, |moment| plan(&report.fleet, moment), events_of)
    };
    let span = tracing::debug_span!("turn", actions = plan.actions.len());
    let acted = act::act(seat, workers, &mut plan).instrument(span).await;
    scribe.record(plan.waiting);
    acted
}

fn events_of(plan: &Plan) -> u64 {
    let commits = plan.actions.iter().map(|action| match action {
        Action::Commit(planned) => events_in(&planned.commit),
        Action::Schema { .. } | Action::Certify { .. } => 0,
    });
    commits.sum()
}
