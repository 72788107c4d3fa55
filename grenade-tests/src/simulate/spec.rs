//! The spec of an upgrade, as its people write it.

use super::scenario::UpgradePlan;
use super::sharing;
use super::world::{World, schema_name, tag, variable};
use serde_json::json;
use tidegate_proto::Digest;

/// The spec of an upgrade, with its first release or with a corrected one; where it was cut off, with that which runs.
pub(super) fn spec(world: &World, plan: &UpgradePlan, corrected: bool) -> serde_json::Value {
    let service = &world.scenario.services[plan.service];
    let to = plan.from + 1;
    let first = tag(&service.name, to);
    let mended = format!("{first}-mended");
    let tag = match world.goes_on_with.get(&plan.service) {
        Some(tag) if [&first, &mended].contains(&tag) => tag.clone(),
        _ if corrected => mended,
        _ => first,
    };
    let span = |ms: u64| format!("{ms}ms");
    let mut spec = json!({
        "service": service.name,
        "from": plan.from,
        "to": to,
        "release": {"tag": tag, "sha256": Digest::of(tag.as_bytes())},
        "strategy": plan.strategy,
        "min_in_service": plan.min_in_service,
        "max_unavailable": plan.max_unavailable,
        "health": {
            "min_healthy_time": span(plan.healthy_time), "healthy_deadline": "30s", "progress_deadline": "120s",
        },
        "drain": {
            "evidence": if service.asks_balancer { "haproxy" } else { "settle" },
            "settle": "3s", "deadline": span(plan.drain_deadline),
            "on_deadline": if plan.fails_on_deadline { "fail" } else { "proceed" },
        },
        "failures": {"tolerate": plan.tolerate, "per_wave": plan.tolerate, "then": plan.then},
        "approvals": plan.approvals,
    });
    if !plan.requires_gate.is_empty() {
        let required = plan.requires_gate.iter().map(|tag| json!({"tag": tag, "from": plan.from, "to": to}));
        spec["requires_gate"] = required.collect();
    }
    if plan.by_zone {
        spec["failure_domain"] = json!("zone");
    }
    if let Some(schema) = world.scenario.owned_schema(plan.service) {
        spec["schema"] = json!({
            "database": {"from_env": variable(schema)}, "migrations": schema_name(schema),
            "shared_with": sharing::shared_with(&world.scenario, plan),
        });
        if let Some(empty) = sharing::empty(&world.scenario, plan) {
            spec["schema"]["empty"] = json!([empty]);
        }
        let judge = world.databases[schema].judge();
        if let Some(session) = judge {
            spec["schema"]["allow_sessions"] = json!([session]);
        }
    }
    spec
}
