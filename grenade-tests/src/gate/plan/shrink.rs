//! Makes a plan that fails smaller, as long as it fails.

use tidegate_proto::spec::Strategy;

use crate::gate::plan::Plan;

/// What a plan may be made simpler to, the boldest first.
fn simpler(plan: &Plan) -> Vec<Plan> {
    let mut simpler = Vec::new();
    if plan.steps.len() > 1 {
        simpler.push(Plan { steps: Vec::new(), ..plan.clone() });
        let half = plan.steps.len() / 2;
        simpler.push(Plan { steps: plan.steps[half..].to_vec(), ..plan.clone() });
        simpler.push(Plan { steps: plan.steps[..half].to_vec(), ..plan.clone() });
    }
    for n in 0..plan.steps.len() {
        let mut steps = plan.steps.clone();
        steps.remove(n);
        simpler.push(Plan { steps, ..plan.clone() });
    }
    if plan.order.is_some() {
        simpler.push(Plan { order: None, ..plan.clone() });
    }
    if plan.max_unavailable > Some(1) {
        simpler.push(Plan { max_unavailable: Some(1), ..plan.clone() });
    }
    if plan.strategy.as_ref().is_some_and(|strategy| *strategy != Strategy::default()) {
        simpler.push(Plan { strategy: Some(Strategy::default()), ..plan.clone() });
    }
    simpler
}

/// The smallest plan that still fails, of those that can be reached by leaving something out: `fails` runs one. Which plans
/// were tried is remembered, so none is run twice. One that could not be run to a verdict is not known to fail: it is left
/// out, because the verdict on the larger one is known already.
pub async fn shrink(plan: Plan, mut fails: impl AsyncFnMut(&Plan) -> anyhow::Result<bool>) -> Plan {
    // What is left is not what a seed draws.
    let (mut smallest, mut tried) = (Plan { seed: None, ..plan }, Vec::new());
    'smaller: loop {
        for candidate in simpler(&smallest) {
            if tried.contains(&candidate) {
                continue;
            }
            tried.push(candidate.clone());
            if fails(&candidate).await.unwrap_or(false) {
                smallest = candidate;
                continue 'smaller;
            }
        }
        return smallest;
    }
}
