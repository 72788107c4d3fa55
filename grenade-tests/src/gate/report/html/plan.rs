//! What was to happen: by whom the fleet was upgraded, and what happened beside it.

use std::fmt::Write;

use crate::gate::plan::Plan;
use crate::gate::report::junit::{escaped, lines};
use crate::gate::report::{GateReport, PlanFrom};

/// The procedure, or the spec; and the steps of `--plan` or `faults`.
pub(super) fn plan(page: &mut String, report: &GateReport, spec: &str) {
    page.push_str("<h2>Plan</h2>");
    // Writing to a string cannot fail.
    if let Some(command) = &report.procedure_command {
        let _ = write!(
            page,
            "<p>The fleet is upgraded by the command of <code>procedure</code>:</p><pre>{}</pre>",
            escaped(command)
        );
    }
    if let Some(plan) = &report.plan {
        steps(page, plan, report.plan_from);
    }
    if !spec.trim().is_empty() {
        let _ = write!(
            page,
            "<p>The fleet is upgraded by Tidegate, with this spec:</p><pre>{}</pre>",
            lines(spec)
        );
    }
}

fn steps(page: &mut String, plan: &Plan, from: Option<PlanFrom>) {
    let source = match from {
        Some(PlanFrom::GateFile) => "<code>faults</code> of the gate file",
        Some(PlanFrom::CommandLine) | None => "<code>--plan</code>",
    };
    let mut bounds = Vec::new();
    bounds.extend(plan.seed.map(|seed| format!("drawn from seed {seed}")));
    if let Some(strategy) = &plan.strategy {
        bounds.push(format!("strategy {}", serde_json::to_string(strategy).unwrap_or_default()));
    }
    bounds.extend(plan.max_unavailable.map(|most| format!("at most {most} out of rotation at once")));
    let bounds = match bounds.is_empty() {
        true => String::new(),
        false => format!(" ({})", escaped(&bounds.join("; "))),
    };
    // Writing to a string cannot fail.
    let _ = write!(page, "<p>Meanwhile, by {source}{bounds}:</p><ol>");
    for step in &plan.steps {
        let _ = write!(page, "<li>{}</li>", escaped(&step.to_string()));
    }
    page.push_str(if plan.steps.is_empty() { "<li>nothing</li></ol>" } else { "</ol>" });
}
