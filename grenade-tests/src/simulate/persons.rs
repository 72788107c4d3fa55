//! People at work beside those who follow the upgrades: each asks for one thing after the other, several of them at once.
//! What a dry run promised must be what then happens, and a request that was refused has changed nothing.

use super::chain::place_of;
use super::coordinator::Coordinator;
use super::dice::Dice;
use super::gate::Gate;
use super::ground::Ground;
use super::line::Place;
use super::mishap::Undo;
use super::promise::{blocks, seen};
use super::request::{Known, Request, request};
use super::spec::spec;
use super::verbs::{look, wished};
use super::world::World;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_coordinator::context::Context;
use tidegate_coordinator::leadership::Leadership;
use tidegate_coordinator::operation::{self, OperationError};
use tidegate_proto::wire::v1::{DecommissionInstanceRequest, SetWindowRequest, StartUpgradeRequest};
use tokio::task::JoinHandle;

/// No request takes longer where nothing disturbs it.
const LIMIT: Duration = Duration::from_secs(20);

/// How long people think between two requests, in milliseconds.
const THINKS: u64 = 1_500;

/// What is known of everybody's requests.
#[derive(Debug, Default)]
struct Asked {
    /// Names under which something was asked that was refused, each with what that was.
    refused: Mutex<Vec<(String, String)>>,
    /// When a process, a line or a disk was last disturbed.
    disturbed_at: AtomicU64,
}

/// Everybody who is at work.
#[derive(Debug, Default)]
pub(super) struct Persons {
    asked: Arc<Asked>,
    at_work: Vec<JoinHandle<()>>,
    begun: u32,
}

impl Persons {
    /// Something other than people is wrong now.
    pub(super) fn disturbed(&self, now: u64) {
        self.asked.disturbed_at.store(now, Ordering::Relaxed);
    }

    /// Lets so many people begin, who ask the coordinators that there are for something during `lasts` milliseconds.
    fn begin(world: &mut World, known: &Known, count: u32, lasts: u64) {
        let reached = |one: &Coordinator| (one.context.clone(), one.gate.clone());
        let contexts: Vec<(Context, Gate)> = world.coordinators.iter().flatten().map(reached).collect();
        for _ in 0..count {
            let persons = &mut world.persons;
            persons.begun += 1;
            let desk = Desk {
                contexts: contexts.clone(),
                place: world.place.clone(),
                ground: world.ground.clone(),
                asked: Arc::clone(&persons.asked),
                name: format!("person-{}", persons.begun),
                services: world.scenario.upgrades.iter().map(|plan| plan.service).collect(),
            };
            let dice = Dice::of(world.scenario.seed, &desk.name);
            let ends = Duration::from_millis(lasts);
            let known = known.clone();
            let work = async move {
                // Who gives up on an answer leaves the request where it is.
                let _ = tokio::time::timeout(ends, desk.work(dice, known)).await;
            };
            persons.at_work.push(tokio::spawn(work));
        }
    }

    /// Ends with whatever broke somebody's request.
    pub(super) async fn look(&mut self) {
        for over in self.at_work.extract_if(.., |work| work.is_finished()) {
            if let Err(error) = over.await
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }

    /// Requests that were refused, and all the same are in the history under their names.
    pub(super) fn refused_but_done(&self, names: &BTreeSet<String>) -> Vec<String> {
        let refused = self.asked.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let done = refused.iter().filter(|(who, _)| names.contains(who));
        done.map(|(who, what)| format!("{what} of {who} was refused, and its event is there")).collect()
    }
}

/// So many people ask for something of the upgrade with this id; what is to be put right when they have done.
pub(super) fn begin(
    world: &mut World,
    id: Option<String>,
    service: usize,
    count: u32,
    lasts: u64,
) -> Vec<Undo> {
    let Some(id) = id else { return Vec::new() };
    let Some(place) = place_of(&id) else { return Vec::new() };
    // It is about to be started: that is done with care, and by two people at once.
    world.started_twice = !world.ground.state().facts.phases.contains_key(&id);
    let plan = world.scenario.upgrades[place].clone();
    let names = world.ground.names();
    let nodes = world.scenario.services[service].nodes.clone();
    // Nobody says of what only fell silent that it is gone: only what is switched off, and what shows that it is there.
    let may_be_named = |node: &&usize| {
        let there = world.agents[**node].as_ref().is_some_and(|agent| agent.gate.is_open());
        world.left.contains(*node) || (there && !world.liars.contains(*node) && world.garbage.is_empty())
    };
    let to_decommission = nodes.iter().filter(may_be_named).map(|node| names.instance((service, *node)));
    let known = Known {
        id: id.clone(),
        service: names.services[service].clone(),
        nodes: nodes.iter().map(|node| names.nodes[*node].clone()).collect(),
        to_decommission: to_decommission.collect(),
        spec: spec(world, &plan, false),
        from: plan.from,
        nobody_lies: world.liars.is_empty() && world.garbage.is_empty(),
    };
    Persons::begin(world, &known, count, lasts);
    let lets_back = nodes.into_iter().map(Undo::Uncordon);
    std::iter::once(Undo::Resume(id)).chain(lets_back).collect()
}

/// What came of a request.
enum Came {
    Done(String),
    Refused(String),
    /// Whether it was carried out is not known.
    Unclear(String),
}

impl Came {
    fn of(done: Result<String, OperationError>) -> Self {
        match done {
            Ok(what) => Self::Done(what),
            Err(error @ OperationError::OutcomeUnknown(_)) => Self::Unclear(error.to_string()),
            Err(error) => Self::Refused(error.to_string()),
        }
    }
}

/// One person, and whom they reach.
struct Desk {
    contexts: Vec<(Context, Gate)>,
    place: Place,
    ground: Ground,
    asked: Arc<Asked>,
    name: String,
    /// Of which service each upgrade is.
    services: Vec<usize>,
}

impl Desk {
    async fn work(self, mut dice: Dice, known: Known) {
        for n in 0u32.. {
            let who = format!("{}-{n}", self.name);
            self.ask(&who, request(&mut dice, &known)).await;
            tokio::time::sleep(Duration::from_millis(dice.below(THINKS))).await;
        }
    }

    fn breach(&self, text: String) {
        let now = self.ground.now();
        self.ground.state().facts.breach(now, 0, text);
    }

    /// Asks for one thing; a process that does not go on is asked all the same.
    async fn ask(&self, who: &str, request: Request) {
        let mut living = self.contexts.iter().filter(|(_, gate)| !gate.is_dead());
        let Some((context, gate, leadership)) =
            living.find_map(|(context, gate)| Some((context, gate, context.led_here()?)))
        else {
            return;
        };
        let begun = self.ground.now();
        let came = tokio::time::timeout(LIMIT, self.come(context, &leadership, who, &request)).await;
        let what = format!("{request:?}");
        match came {
            Ok(Came::Done(done)) => self.ground.tell(format!("{who} asks {what}: {done}")),
            Ok(Came::Refused(why)) => {
                self.ground.tell(format!("{who} asks {what}: refused, {why}"));
                let mut refused = self.asked.refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.push((who.to_owned(), what));
            }
            Ok(Came::Unclear(why)) => self.ground.tell(format!("{who} asks {what}: {why}")),
            Err(_) => {
                self.ground.tell(format!("{who} asks {what}: no answer"));
                let calm = self.asked.disturbed_at.load(Ordering::Relaxed) + 5_000 < begun;
                if calm && gate.is_open() && leadership.is_held() {
                    self.breach(format!("{what} was not answered within {} s", LIMIT.as_secs()));
                }
            }
        }
    }

    async fn come(&self, context: &Context, leadership: &Leadership, who: &str, request: &Request) -> Came {
        match request {
            Request::StartWrong(spec) => self.start(context, leadership, who, spec).await,
            Request::Window(service, floor, ceiling) => {
                let asked = SetWindowRequest {
                    service: service.clone(),
                    floor: *floor,
                    ceiling: *ceiling,
                    why: "by hand".to_owned(),
                    who: who.to_owned(),
                };
                self.window(context, leadership, asked).await
            }
            Request::DeclareStopped(id, node) if !self.stands_still(id, node) => {
                Came::Done("it runs: nobody says that it has stopped".to_owned())
            }
            Request::Decommission(instance) => self.decommission(context, leadership, who, instance).await,
            Request::Preview(..) | Request::Look(..) => {
                look(context, leadership, request).await;
                Came::Done("looked".to_owned())
            }
            other => Came::of(wished(context, leadership, who, other).await),
        }
    }

    async fn seen(&self, context: &Context) -> Option<i64> {
        seen(&self.place, context).await
    }

    /// Starts what must be refused, after a dry run: both say the same.
    async fn start(
        &self,
        context: &Context,
        leadership: &Leadership,
        who: &str,
        spec: &serde_json::Value,
    ) -> Came {
        let asked = |dry_run| StartUpgradeRequest {
            spec: spec.to_string(),
            id: who.to_owned(),
            who: who.to_owned(),
            dry_run,
        };
        let before = self.seen(context).await;
        let promised = operation::start_upgrade(context, leadership, asked(true)).await;
        let between = self.seen(context).await;
        let done = operation::start_upgrade(context, leadership, asked(false)).await;
        let after = self.seen(context).await;
        let accepts = promised.as_ref().is_ok_and(|reply| !blocks(reply));
        // A wrong spec may be accepted where no other look came between and the promise was the same: it is a fault all
        // the same.
        if before.is_some() && before == between && (after == between || done.is_ok()) {
            self.compare(who, accepts, done.is_ok());
        }
        if done.is_ok() {
            self.breach(format!("a spec that no fleet allows was started: {spec}"));
        }
        Came::of(done.map(|reply| reply.id))
    }

    async fn window(&self, context: &Context, leadership: &Leadership, asked: SetWindowRequest) -> Came {
        let who = asked.who.clone();
        let before = self.seen(context).await;
        let promised = operation::preview_window(context, leadership, asked.clone()).await;
        let between = self.seen(context).await;
        let done = operation::set_window(context, leadership, asked).await;
        let unmoved = before.is_some() && before == between;
        let first = match &done {
            Ok(done) => between.is_some_and(|between| done.revision == between + 1),
            Err(_) => self.seen(context).await == between,
        };
        if unmoved && first {
            self.compare(&who, promised.is_ok(), done.is_ok());
        }
        Came::of(done.map(|done| done.what))
    }

    /// Whether nothing runs there, and nothing starts it by itself: as a person sees who looks.
    fn stands_still(&self, id: &str, node: &str) -> bool {
        let names = self.ground.names();
        let Some(node) = names.node(node) else { return true };
        let Some(service) = place_of(id).and_then(|place| self.services.get(place)) else { return true };
        let (now, state) = (self.ground.now(), self.ground.state());
        let slot = state.slots.get(&(*service, node));
        slot.is_none_or(|slot| slot.alive(now).is_none() && !slot.supervised)
    }

    fn compare(&self, who: &str, promised: bool, done: bool) {
        if promised != done {
            let word = |accepted| if accepted { "accepts" } else { "refuses" };
            self.breach(format!("the dry run of {who} {}, the real one {}", word(promised), word(done)));
        }
    }

    /// An instance that reports, before and after, is not gone.
    async fn decommission(
        &self,
        context: &Context,
        leadership: &Leadership,
        who: &str,
        instance: &str,
    ) -> Came {
        let asked = DecommissionInstanceRequest {
            instance: instance.to_owned(),
            stopped_how: "it was switched off".to_owned(),
            who: who.to_owned(),
            why: "it is gone".to_owned(),
            ..Default::default()
        };
        let before = self.reported(instance).await;
        let done = operation::decommission_instance(context, leadership, asked).await;
        let after = self.reported(instance).await;
        // The lease of a report that is written anew is another one: its key was made anew.
        if done.is_ok() && before.is_some() && before == after {
            self.breach(format!("{instance} was decommissioned while it reported"));
        }
        Came::of(done.map(|done| done.what))
    }

    /// The revision that made the report of an instance.
    async fn reported(&self, instance: &str) -> Option<i64> {
        let (service, node) = instance.split_once('/')?;
        let key = tidegate_proto::Key::Report(service.parse().ok()?, node.parse().ok()?);
        let mut client = self.place.store().client().await.ok()?;
        let found = client.get(tidegate_proto::Prefix::default().key(&key), None).await.ok()?;
        found.kvs().first().map(etcd_client::KeyValue::create_revision)
    }
}
