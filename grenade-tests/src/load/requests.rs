//! Sends a script: draws a step, fills in its variables, sends it once, and compares the answer.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Map, Value};
use tidegate_proto::printable::one_line;
use tokio::time::Instant;

use crate::balancer::proxy::SERVED_BY;
use crate::load::judge::{judged, left};
use crate::load::object::{Idle, Object};
use crate::load::outcome::{Failure, Outcome};
use crate::load::plan::{ANSWER_LIMIT, Due, SEND_LIMIT};
use crate::load::script::{Deed, Script, ScriptStep, WRITTEN_BY};
use crate::load::sweep::Sweep;
use crate::load::wire::{Answer, Client};

/// The most ended objects that are read again.
const MOST_ENDED: usize = 500;

/// Which version each node was last seen at.
#[derive(Debug, Clone, Default)]
pub struct Versions(Arc<RwLock<HashMap<String, u32>>>);

impl Versions {
    /// What was seen.
    pub fn saw(&self, node: &str, version: u32) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(node.to_owned(), version);
    }

    fn of(&self, node: &str) -> Option<u32> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(node).copied()
    }
}

/// One instance that is spoken to directly.
#[derive(Debug, Clone)]
pub struct Direct {
    /// Its node.
    pub node: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its version.
    pub version: u32,
}

/// Where requests go.
#[derive(Debug, Clone)]
pub enum Target {
    /// To a balancer, which says which node answered.
    Balancer(SocketAddr, Versions),
    /// To instances, each as likely as the others.
    Instances(Vec<Direct>),
}

/// The requests of a script.
#[derive(Debug)]
pub struct Requests {
    script: Arc<Script>,
    target: Target,
    /// Where the steps of each companion go.
    beside: BTreeMap<String, Target>,
    run: String,
    idle: Idle,
    aside: Mutex<Vec<(String, Object)>>,
    ended: Mutex<Vec<(String, Object)>>,
    client: Client,
}

/// One request, drawn.
#[derive(Debug)]
pub struct Drawn {
    step: usize,
    object: Option<Object>,
    chosen: Vec<usize>,
    instance: usize,
    keep: bool,
}

impl Drawn {
    /// What the step is called.
    pub fn name<'a>(&self, of: &'a Requests) -> &'a str {
        &of.script.steps[self.step].name
    }
}

/// Through which instance something was read, where its answer said so.
fn through(outcome: &Outcome) -> String {
    match (outcome.node.as_str(), outcome.version) {
        ("", _) => String::new(),
        (node, None) => format!(", read through {node}"),
        (node, Some(version)) => format!(", read through {node} at version {version}"),
    }
}

impl Requests {
    /// Of this script to this target, with objects of its own.
    pub fn new(script: Arc<Script>, target: Target) -> Self {
        Self::beside(script, target, BTreeMap::new())
    }

    /// The same, with the targets of companions.
    pub fn beside(script: Arc<Script>, target: Target, beside: BTreeMap<String, Target>) -> Self {
        let idle = Idle::default();
        script.existing.iter().for_each(|(kind, object)| idle.put(kind, object.clone()));
        let run = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
        Self {
            script,
            target,
            beside,
            run,
            idle,
            aside: Mutex::default(),
            ended: Mutex::default(),
            client: Client::default(),
        }
    }

    fn chosen(step: &ScriptStep, dice: &mut StdRng) -> Vec<usize> {
        step.set.iter().map(|(_, choices)| dice.random_range(0..choices.len())).collect()
    }

    /// Draws by weight. A step that uses what there is none of becomes the one that makes it.
    fn step(&self, dice: &mut StdRng) -> (usize, Option<Object>) {
        let steps = &self.script.steps;
        let all: u32 = steps.iter().map(|step| step.weight).sum();
        let mut left = dice.random_range(0..all.max(1));
        let drawn = steps.iter().position(|step| {
            let here = left < step.weight;
            left = left.saturating_sub(step.weight);
            here
        });
        let drawn = drawn.unwrap_or_default();
        let Some(kind) = steps[drawn].takes() else { return (drawn, None) };
        match self.idle.take(kind, dice) {
            Some(object) => (drawn, Some(object)),
            None => {
                let maker = steps.iter().position(|step| step.makes.as_deref() == Some(kind));
                (maker.unwrap_or_default(), None)
            }
        }
    }

    /// Remembers some of those that were ended.
    fn ended(&self, kind: &str, object: Object) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() < MOST_ENDED {
            ended.push((kind.to_owned(), object));
        }
    }

    /// Reads what was ended: an answer that is right for a living one is wrong.
    async fn read_ended(&self) -> Sweep {
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        let mut sweep = Sweep::default();
        for (kind, object) in ended {
            let reads = |step: &ScriptStep| step.deed == Deed::Reads && step.takes() == Some(&kind);
            let Some(step) = self.script.steps.iter().position(reads) else { continue };
            let by = object.written_by.map_or("?".to_owned(), |version| version.to_string());
            let shown = Value::Object(object.variables.clone());
            let instance = sweep.read;
            let drawn = Drawn { step, object: Some(object), chosen: Vec::new(), instance, keep: false };
            let due = Due { seq: sweep.read as u64, at: Instant::now() };
            sweep.read += 1;
            let outcome = self.carry_out(due, drawn).await.0;
            let through = through(&outcome);
            match outcome.failure {
                None => sweep.wrong.push(format!(
                    "a {kind} that was ended through version {by} is still there{through} ({shown})"
                )),
                Some(failure) if failure.is_of_time() => {
                    let what = format!("a {kind} that was ended through version {by}");
                    sweep.unread.push(said(&what, &failure, &shown));
                }
                Some(_) => {}
            }
        }
        sweep
    }

    /// Sets objects aside that no request touches until the sweep.
    pub fn set_aside(&self, most: usize) {
        let aside = self.idle.set_aside(most);
        self.aside.lock().unwrap_or_else(PoisonError::into_inner).extend(aside);
    }

    /// Reads every object that is left, those that were set aside among them, one after the other, by the first step that
    /// reads its kind; at most `limit` of each kind, those that were set aside first.
    pub async fn sweep(&self, limit: usize) -> Sweep {
        let mut sweep = self.read_ended().await;
        for (kind, object) in self.aside.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            self.idle.put(&kind, object);
        }
        let mut counts = BTreeMap::<&str, usize>::new();
        for (at, step) in self.script.steps.iter().enumerate().filter(|(_, step)| step.deed == Deed::Reads) {
            let kind = step.takes().unwrap_or_default();
            let count = counts.entry(kind).or_default();
            while *count < limit
                && let Some(object) = self.idle.pop(kind)
            {
                let due = Due { seq: sweep.read as u64, at: Instant::now() };
                let written = object.clone();
                let drawn =
                    Drawn { step: at, object: Some(object), chosen: Vec::new(), instance: 0, keep: false };
                let (outcome, _) = self.carry_out(due, drawn).await;
                sweep.read += 1;
                *count += 1;
                let Some(failure) = &outcome.failure else { continue };
                let by = written.written_by.map_or("?".to_owned(), |version| version.to_string());
                let what = format!("a {kind} written by version {by}{}", through(&outcome));
                let text = said(&what, failure, &Value::Object(written.variables));
                let list = if failure.is_of_time() { &mut sweep.unread } else { &mut sweep.wrong };
                list.push(text);
            }
        }
        sweep
    }

    async fn carry_out(&self, due: Due, drawn: Drawn) -> (Outcome, Option<(String, Object)>) {
        let step = &self.script.steps[drawn.step];
        let own = step.exchange.own_length();
        let mut outcome = Outcome::begun(due, step.name.clone(), own);
        let before = drawn.object.clone().unwrap_or_default();
        outcome.written_by = if step.deed == Deed::Reads { before.written_by } else { None };
        let variables = self.set(step, &before, &drawn.chosen, due.seq);
        let answered = match step.exchange.outgoing(&variables) {
            Err(missing) => Err(Failure::Content(missing)),
            Ok(_) if outcome.sent.duration_since(due.at) > SEND_LIMIT => Err(Failure::NotSent),
            Ok(outgoing) => {
                let (to, known) = self.to(step, drawn.instance);
                if let Some((node, version)) = known {
                    (outcome.node, outcome.version) = (node, Some(version));
                }
                let sending = self.client.send(to, outgoing, drawn.keep);
                match tokio::time::timeout(ANSWER_LIMIT + own, sending).await {
                    Err(_) => Err(Failure::Silence),
                    Ok((kept, answered)) => {
                        outcome.kept = kept;
                        answered.map_err(Failure::Reset)
                    }
                }
            }
        };
        outcome.done = Instant::now();
        let answer = match answered {
            Ok(answer) => answer,
            Err(failure) => {
                let untouched = step.deed == Deed::Reads || matches!(failure, Failure::NotSent);
                outcome.failure = Some(failure);
                return (outcome, drawn.object.filter(|_| untouched).zip(step.takes()).map(named));
            }
        };
        self.note(step, &answer, &mut outcome);
        match judged(&step.exchange, &answer, &variables) {
            Err(failure) => {
                outcome.failure = Some(failure);
                // A read changes nothing, whatever it answers: what was written must still be there.
                let still = (step.deed == Deed::Reads).then_some(before).zip(step.takes()).map(named);
                (outcome, still)
            }
            Ok(kept) => {
                if let (Deed::Ends, Some(kind)) = (step.deed, step.takes()) {
                    self.ended(kind, Object { written_by: outcome.version, ..before.clone() });
                }
                let left = left(step, before, variables, kept, outcome.version);
                (outcome, left)
            }
        }
    }

    fn target(&self, step: &ScriptStep) -> &Target {
        step.to.as_ref().and_then(|to| self.beside.get(to)).unwrap_or(&self.target)
    }

    /// The address, and what is known of it before it answers.
    fn to(&self, step: &ScriptStep, instance: usize) -> (SocketAddr, Option<(String, u32)>) {
        match self.target(step) {
            Target::Balancer(address, _) => (*address, None),
            Target::Instances(all) => {
                let one = &all[instance % all.len()];
                (one.address, Some((one.node.clone(), one.version)))
            }
        }
    }

    /// Who answered, and what.
    fn note(&self, step: &ScriptStep, answer: &Answer, outcome: &mut Outcome) {
        outcome.first = Some(answer.first);
        outcome.status = Some(answer.status);
        outcome.bytes = answer.body.len();
        if let Target::Balancer(_, versions) = self.target(step) {
            outcome.node = answer.header(SERVED_BY.as_str()).unwrap_or_default().to_owned();
            outcome.version = versions.of(&outcome.node);
        }
        if let Some(said) = self.script.version_header.as_deref().and_then(|name| answer.header(name)) {
            outcome.version = said.parse().ok().or(outcome.version);
        }
    }

    /// The object's variables with those that the step sets.
    fn set(&self, step: &ScriptStep, before: &Object, chosen: &[usize], seq: u64) -> Map<String, Value> {
        let mut variables = before.variables.clone();
        variables.insert("run".to_owned(), self.run.clone().into());
        variables.insert("seq".to_owned(), seq.into());
        if let Some(version) = before.written_by {
            variables.insert(WRITTEN_BY.to_owned(), version.into());
        }
        for ((name, choices), at) in step.set.iter().zip(chosen) {
            // What it reads was checked when the file was read.
            if let Ok(value) = choices[*at].fill(&|name| variables.get(name).cloned()) {
                variables.insert(name.clone(), value);
            }
        }
        variables
    }
}

impl Requests {
    /// Draws the next request, by the dice alone; it is not sent yet.
    pub fn draw(&self, dice: &mut StdRng) -> Drawn {
        let (step, object) = self.step(dice);
        let chosen = Self::chosen(&self.script.steps[step], dice);
        let instance = match self.target(&self.script.steps[step]) {
            Target::Balancer(..) => 0,
            Target::Instances(all) => dice.random_range(0..all.len()),
        };
        Drawn { step, object, chosen, instance, keep: dice.random_bool(self.script.keep_alive) }
    }

    /// Sends it once, and judges the answer.
    pub async fn attempt(&self, due: Due, drawn: Drawn) -> Outcome {
        let (outcome, left) = self.carry_out(due, drawn).await;
        if let Some((kind, object)) = left {
            self.idle.put(&kind, object);
        }
        outcome
    }
}

/// What was wrong with an object that was read again, in one line.
fn said(what: &str, failure: &Failure, shown: &Value) -> String {
    one_line(&format!("{what}: {failure}: {} ({shown})", failure.detail().trim_end())).into_owned()
}

fn named((object, kind): (Object, &str)) -> (String, Object) {
    (kind.to_owned(), object)
}
