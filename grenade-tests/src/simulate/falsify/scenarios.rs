//! The small worlds that are falsified: a few instances, two hops, no fault.

use crate::simulate::metadata_plan::{DocumentUpdate, MetadataPlan};
use crate::simulate::scenario::{
    Change, Generation, ReleasePlan, Scenario, SchemaPlan, ServicePlan, UpgradePlan,
};
use serde_json::json;
use tidegate_proto::GateTag;

/// Each with its name.
pub(super) fn scenarios() -> Vec<(&'static str, Scenario)> {
    vec![
        ("processes", with_schema(false, Change::Rename)),
        ("hooks", with_schema(true, Change::Rename)),
        ("rolled back", rolled_back(with_schema(true, Change::Add))),
        ("without a schema", without_schema(with_schema(false, Change::Rename))),
    ]
}

/// Whether the first upgrade of a scenario is rolled back.
pub(super) fn is_rolled_back(scenario: &Scenario) -> bool {
    scenario.upgrades[0].release == ReleasePlan::NeverStarts
}

/// Three instances that are moved one by one, and a balancer that is asked.
fn with_schema(hooks: bool, change: Change) -> Scenario {
    let service = ServicePlan {
        name: "pantry".to_owned(),
        nodes: vec![0, 1, 2],
        late: Vec::new(),
        asks_balancer: true,
        counts: true,
        hooks,
        unsupervised: false,
        starts_alone: false,
        one_url: false,
        lease: 3,
        schema: Some(0),
        lingers: 2_500,
    };
    let generation = Generation::new(change);
    Scenario {
        seed: 1,
        zones: ["a", "b", "c"].map(str::to_owned).into(),
        services: vec![service],
        schemas: vec![SchemaPlan::new(vec![generation.clone(), generation], 20)],
        coordinators: 1,
        upgrades: vec![upgrade(1), upgrade(2)],
        faults: Vec::new(),
        plan: Vec::new(),
        stream: None,
        metadata: (!hooks).then(metadata),
        falsify: None,
        max_request: None,
        latency: 0,
        lies_everywhere: false,
        reinstalled: false,
    }
}

/// One document for all three, one after the other.
fn metadata() -> MetadataPlan {
    let update =
        DocumentUpdate { at: 0, pattern: "rolling".to_owned(), batch: 1, timeout: 15_000, returns: true };
    MetadataPlan { on: 0, hook: false, updates: vec![update] }
}

fn upgrade(from: u32) -> UpgradePlan {
    UpgradePlan {
        service: 0,
        from,
        strategy: json!({"rolling": {"batch": 1}}),
        min_in_service: 2,
        max_unavailable: 1,
        by_zone: false,
        tolerate: 0,
        then: "rollback".to_owned(),
        approvals: vec!["remove".to_owned()],
        requires_gate: vec![GateTag::ZeroDowntime],
        release: ReleasePlan::Good,
        drain_deadline: 20_000,
        healthy_time: 2_000,
        tried_once: false,
        fails_on_deadline: false,
        order: None,
    }
}

fn rolled_back(mut scenario: Scenario) -> Scenario {
    scenario.upgrades[0].release = ReleasePlan::NeverStarts;
    scenario
}

fn without_schema(mut scenario: Scenario) -> Scenario {
    scenario.schemas.clear();
    scenario.services[0].schema = None;
    scenario
}
