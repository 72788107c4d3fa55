//! The upgrades of one service, one after the other, as the people of that service carry them out: they start them, follow
//! what `explain` advises, and try once more with a mended release.

use super::by_hand;
use super::completed::every_row_is_filled;
use super::lost::{self, Refused};
use super::operator::{Command, Person, understood};
use super::scenario::{ReleasePlan, UpgradePlan};
use super::world::{World, schema_name, tag, variable};
use serde_json::json;
use tidegate_proto::Digest;
use tidegate_proto::record::upgrade::PhaseName;

/// How often people look.
const LOOK: u64 = 5_000;

/// After so long everything that went wrong ends, in milliseconds.
pub const MISFORTUNE: u64 = 150_000;

/// So long after that every upgrade must be over.
const PATIENCE: u64 = 900_000;

/// After so long in all, what is wrong with releases is corrected where they run.
const MENDED: u64 = MISFORTUNE + PATIENCE / 2;

/// How often people try to start one.
const STARTS: u32 = 12;

/// After so many resumptions people go back.
const RESUMPTIONS: u32 = 2;

/// The upgrades of one service.
#[derive(Debug)]
pub struct Chain {
    /// Those to come, by their place in the scenario.
    pub left: Vec<usize>,
    /// The one under way.
    pub current: Option<Current>,
    /// How each ended.
    pub ended: Vec<(usize, String)>,
    looked_at: u64,
    refusals: u32,
}

/// An upgrade under way.
#[derive(Debug, Clone)]
pub struct Current {
    /// Its place in the scenario.
    pub plan: usize,
    /// Its id.
    pub id: String,
    /// When it was started.
    pub since: u64,
    /// The form of its schema before it began.
    pub form: Option<Vec<String>>,
    /// Whether it is the second try.
    pub mended: bool,
    corrected: bool,
    resumptions: u32,
    unexplained: u32,
}

impl Current {
    fn new(plan: usize, id: String, since: u64, form: Option<Vec<String>>, mended: bool) -> Self {
        Self { plan, id, since, form, mended, corrected: false, resumptions: 0, unexplained: 0 }
    }
}

/// The place of an upgrade in the scenario, by its id.
pub fn place_of(id: &str) -> Option<usize> {
    id.strip_prefix('u')?.trim_end_matches("-again").parse().ok()
}

impl Chain {
    /// Those of the service at a place.
    pub fn of(world: &World, service: usize) -> Self {
        let all = world.scenario.upgrades.iter().enumerate();
        let left = all.filter(|(_, plan)| plan.service == service).map(|(n, _)| n).collect();
        Self { left, current: None, ended: Vec::new(), looked_at: 0, refusals: 0 }
    }

    /// Whether nothing is left to do.
    pub fn is_over(&self) -> bool {
        self.left.is_empty() && self.current.is_none()
    }

    /// The upgrade that people start now: its place and its id.
    pub fn starts_now(&self, now: u64) -> Option<(usize, String)> {
        let place = *self.left.first()?;
        (self.current.is_none() && now >= self.looked_at + LOOK).then(|| (place, format!("u{place}")))
    }

    /// What people do now.
    pub async fn step(&mut self, world: &mut World) {
        let now = world.ground.now();
        if now < self.looked_at + LOOK {
            return;
        }
        self.looked_at = now;
        match self.current.clone() {
            None => self.begin(world, false).await,
            Some(current) => self.follow(world, current).await,
        }
    }

    async fn begin(&mut self, world: &mut World, mended: bool) {
        let Some(&place) = self.left.first() else { return };
        let plan = world.scenario.upgrades[place].clone();
        let form = match world.scenario.services[plan.service].schema {
            Some(schema) => world.databases[schema].form().await.ok(),
            None => None,
        };
        if let Some(schema) = world.scenario.services[plan.service].schema
            && let Err(error) = world.databases[schema].keep_copy()
        {
            world.ground.tell(format!("no copy of the database: {error}"));
        }
        let id = format!("u{place}{}", if mended { "-again" } else { "" });
        let spec = spec(world, &plan, mended);
        let started = within(Person::new(&world.coordinators).start(&id, &spec)).await;
        let now = world.ground.now();
        match started {
            Ok(_) => {
                world.ground.tell(format!("{id} is started"));
                let facts = &mut world.ground.state().facts.services[plan.service];
                facts.min_in_service = plan.min_in_service;
                facts.drain_deadline = plan.drain_deadline;
                self.refusals = 0;
                self.current = Some(Current::new(place, id, now, form, mended));
            }
            Err(why) => {
                world.ground.tell(format!("{id} is not started: {why}"));
                reconciled(world, &why).await;
                self.refusals += 1;
                // An answer that was lost: it may have begun.
                if world.ground.state().facts.phases.contains_key(&id) {
                    self.current = Some(Current::new(place, id, now, form, mended));
                    return;
                }
                match lost::refused(world, plan.service, plan.from + 1, &why).await {
                    Refused::Done => {
                        self.ended.push((place, "completed, and its store was lost".to_owned()));
                        self.left.retain(|left| *left != place);
                    }
                    Refused::Between => {
                        self.ended.push((place, "lost with its store".to_owned()));
                        self.left.clear();
                    }
                    Refused::Again if self.refusals >= STARTS => {
                        self.ended.push((place, format!("refused: {why}")));
                        self.left.clear();
                    }
                    Refused::Again => {}
                }
            }
        }
    }

    async fn follow(&mut self, world: &mut World, mut current: Current) {
        let now = world.ground.now();
        let phase = world.ground.state().facts.phases.get(&current.id).map(|(phase, _)| *phase);
        let over = match phase {
            Some(PhaseName::Completed) => Some("completed"),
            Some(PhaseName::RolledBack) => Some("rolled-back"),
            Some(PhaseName::Failed) => Some("failed"),
            _ => None,
        };
        if let Some(over) = over {
            self.end(world, current, over).await;
            return;
        }
        if now > current.since + MENDED && !current.corrected {
            world.ground.mend_all(world.scenario.upgrades[current.plan].service);
            current.corrected = true;
        }
        let last = now > current.since + MISFORTUNE + PATIENCE;
        let explained = Person::new(&world.coordinators).explain(&current.id);
        if let Ok(explained) = explained {
            let silent = explained.reasons.is_empty() && explained.trouble.is_none();
            let moved_at = world.ground.state().facts.phases.get(&current.id).map_or(now, |(_, at)| *at);
            current.unexplained = if silent && now > moved_at + 60_000 { current.unexplained + 1 } else { 0 };
            if current.unexplained == 12 {
                world.ground.state().facts.breach(now, 0, format!("{} waits without a reason", current.id));
            }
            reconciled(world, explained.trouble.as_deref().unwrap_or_default()).await;
            if last {
                let reasons: Vec<String> = explained.reasons.iter().map(|r| r.what.clone()).collect();
                let text = format!("{} does not end: {phase:?}, {}", current.id, reasons.join("; "));
                world.ground.state().facts.breach(now, 0, text);
            }
            if explained.reasons.iter().any(|reason| is_of_another_database(&reason.what)) {
                restored(world, &current).await;
            }
            for reason in &explained.reasons {
                if let Some(command) = &reason.command
                    && advised(world, &mut current, &reason.kind, &understood(command)).await
                {
                    break;
                }
            }
        } else if let Err(why) = explained {
            if why.contains("there is no upgrade") && !last {
                // The store that knew of it is gone: it is started once more.
                world.ground.tell(format!("{} is not known any more", current.id));
                world.ground.state().facts.phases.remove(&current.id);
                world.ground.state().facts.paused.remove(&current.id);
                self.begin(world, current.mended).await;
                if let Some(again) = &mut self.current {
                    again.since = current.since;
                    again.form = current.form.or(again.form.take());
                } else if self.ended.iter().all(|(place, _)| *place != current.plan) {
                    self.current = Some(current);
                }
                return;
            }
            if last {
                let text = format!("{} does not end and nobody can explain it: {why}", current.id);
                world.ground.state().facts.breach(now, 0, text);
            }
        }
        if last {
            self.ended.push((current.plan, "dead end".to_owned()));
            self.left.clear();
            self.current = None;
        } else {
            self.current = Some(current);
        }
    }

    async fn end(&mut self, world: &mut World, current: Current, over: &str) {
        self.current = None;
        world.ground.tell(format!("{} is over: {over}", current.id));
        if over == "completed" {
            every_row_is_filled(world, &current).await;
        }
        if let Some(schema) = world.scenario.services[world.scenario.upgrades[current.plan].service].schema {
            world.databases[schema].older = false;
        }
        if over != "completed" {
            as_before(world, &current, over).await;
        }
        let mended = over != "completed" && !current.mended;
        self.ended.push((current.plan, over.to_owned()));
        if mended {
            self.begin(world, true).await;
            if self.current.is_none() {
                self.left.clear();
            }
        } else if over == "completed" {
            self.left.retain(|place| *place != current.plan);
        } else {
            self.left.clear();
        }
    }
}

/// Follows an advice, where a person who knows the world would; whether something was done.
async fn advised(world: &mut World, current: &mut Current, kind: &str, command: &Command) -> bool {
    let plan = &world.scenario.upgrades[current.plan];
    let bad = !current.mended && !matches!(plan.release, ReleasePlan::Good | ReleasePlan::Slow);
    let command = match command {
        Command::Reconcile => {
            reconciled(world, "fleet reconcile").await;
            return true;
        }
        Command::Schema(from, to) => {
            let Some(schema) = world.scenario.services[plan.service].schema else { return false };
            let done = by_hand::expand_and_migrate(world, schema, (*from, *to)).await;
            world.ground.tell(format!("{kind}: {command:?}: {done:?}"));
            return done.is_ok();
        }
        Command::Look | Command::Window(..) | Command::Other(_) => return false,
        // Only what is known to be switched off is given up.
        Command::Decommission(instance) => {
            let node = instance.split_once('/').and_then(|(_, node)| world.ground.names().node(node));
            if !node.is_some_and(|node| world.left.contains(&node)) {
                return false;
            }
            command.clone()
        }
        // A person put it there, and takes it away at the end of what they do.
        Command::Uncordon(_) => return false,
        Command::Resume(id) if bad || current.resumptions >= RESUMPTIONS => Command::RollBack(id.clone()),
        Command::Resume(_) => {
            current.resumptions += 1;
            command.clone()
        }
        Command::Approve(..) | Command::Retry(..) | Command::RollBack(_) => command.clone(),
    };
    // What waits by itself for something that passes is left alone while things go wrong.
    if matches!(command, Command::RollBack(_)) && kind == "stalled" && !bad {
        let now = world.ground.now();
        if now < current.since + MISFORTUNE {
            return false;
        }
    }
    let done = within(Person::new(&world.coordinators).act(&command)).await;
    // Contract has begun: there is no way back, and what is advised is to go on.
    let done = match (&command, done) {
        (Command::RollBack(id), Err(why)) => {
            world.ground.tell(format!("rollback of {id}: {why}"));
            if why.contains("no way back") {
                // What is wrong with it is corrected where it runs.
                let plan = &world.scenario.upgrades[current.plan];
                world.ground.mend(&tag(&world.scenario.services[plan.service].name, plan.from + 1));
            }
            let again = Command::Resume(id.clone());
            within(Person::new(&world.coordinators).act(&again)).await
        }
        (_, done) => done,
    };
    world.ground.tell(format!("{kind}: {command:?}: {done:?}"));
    done.is_ok()
}

fn is_of_another_database(what: &str) -> bool {
    what.contains("restore the database") || what.contains("it was restored, or the URL")
}

/// A database that is an older copy: people go back where that is possible, and else find the right one.
async fn restored(world: &mut World, current: &Current) {
    let command = Command::RollBack(current.id.clone());
    let done = within(Person::new(&world.coordinators).act(&command)).await;
    world.ground.tell(format!("the database is older: {command:?}: {done:?}"));
    let schema = world.scenario.services[world.scenario.upgrades[current.plan].service].schema;
    let Some(schema) = schema else { return };
    if done.is_ok() {
        world.databases[schema].stays_older();
    } else if let Err(error) = world.databases[schema].put_newest_back() {
        world.ground.tell(format!("the right one is not found: {error}"));
    }
}

/// Reconciles a store where that is what an answer asks for.
async fn reconciled(world: &World, answer: &str) {
    if answer.contains("fleet reconcile") {
        let done = within(Person::new(&world.coordinators).reconcile()).await;
        world.ground.tell(format!("reconcile: {done:?}"));
    }
}

/// A person gives up on an answer after a while.
pub async fn within(asked: impl Future<Output = Result<String, String>>) -> Result<String, String> {
    let limit = std::time::Duration::from_secs(20);
    tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| Err("no answer".to_owned()))
}

/// After a rollback everything is as it was before.
async fn as_before(world: &mut World, current: &Current, over: &str) {
    let plan = world.scenario.upgrades[current.plan].clone();
    let now = world.ground.now();
    if let Some(schema) = world.scenario.services[plan.service].schema
        && let Some(before) = &current.form
        && !world.databases[schema].is_away()
    {
        match world.databases[schema].form().await {
            Ok(after) if after == *before => {}
            Ok(after) => {
                let text =
                    format!("{} is {over}, and its schema is {after:?}, it was {before:?}", current.id);
                world.ground.state().facts.breach(now, 10, text);
            }
            Err(why) => world.ground.tell(format!("the schema could not be read: {}", why.0)),
        }
    }
    let mut state = world.ground.state();
    let others: Vec<String> = (state.slots.iter())
        .filter(|((service, _), _)| *service == plan.service)
        .filter_map(|(at, slot)| Some((at, slot.alive(now)?)))
        .filter(|(_, run)| run.is.version != plan.from)
        .map(|(at, run)| format!("{} runs {}", world.ground.names().instance(*at), run.tag))
        .collect();
    if over == "rolled-back" && !others.is_empty() {
        state.facts.breach(now, 10, format!("{} is {over}, and {}", current.id, others.join(", ")));
    }
}

fn spec(world: &World, plan: &UpgradePlan, mended: bool) -> serde_json::Value {
    let service = &world.scenario.services[plan.service];
    let to = plan.from + 1;
    let first = tag(&service.name, to);
    let tag = if mended { format!("{first}-mended") } else { first };
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
            "settle": "3s", "deadline": span(plan.drain_deadline), "on_deadline": "proceed",
        },
        "failures": {"tolerate": plan.tolerate, "per_wave": plan.tolerate, "then": plan.then},
        "approvals": plan.approvals,
    });
    if plan.by_zone {
        spec["failure_domain"] = json!("zone");
    }
    if let Some(schema) = service.schema {
        spec["schema"] =
            json!({"database": {"from_env": variable(schema)}, "migrations": schema_name(schema)});
        spec["approvals"] = json!(plan.approvals);
    }
    spec
}
