//! One turn: report, spread, gate, plan, act, record. Always from the whole state, never from the event that woke it. No
//! sleep, no retry: the next turn is the retry.

use crate::act::{self, Acted};
use crate::context::Context;
use crate::leadership::{Leadership, events_in};
use crate::record::waiting::Recorder;
use tidegate_planner::{Action, Plan, plan};
use tracing::Instrument;

/// Takes one turn of this leader. The caller has waited for the view to show the leader's own last commit.
pub(crate) async fn turn(
    context: &Context,
    leadership: &Leadership,
    recorder: &Recorder,
    workers: &act::Workers,
) -> Acted {
    let mut plan = {
        // Report and spread: all records at one revision, indexed by version as they came.
        let view = context.mirror.view();
        // Gate and plan: pure.
        leadership.plan(&view, |moment| plan(&view.fleet, moment), events_of)
    };
    let span = tracing::debug_span!("turn", actions = plan.actions.len());
    let acted = act::act(leadership, workers, &mut plan).instrument(span).await;
    recorder.record(plan.waiting);
    acted
}

fn events_of(plan: &Plan) -> u64 {
    let commits = plan.actions.iter().map(|action| match action {
        Action::Commit(planned) => events_in(&planned.commit),
        Action::Schema { .. } | Action::Certify { .. } => 0,
    });
    commits.sum()
}
