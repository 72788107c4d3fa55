//! The load of a gate file, and how zero-impact is measured.

use std::path::Path;
use std::time::Duration;

use tidegate_proto::Span;

use crate::gate::file::command::{Command, OF_LOAD, command};
use crate::gate::file::service::Service;
use crate::gate::impact::judge::FEWEST_BLOCKS;
use crate::gate::impact::series::BLOCK_MS;
use crate::gate::written::{self, LOWEST_IMPACT_RATE};
use crate::load::findings::Findings;
use crate::load::object::Object;
use crate::load::script::{self, Script, ScriptStep};
use crate::load::written::{Existing, Load, MOST_RATE, Step};

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

/// What is sent: steps, or what a command sends, or both.
#[derive(Debug)]
pub struct Senders {
    /// The steps.
    pub script: Option<Script>,
    /// The command.
    pub command: Option<Command>,
    /// Whether there are steps, also where they could not be read.
    pub has_steps: bool,
}

/// Checks the load.
pub fn load_of(
    written: Load,
    service: &Service,
    here: &Path,
    of_service: &[&str],
    findings: &mut Findings,
) -> (Pace, Senders) {
    let pace = Pace {
        rate: written.rate.unwrap_or_default(),
        before: span(written.before),
        after: span(written.after),
        mixed: span(written.mixed),
        seed: written.seed,
    };
    let command = written.command.as_ref().and_then(|words| load_command(words, of_service, findings));
    let has_steps = !written.steps.is_empty() || written.steps_from.is_some();
    if written.command.is_some() && !has_steps {
        for (field, is_there) in
            [("rate", written.rate.is_some()), ("existing", !written.existing.is_empty())]
        {
            if is_there {
                let found = "is for `steps`, and there are none: `command` decides what is sent; remove it, or add steps";
                findings.add(&format!("load.{field}"), found);
            }
        }
        return (pace, Senders { script: None, command, has_steps });
    }
    if written.rate.is_none() {
        let missing =
            format!("is missing; write how many requests a second the steps send, 1 to {MOST_RATE}");
        findings.add("load.rate", missing);
    }
    (pace, Senders { script: script_of(written, service, here, findings), command, has_steps })
}

/// Checks the command of a load.
fn load_command(words: &[String], of_service: &[&str], findings: &mut Findings) -> Option<Command> {
    const FIELD: &str = "load.command";
    let places: Vec<&str> = of_service.iter().copied().chain(OF_LOAD).collect();
    let command = command(FIELD, words, &places, findings)?;
    for (place, what) in OF_LOAD.into_iter().zip([
        "where requests go",
        "the file that it must write its ledger into",
        "the Unix time in milliseconds from which the times of its ledger count",
    ]) {
        if !command.reads(&[place]) {
            findings.add(FIELD, format!("has no {{{place}}}: {what}; give it as an argument"));
        }
    }
    Some(command)
}

/// Checks the steps.
fn script_of(written: Load, service: &Service, here: &Path, findings: &mut Findings) -> Option<Script> {
    let version = service.base.number;
    let kinds: Vec<String> = written.existing.iter().map(|existing| existing.kind.clone()).collect();
    let existing = written.existing.into_iter().flat_map(|Existing { kind, objects, written_by }| {
        let written_by = Some(written_by.unwrap_or(version).get());
        objects.into_iter().map(move |variables| (kind.clone(), Object { variables, written_by }))
    });
    let existing = existing.collect();
    let header = service.version_header.clone();
    let steps = match written.steps_from {
        None => Some(written.steps),
        Some(_) if !written.steps.is_empty() => {
            findings.add("load.steps_from", "is there beside `steps`; one of them is allowed");
            None
        }
        Some(file) => findings.good("load.steps_from", steps_from(&here.join(file))),
    };
    let script = Script::settled(steps?, existing, written.keep_alive, header, findings)?;
    read_by_a_step(&kinds, &script, findings);
    Some(script)
}

/// Objects of a kind that no step takes would be read by nothing.
fn read_by_a_step(kinds: &[String], script: &Script, findings: &mut Findings) {
    let mut taken: Vec<&str> = script.steps.iter().filter_map(ScriptStep::takes).collect();
    taken.sort_unstable();
    taken.dedup();
    for (n, kind) in kinds.iter().enumerate().filter(|(_, kind)| !taken.contains(&kind.as_str())) {
        let allowed = match taken.is_empty() {
            true => "no step has `uses` or `ends`".to_owned(),
            false => format!("steps use or end: {}", taken.join(", ")),
        };
        let found =
            format!("no step uses or ends a `{kind}`, so these objects would never be read; {allowed}");
        findings.add(&format!("load.existing[{n}].kind"), found);
    }
}

/// The steps in a file of their own.
fn steps_from(path: &Path) -> Result<Vec<Step>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    script::steps_of(&text).map_err(|finding| format!("{}:{finding}", path.display()))
}

/// Checks how zero-impact is measured; `rate` is that of the load, which may be too low where the tag is not asserted.
pub fn impact_of(
    written: &written::Impact,
    rate: u32,
    is_asserted: bool,
    findings: &mut Findings,
) -> ImpactPace {
    let rate = written.rate.unwrap_or(rate);
    // Where it is 0 the load has no rate, which is a finding of its own.
    if is_asserted && (1..LOWEST_IMPACT_RATE).contains(&u64::from(rate)) {
        let allowed =
            format!("zero-impact needs {LOWEST_IMPACT_RATE} to {MOST_RATE}, or an `impact.rate` of its own");
        findings.add("load.rate", format!("{rate} a second; {allowed}"));
    }
    let shortest = Duration::from_secs_f64(FEWEST_BLOCKS as f64 * BLOCK_MS / 1e3);
    let length = span(written.length);
    if length < shortest {
        findings.add("impact.length", format!("at least {} s is allowed", shortest.as_secs()));
    }
    ImpactPace { rate, length, looks: written.looks, twin: written.twin }
}

fn span(span: Span) -> Duration {
    Duration::from_millis(span.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::impact::judge::FEWEST_IN_BLOCK;

    #[test]
    fn lowest_impact_rate_fills_a_block() {
        let needed = (FEWEST_IN_BLOCK as f64 / (BLOCK_MS / 1e3)).ceil();
        assert!((LOWEST_IMPACT_RATE as f64 - needed).abs() < f64::EPSILON, "{needed}");
    }
}
