//! A plan of a gate job in the simulated world: the same upgrade, and the same things happen to it, in the same order. Here a
//! plan takes a tenth of a second and any of them can be played again exactly.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tidegate_proto::record::upgrade::PhaseName;

use super::scenario::{
    Change, Fault, Generation, ReleasePlan, Scenario, SchemaPlan, ServicePlan, Step, UpgradePlan, What,
};
use super::upgrades::UpgradeSequence;
use super::world::World;
use crate::gate::file::{Gate, Schema};
use crate::gate::plan::{Event, Plan, When};

/// How long a stalled agent stalls, and a killed process is away, in milliseconds, as in a gate job.
const AWAY: u64 = 2_000;
/// Rows that the migration fills.
const ROWS: u64 = 20;

/// The scenario of a plan for a gate; `seed` decides what the plan does not say: latencies, the order of messages.
pub fn scenario(seed: u64, gate: &Gate, plan: &Plan) -> Scenario {
    let nodes: Vec<usize> = (0..gate.instances as usize).collect();
    let changes = matches!(gate.schema, Some(Schema::Migrations(_)));
    let service = ServicePlan {
        name: gate.service.name.to_string(),
        nodes: nodes.clone(),
        late: Vec::new(),
        asks_balancer: true,
        counts: gate.service.in_flight.is_some(),
        hooks: false,
        unsupervised: false,
        starts_alone: false,
        one_url: gate.service.health.as_ref() == Some(&gate.service.ready),
        lease: 5,
        schema: changes.then_some(0),
        lingers: 500,
    };
    Scenario {
        seed,
        zones: nodes.iter().map(|_| "a".to_owned()).collect(),
        services: vec![service],
        schemas: changes
            .then(|| SchemaPlan::new(vec![Generation::new(Change::Rename)], ROWS))
            .into_iter()
            .collect(),
        coordinators: 1,
        upgrades: vec![upgrade(gate, plan)],
        faults: Vec::new(),
        plan: plan.steps.iter().filter_map(|of| step(of.when, of.event)).collect(),
        falsify: None,
        stream: None,
        metadata: None,
        max_request: None,
        latency: 0,
        lies_everywhere: false,
        reinstalled: false,
    }
}

/// What the gate file says of the upgrade, and over it what the plan says.
fn upgrade(gate: &Gate, plan: &Plan) -> UpgradePlan {
    let fields = gate.upgrade.fields();
    let field = |name: &str| fields.get(name);
    let instances = u64::from(gate.instances);
    let out = plan.max_unavailable.map(u64::from);
    let strategy = plan.strategy.as_ref().map(|strategy| json!(strategy));
    let approvals = field("approvals").and_then(Value::as_array).into_iter().flatten();
    let then = field("failures").and_then(|failures| failures["then"].as_str());
    UpgradePlan {
        service: 0,
        from: 1,
        strategy: strategy.or_else(|| field("strategy").cloned()).unwrap_or_else(|| json!({"rolling": {}})),
        min_in_service: out
            .map(|out| instances.saturating_sub(out))
            .unwrap_or_else(|| u64::from(gate.least_in_service())),
        max_unavailable: out.unwrap_or_else(|| u64::from(gate.most_out())),
        by_zone: false,
        tolerate: 0,
        then: then.unwrap_or("rollback").to_owned(),
        approvals: approvals.filter_map(|phase| Some(phase.as_str()?.to_owned())).collect(),
        requires_gate: Vec::new(),
        release: ReleasePlan::Good,
        drain_deadline: 30_000,
        healthy_time: 1_000,
        tried_once: false,
        fails_on_deadline: true,
        order: plan.order,
    }
}

/// None for what only looks: here the judge looks after every step.
fn step(when: When, event: Event) -> Option<Step> {
    let place = |node: u32| (node as usize).saturating_sub(1);
    let (what, lasts) = match event {
        Event::Pause(span) => (What::Pause, span.as_millis()),
        Event::RollBack => (What::RollBack, 0),
        Event::KillCoordinator => (What::CoordinatorKilled(0), AWAY),
        Event::StallCoordinator(span) => (What::CoordinatorStalled(0), span.as_millis()),
        Event::KillAgent(node) => (What::AgentKilled(place(node)), AWAY),
        Event::StallAgent(node) => (What::AgentStalled(place(node)), AWAY),
        Event::Verify => return None,
    };
    let (upgraded, after) = match when {
        When::Upgraded(count) => (Some(u64::from(count)), 0),
        When::After(span) => (None, span.as_millis()),
    };
    Some(Step { upgraded, after, lasts, what })
}

/// The steps that are still to come.
#[derive(Debug)]
pub(super) struct Steps(VecDeque<Step>);

impl Steps {
    /// Those of a scenario.
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self(scenario.plan.iter().cloned().collect())
    }

    /// The next one, where it happens now to the upgrade of this service. After a rollback it waits for the next upgrade.
    pub(super) fn due(&mut self, world: &World, sequence: &UpgradeSequence) -> Option<Fault> {
        let (next, current) = (self.0.front()?, sequence.current.as_ref()?);
        let phase = world.testbed.state().facts.phases.get(&current.id).map(|(phase, _)| *phase)?;
        let goes_forward = !matches!(
            phase,
            PhaseName::RollingBack | PhaseName::RolledBack | PhaseName::Completed | PhaseName::Failed
        );
        let upgrade = &world.scenario.upgrades[current.plan];
        let is_reached =
            next.upgraded.is_none_or(|count| world.runs_at(upgrade.service, upgrade.from + 1) >= count);
        if !goes_forward || !is_reached || world.testbed.now() < current.since + next.after {
            return None;
        }
        let Step { lasts, what, .. } = self.0.pop_front()?;
        Some(Fault { upgrade: current.plan, phase: String::new(), after: 0, lasts, what })
    }
}
