//! One turn: report, spread, gate, plan, act, record. Always from the whole state, never from the event that woke it. No
//! sleep, no retry: the next turn is the retry.
//!
//! Report, plan, act and record are calls here. The spread of each service (`tidegate_planner::spread`) is counted in the
//! fleet as records come, so that no turn counts it again. Gates (`tidegate_planner::gate`) are asked by the planner: first
//! that of the store, then those of each step, so that no step is planned without them.

use crate::act::{self, Acted};
use crate::context::Context;
use crate::leadership::Leadership;
use crate::record::waiting::Recorder;
use tidegate_planner::plan;
use tokio::time::Instant;
use tracing::Instrument;

/// Takes one turn of this leader. The caller has waited for the view to show the leader's own last commit.
pub(crate) async fn turn(
    context: &Context,
    leadership: &Leadership,
    recorder: &Recorder,
    workers: &act::Workers,
) -> Acted {
    let planned_at = Instant::now();
    let mut plan = {
        // Report: all records at one revision.
        let view = context.mirror.view();
        // Plan: pure.
        leadership.plan(&view, |moment| plan(&view.fleet, moment), |plan| plan.events)
    };
    leadership.withholds(!plan.withheld.is_empty());
    let span = tracing::debug_span!("turn", actions = plan.actions.len());
    let acted = act::act(leadership, workers, &mut plan, planned_at).instrument(span).await;
    recorder.record(plan.waiting);
    acted
}
