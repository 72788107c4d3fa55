//! One turn, read aloud: report, spread, gate, plan, act, record. Always from the whole state, never from the event
//! that woke it. No sleep, no retry: the next turn is the retry.

use crate::act::{self, Acted};
use crate::record::waiting::Notes;
use crate::room::Room;
use crate::seat::{Seat, events_in};
use tidegate_planner::{Action, Plan, plan};
use tracing::Instrument;

/// Takes one turn of this leader. The caller has waited for the picture to show the leader's own last commit.
pub async fn turn(room: &Room, seat: &Seat, notes: &mut Notes, workers: &act::Workers) -> Acted {
    workers.reap().await;
    let mut plan = decide(room, seat);
    let span = tracing::debug_span!("turn", actions = plan.actions.len());
    for action in &plan.actions {
        if let Action::Certify { upgrade } = action {
            plan.waiting.entry(upgrade.clone()).or_default().extend(workers.uncertified(upgrade));
        }
    }
    async {
        let acted = act::carry_out(room, seat, workers, plan.actions).await;
        notes.write(room, seat, plan.waiting).await;
        acted
    }
    .instrument(span)
    .await
}

/// Report, spread, gates and plan: pure, over what is seen now.
fn decide(room: &Room, seat: &Seat) -> Plan {
    let picture = room.mirror.picture();
    seat.plan(&picture.fleet, |moment| plan(&picture.fleet, moment), events_of)
}

fn events_of(plan: &Plan) -> u64 {
    let commits = plan.actions.iter().map(|action| match action {
        Action::Commit(planned) => events_in(&planned.commit),
        Action::Schema { .. } | Action::Certify { .. } => 0,
    });
    commits.sum()
}
