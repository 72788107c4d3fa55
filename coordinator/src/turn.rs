//! One turn, read aloud: report, spread, gate, plan, act, record. Always from the whole state, never from the event
//! that woke it. No sleep, no retry: the next turn is the retry.

use crate::act::{self, Acted};
use crate::record::waiting::Scribe;
use crate::room::Room;
use crate::seat::{Seat, events_in};
use tidegate_planner::{Action, Plan, plan};
use tidegate_proto::key::Subject;
use tracing::Instrument;

/// Takes one turn of this leader. The caller has waited for the picture to show the leader's own last commit.
pub async fn turn(room: &Room, seat: &Seat, scribe: &Scribe, workers: &act::Workers) -> Acted {
    workers.reap().await;
    let mut plan = workers.with_doubts(decide(room, seat));
    workers.rest_but(&plan);
    let span = tracing::debug_span!("turn", actions = plan.actions.len());
    async {
        let acted = act::carry_out(seat, workers, plan.actions).await;
        for (id, reasons) in &mut plan.waiting {
            reasons.extend(seat.refused(&Subject::Upgrade(id.clone())));
        }
        scribe.note(plan.waiting);
        acted
    }
    .instrument(span)
    .await
}

/// Report, spread, gates and plan: pure, over what is seen now.
fn decide(room: &Room, seat: &Seat) -> Plan {
    let picture = room.mirror.picture();
    seat.plan(&picture, |moment| plan(&picture.fleet, moment), events_of)
}

fn events_of(plan: &Plan) -> u64 {
    let commits = plan.actions.iter().map(|action| match action {
        Action::Commit(planned) => events_in(&planned.commit),
        Action::Schema { .. } | Action::Certify { .. } => 0,
    });
    commits.sum()
}
