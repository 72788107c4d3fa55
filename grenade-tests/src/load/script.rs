//! What a load sends: steps that make, use and end objects, and what their answers must be. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::load::exchange::Exchange;
use crate::load::findings::Findings;
use crate::load::object::Object;
use crate::load::template::{Pattern, known};
use crate::load::written;
use tidegate_planner::document::{self, Finding};

/// Variables that every step has.
const OWN: [&str; 2] = ["run", "seq"];
/// The version that wrote an object last; only where one is used.
pub(super) const WRITTEN_BY: &str = "written_by";

/// All steps of a load.
#[derive(Debug, Clone)]
pub struct Script {
    /// Objects that are there before it begins, each with its kind.
    pub existing: Vec<(String, Object)>,
    /// The steps.
    pub steps: Vec<ScriptStep>,
    /// The part of the requests that is sent over kept connections.
    pub keep_alive: f64,
    /// Says which version answered.
    pub version_header: Option<String>,
}

/// What a step does to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Nothing: it has none.
    None,
    /// Makes it.
    Makes,
    /// Reads it; it stays as it is.
    Reads,
    /// Changes it.
    Changes,
    /// Ends it.
    Ends,
}

/// One step.
#[derive(Debug, Clone)]
pub struct ScriptStep {
    /// Its name.
    pub name: String,
    /// How often it is drawn.
    pub weight: u32,
    /// The kind of object that it makes.
    pub makes: Option<String>,
    /// The kind of object that it reads, changes or ends.
    takes: Option<String>,
    /// What it does to it.
    pub deed: Deed,
    /// Variables that are set; each is one of these.
    pub set: Vec<(String, Vec<Pattern>)>,
    /// The service that it goes to; absent: the gate's own.
    pub to: Option<String>,
    /// What is sent, and what the answer must be.
    pub exchange: Exchange,
}

impl Script {
    /// Settles one; what is wrong goes to `findings`.
    pub fn settled(
        steps: Vec<written::Step>,
        existing: Vec<(String, Object)>,
        keep_alive: f64,
        version_header: Option<String>,
        findings: &mut Findings,
    ) -> Option<Self> {
        if !(0.0..=1.0).contains(&keep_alive) {
            findings.add("load.keep_alive", format!("{keep_alive}; 0 to 1 is allowed"));
        }
        let (mut settled, count) = (Vec::new(), steps.len());
        let mut names = BTreeMap::new();
        for (n, step) in steps.into_iter().enumerate() {
            let field = format!("load.steps[{n}]");
            if let Some(other) = names.insert(step.name.clone(), n) {
                findings.add(&field, format!("has the name `{}` of load.steps[{other}]", step.name));
            }
            settled.extend(ScriptStep::settled(&field, step, findings));
        }
        // What the others need may be in a step that is wrong by itself.
        if settled.len() < count {
            return None;
        }
        if settled.iter().all(|step| step.weight == 0) {
            findings.add("load.steps", "there is no step with a weight above 0");
            return None;
        }
        let script = Self { existing, steps: settled, keep_alive, version_header };
        script.check_variables(findings);
        script.check_kinds(findings);
        Some(script)
    }

    /// Whether each step reads only what it sets, keeps, or finds in its object.
    fn check_variables(&self, findings: &mut Findings) {
        for (n, step) in self.steps.iter().enumerate() {
            let mut allowed: Vec<&str> = OWN.to_vec();
            if let Some(kind) = step.makes.as_deref().or(step.takes()) {
                allowed.extend(self.of_kind(kind));
            } else {
                allowed.extend(step.set.iter().map(|(name, _)| name.as_str()));
            }
            if step.takes().is_some() {
                allowed.push(WRITTEN_BY);
            }
            allowed.sort_unstable();
            allowed.dedup();
            let field = format!("load.steps[{n}] ({})", step.name);
            known(&field, step.exchange.reads(), &allowed, findings);
        }
    }

    /// Whether there are objects of each kind that a step takes.
    fn check_kinds(&self, findings: &mut Findings) {
        for (n, step) in self.steps.iter().enumerate() {
            let Some(kind) = step.takes() else { continue };
            let made = self.steps.iter().any(|step| step.makes.as_deref() == Some(kind));
            if !made && !self.existing.iter().any(|(known, _)| known == kind) {
                let nothing = format!("no step makes a `{kind}`, and `load.existing` has none");
                findings.add(&format!("load.steps[{n}]"), nothing);
            }
        }
    }

    /// Every variable that an object of this kind may have.
    fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a str> {
        let touches =
            move |step: &&ScriptStep| step.makes.as_deref() == Some(kind) || step.takes() == Some(kind);
        let by_steps = self.steps.iter().filter(touches).flat_map(|step| {
            step.set
                .iter()
                .map(|(name, _)| name.as_str())
                .chain(step.exchange.keep.keys().map(String::as_str))
        });
        let existing = self.existing.iter().filter(move |(known, _)| known == kind);
        by_steps.chain(existing.flat_map(|(_, object)| object.variables.keys().map(String::as_str)))
    }
}

/// Reads a list of steps, as YAML.
///
/// # Errors
/// Where it is none.
pub fn steps_of(text: &str) -> Result<Vec<written::Step>, Finding> {
    document::read(text)
}

impl ScriptStep {
    /// Settles one; what is wrong goes to `findings`.
    fn settled(field: &str, written: written::Step, findings: &mut Findings) -> Option<Self> {
        let written::Step { name, weight, makes, uses, ends, set, to, request, expect, keep } = written;
        let exchange = Exchange::settled(field, request, expect, keep, findings)?;
        if [&makes, &uses, &ends].into_iter().flatten().count() > 1 {
            findings.add(field, "has more than one of `makes`, `uses` and `ends`");
        }
        let method = &exchange.method;
        let deed = match (&makes, &uses, &ends) {
            (Some(_), ..) => Deed::Makes,
            (_, Some(_), _) if method.is_safe() => Deed::Reads,
            (_, Some(_), _) => Deed::Changes,
            (.., Some(_)) => Deed::Ends,
            _ => Deed::None,
        };
        if deed == Deed::Reads && !(set.is_empty() && exchange.keep.is_empty()) {
            findings.add(field, format!("{method} changes nothing, so `set` and `keep` are not allowed"));
        }
        let set = set.into_iter().filter_map(|(variable, value)| {
            let choices = match value {
                Value::Array(choices) if choices.is_empty() => {
                    findings.add(
                        &format!("{field}.set.{variable}"),
                        "is an empty list; one of it would be drawn",
                    );
                    return None;
                }
                Value::Array(choices) => choices,
                one => vec![one],
            };
            let choices: Result<Vec<_>, String> = choices.iter().map(Pattern::parse).collect();
            Some((variable.clone(), findings.good(&format!("{field}.set.{variable}"), choices)?))
        });
        let set = set.collect();
        let takes = uses.or(ends);
        Some(Self { name, weight, makes, takes, deed, set, to, exchange })
    }

    /// The kind of object that it reads, changes or ends.
    pub fn takes(&self) -> Option<&str> {
        self.takes.as_deref()
    }
}
