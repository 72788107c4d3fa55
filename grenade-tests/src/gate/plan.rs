//! A plan: in which groups instances are upgraded, and what happens meanwhile. It is drawn from a seed, can be read and
//! edited, and is run again from its file.

mod event;
pub mod shrink;
mod step;

use std::fmt;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_planner::document::{self, Finding};
use tidegate_proto::Span;
use tidegate_proto::spec::Strategy;

pub use event::Event;
pub use step::{PlanStep, When};

use crate::gate::file::Gate;
use crate::gate::file::spec::spec;
use crate::gate::limits::MOST_INSTANCES;
use crate::gate::written::upgrade::UpgradeFields;
use crate::load::findings::Findings;
use crate::load::whole::whole_if_any;

/// A whole plan, for errors about others.
const EXAMPLE: &str = "{seed: 1, strategy: {rolling: {batch: 1}}, max_unavailable: 1, order: 1, steps: [{when: {upgraded: 1}, do: \
                       roll-back}]}";
/// The most steps that are drawn.
const MOST_STEPS: u32 = 4;
/// The highest number of an order of nodes.
const MOST_ORDERS: u64 = 9_999;
/// The longest pause or stall that is drawn, in milliseconds; a lease lapses sooner.
const LONGEST_MS: u64 = 4_000;

/// A plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it was drawn from; absent: it was written by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// In which groups instances are upgraded. Default: as the gate file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// How many may be out of rotation at once. Default: as the gate file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "whole_if_any::<_, _, 1, { MOST_INSTANCES - 1 }>")]
    #[schemars(range(min = 1, max = MOST_INSTANCES - 1))]
    pub max_unavailable: Option<u32>,
    /// In which order nodes are upgraded: it is drawn from this number, which the ID of the upgrade ends with. Default: from
    /// the ID without a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "whole_if_any::<_, _, 1, MOST_ORDERS>")]
    #[schemars(range(min = 1, max = MOST_ORDERS))]
    pub order: Option<u32>,
    /// What happens, in this order.
    #[serde(default)]
    pub steps: Vec<PlanStep>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(strategy) = &self.strategy {
            let strategy = serde_json::to_string(strategy).unwrap_or_default();
            parts.push(format!("strategy {}", strategy.replace('"', "")));
        }
        parts.extend(self.max_unavailable.map(|most| format!("{most} out at once")));
        parts.extend(self.order.map(|order| format!("nodes in order {order}")));
        parts.extend(self.steps.iter().map(PlanStep::to_string));
        f.write_str(&parts.join("; "))
    }
}

impl Plan {
    /// Draws one for a gate; the same seed draws the same.
    pub fn draw(seed: u64, gate: &Gate) -> Self {
        let mut dice = StdRng::seed_from_u64(seed);
        let strategies = [Strategy::default(), canary(), Strategy::Immediate];
        let strategy = Some(strategies[dice.random_range(0..strategies.len())].clone());
        let max_unavailable = Some(dice.random_range(1..=(gate.instances / 2).max(1)));
        let mut steps: Vec<PlanStep> =
            (0..dice.random_range(1..=MOST_STEPS)).map(|_| drawn(&mut dice, gate)).collect();
        // Counts grow; what depends on time comes where it was drawn.
        let counts = |step: &PlanStep| match step.when {
            When::Upgraded(count) => count,
            When::After(_) => 0,
        };
        steps.sort_by_key(counts);
        let order = Some(dice.random_range(1..=99));
        Self { seed: Some(seed), strategy, max_unavailable, order, steps }
    }

    /// Reads one, for a gate.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn load(path: &Path, gate: &Gate) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| anyhow::anyhow!("could not read the plan {}: {error}", path.display()))?;
        let in_file = |findings: &[Finding]| {
            let each = findings.iter().map(|finding| format!("{}:{finding}", path.display()));
            anyhow::anyhow!("{}", each.collect::<Vec<_>>().join("\n"))
        };
        if text.trim().is_empty() {
            let what = "is empty; `grenade plan` prints one".to_owned();
            return Err(in_file(&[Finding { line: 1, column: 1, what }]));
        }
        let (plan, located): (Self, _) =
            document::checked(&text, EXAMPLE).map_err(|findings| in_file(&findings))?;
        let flaws = plan.flaws(gate, "steps").located(&located);
        if flaws.is_empty() { Ok(plan) } else { Err(in_file(&flaws)) }
    }

    /// As its file.
    ///
    /// # Errors
    /// When it cannot be worded.
    pub fn yaml(&self) -> anyhow::Result<String> {
        Ok(serde_saphyr::to_string(self)?)
    }

    /// Everything that does not fit the gate; `steps` is what its list of steps is called.
    pub(super) fn flaws(&self, gate: &Gate, steps: &str) -> Findings {
        let mut flaws = Findings::default();
        if gate.procedure.is_some() {
            flaws.add(steps, "are for Tidegate; this gate has a `procedure`");
        }
        if let Some(out) = self.max_unavailable
            && !(1..gate.instances).contains(&out)
        {
            let most = gate.instances - 1;
            flaws.add("max_unavailable", format!("{out} is not allowed; 1 to {most} is"));
        }
        let mut findings = Findings::default();
        let fields = UpgradeFields { strategy: self.strategy.clone(), ..UpgradeFields::default() };
        spec(&fields, gate.instances, &mut findings);
        flaws.add_all(findings.without("upgrade."));
        for (n, step) in self.steps.iter().enumerate() {
            if let When::Upgraded(count) = step.when
                && !(1..=gate.instances).contains(&count)
            {
                let what = format!("{count}; 1 to {} is allowed", gate.instances);
                flaws.add(&format!("{steps}[{n}].when.upgraded"), what);
            }
            let event = format!("{steps}[{n}].do");
            match step.event {
                Event::KillAgent(node) | Event::StallAgent(node) if !(1..=gate.instances).contains(&node) => {
                    flaws.add(&event, format!("there is no node-{node}; 1 to {} are", gate.instances));
                }
                Event::Verify if gate.survival.is_none() => {
                    flaws.add(&event, "the gate has no `survival` that could be verified");
                }
                _ => {}
            }
        }
        flaws
    }
}

fn canary() -> Strategy {
    serde_json::from_str("{\"canary\": {}}").expect("the default canary is a strategy")
}

fn drawn(dice: &mut StdRng, gate: &Gate) -> PlanStep {
    let span = Span::from_millis(dice.random_range(2..=LONGEST_MS / 250) * 250);
    let node = dice.random_range(1..=gate.instances);
    let events = [
        Event::Pause(span),
        Event::RollBack,
        Event::KillCoordinator,
        Event::StallCoordinator(span),
        Event::KillAgent(node),
        Event::StallAgent(node),
        Event::Verify,
    ];
    let can_happen = |event: &Event| match event {
        Event::Verify => gate.survival.is_some(),
        // Else the agent is the health check, and its death is the instance's.
        Event::KillAgent(_) | Event::StallAgent(_) => gate.service.health.is_some(),
        _ => true,
    };
    let events: Vec<Event> = events.into_iter().filter(can_happen).collect();
    let event = events[dice.random_range(0..events.len())];
    // A rollback is possible only while some are not at the target.
    let by_count = event == Event::RollBack || dice.random_bool(0.7);
    let when = match by_count {
        true => When::Upgraded(dice.random_range(1..gate.instances)),
        false => When::After(Span::from_millis(dice.random_range(0..16) * 250)),
    };
    PlanStep { when, event }
}

#[cfg(test)]
mod tests;
