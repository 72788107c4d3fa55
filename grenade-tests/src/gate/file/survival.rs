//! The survival check of a gate file: what each stage does, and which variables it may read.

use crate::gate::file::command::{Command, OF_FLEET, command};
use crate::gate::written::survival::{self as written, Part};
use crate::load::exchange::Exchange;
use crate::load::findings::Findings;
use crate::load::template::known;

/// The variable of every step: different in each run.
pub const RUN: &str = "run";

/// What the survival check does.
#[derive(Debug)]
pub struct Survival {
    /// Makes the resources.
    pub create: Vec<Act>,
    /// Verifies them.
    pub verify: Vec<Act>,
    /// Verifies them while no instance runs; empty: that is not done.
    pub down: Vec<Act>,
    /// Verifies them after an upgrade that completed; empty: as `verify`.
    pub verify_after: Vec<Act>,
    /// Removes them; empty: that is not done.
    pub destroy: Vec<Act>,
}

/// One thing that a stage does.
#[derive(Debug)]
pub enum Act {
    /// Runs a command.
    Command(Command),
    /// Sends a request.
    Step(Box<Exchange>),
}

/// Checks it.
pub fn survival_of(
    written: written::Survival,
    of_service: &[&str],
    findings: &mut Findings,
) -> Option<Survival> {
    let with_url: Vec<&str> = of_service.iter().copied().chain([OF_FLEET]).collect();
    let mut made = Vec::new();
    let create = Stage::new("create", &with_url).acts(written.create, &mut made, findings);
    let mut later = |name: &str, parts: Option<Vec<Part>>, places: &[&str]| match parts {
        None => Some(Vec::new()),
        Some(parts) => Stage::new(name, places).acts(parts, &mut made.clone(), findings),
    };
    let verify = later("verify", Some(written.verify), &with_url);
    let down = later("down", written.down, of_service);
    let verify_after = later("verify_after", written.verify_after, &with_url);
    let destroy = later("destroy", written.destroy, &with_url);
    let down = down?;
    for (n, _) in down.iter().enumerate().filter(|(_, act)| matches!(act, Act::Step(_))) {
        findings.add(
            &format!("survival.down[{n}]"),
            "is an HTTP step, but no instance runs in this stage that could answer it; write a command that looks at the \
             resource in another way, such as [psql, \"{database}\", …]",
        );
    }
    Some(Survival { create: create?, verify: verify?, down, verify_after: verify_after?, destroy: destroy? })
}

/// A stage while it is checked.
struct Stage<'a> {
    field: String,
    /// The places of its commands.
    places: &'a [&'a str],
}

impl<'a> Stage<'a> {
    fn new(name: &str, places: &'a [&'a str]) -> Self {
        Self { field: format!("survival.{name}"), places }
    }

    /// What it does; `kept` has the variables that are known before it, and after it those that its steps keep too.
    fn acts(&self, parts: Vec<Part>, kept: &mut Vec<String>, findings: &mut Findings) -> Option<Vec<Act>> {
        let words = parts.iter().filter(|part| matches!(part, Part::Word(_))).count();
        if words == parts.len() {
            let words: Vec<String> = parts.into_iter().filter_map(Part::into_word).collect();
            return Some(vec![Act::Command(self.command(&self.field, &words, kept, findings)?)]);
        }
        let mut acts = Vec::new();
        for (n, part) in parts.into_iter().enumerate() {
            let field = format!("{}[{n}]", self.field);
            acts.extend(self.act(&field, part, kept, findings));
        }
        Some(acts)
    }

    fn act(&self, field: &str, part: Part, kept: &mut Vec<String>, findings: &mut Findings) -> Option<Act> {
        match part {
            Part::Word(word) => {
                let allowed = "a command beside others is a list of words, such as [program, argument]";
                findings.add(field, format!("`{word}` is a word, and not a command or a step; {allowed}"));
                None
            }
            Part::Command(words) => Some(Act::Command(self.command(field, &words, kept, findings)?)),
            Part::Step(step) => {
                // Also where the step itself is wrong: a later one that reads what it keeps is not.
                let before: Vec<String> = kept.clone();
                kept.extend(step.keep.keys().cloned());
                let exchange = Exchange::settled(field, step.request, step.expect, step.keep, findings)?;
                let variables: Vec<&str> = before.iter().map(String::as_str).chain([RUN]).collect();
                known(field, exchange.reads(), &variables, findings);
                for name in exchange.keep.keys() {
                    if name == RUN || self.places.contains(&name.as_str()) {
                        let other = "has a meaning of its own in commands and steps; keep it by another name";
                        findings.add(&format!("{field}.keep"), format!("`{name}` {other}"));
                    }
                }
                Some(Act::Step(Box::new(exchange)))
            }
        }
    }

    fn command(
        &self,
        field: &str,
        words: &[String],
        kept: &[String],
        findings: &mut Findings,
    ) -> Option<Command> {
        let places: Vec<&str> = self.places.iter().copied().chain(kept.iter().map(String::as_str)).collect();
        command(field, words, &places, findings)
    }
}
