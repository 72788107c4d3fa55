//! The load of a gate file, and how zero-impact is measured.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_proto::Span;

use crate::gate::file::Findings;
use crate::gate::file::service::Service;
use crate::gate::impact::judge::{FEWEST_BLOCKS, FEWEST_IN_BLOCK};
use crate::gate::impact::series::BLOCK_MS;
use crate::gate::script::{self, Script, ScriptStep};
use crate::gate::written;

/// How the load runs.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Requests per second.
    pub rate: u32,
    /// Before the upgrade.
    pub before: Duration,
    /// After it.
    pub after: Duration,
    /// In each frozen mix.
    pub mixed: Duration,
    /// Decides every choice.
    pub seed: u64,
}

/// How zero-impact is measured.
#[derive(Debug, Clone, Copy)]
pub struct ImpactPace {
    /// Requests per second to each pool.
    pub rate: u32,
    /// How long the pools are compared idle, and for each look.
    pub length: Duration,
    /// How often the judge may look.
    pub looks: u32,
    /// Whether there is a second pool.
    pub twin: bool,
}

/// Checks the load.
pub fn load_of(written: written::Load, service: &Service, findings: &mut Findings) -> (Pace, Option<Script>) {
    if !(1..=5000).contains(&written.rate) {
        findings.add("load.rate", format!("{} a second; 1 to 5000 is allowed", written.rate));
    }
    if !(0.0..=1.0).contains(&written.keep_alive) {
        findings.add("load.keep_alive", format!("{}; 0 to 1 is allowed", written.keep_alive));
    }
    let pace = Pace {
        rate: written.rate,
        before: span(written.before),
        after: span(written.after),
        mixed: span(written.mixed),
        seed: written.seed,
    };
    let mut steps = Vec::new();
    let mut names = BTreeMap::new();
    for (n, step) in written.steps.into_iter().enumerate() {
        let field = format!("load.steps[{n}]");
        if let Some(other) = names.insert(step.name.clone(), n) {
            findings.add(&field, format!("has the name `{}` of load.steps[{other}]", step.name));
        }
        steps.extend(ScriptStep::settled(&field, step, findings));
    }
    if steps.iter().all(|step| step.weight == 0) {
        findings.add("load.steps", "there is no step with a weight above 0");
        return (pace, None);
    }
    script::check_variables(&steps, findings);
    let made: BTreeSet<&str> = steps.iter().filter_map(|step| step.makes.as_deref()).collect();
    for (n, step) in steps.iter().enumerate() {
        if let Some(kind) = step.takes().filter(|kind| !made.contains(kind)) {
            findings.add(&format!("load.steps[{n}]"), format!("no step makes a `{kind}`"));
        }
    }
    let script =
        Script { steps, keep_alive: written.keep_alive, version_header: service.version_header.clone() };
    (pace, Some(script))
}

/// Checks how zero-impact is measured; `rate` is that of the load, which may be too low where the tag is not asserted.
pub fn impact_of(
    written: &written::Impact,
    rate: u32,
    is_asserted: bool,
    findings: &mut Findings,
) -> ImpactPace {
    let own = written.rate.is_some();
    let rate = written.rate.unwrap_or(rate);
    let fewest = (FEWEST_IN_BLOCK as f64 / (BLOCK_MS / 1e3)).ceil() as u32;
    if (own || is_asserted) && !(fewest..=5000).contains(&rate) {
        findings.add("impact.rate", format!("{rate} a second; {fewest} to 5000 is allowed"));
    }
    let shortest = Duration::from_secs_f64(FEWEST_BLOCKS as f64 * BLOCK_MS / 1e3);
    let length = span(written.length);
    if length < shortest {
        findings.add("impact.length", format!("at least {} s is allowed", shortest.as_secs()));
    }
    if !(1..=3).contains(&written.looks) {
        findings.add("impact.looks", format!("{} looks; 1 to 3 are allowed", written.looks));
    }
    ImpactPace { rate, length, looks: written.looks, twin: written.twin }
}

fn span(span: Span) -> Duration {
    Duration::from_millis(span.as_millis())
}
