//! One person at work: each request in turn, and what its answer must be consistent with.

use super::Asked;
use crate::simulate::accepting::{OldPrograms, says_none_is_old};
use crate::simulate::dice::Dice;
use crate::simulate::gate::Gate;
use crate::simulate::line::Place;
use crate::simulate::looks::{look, preview};
use crate::simulate::promise::{are_comparable, blocks, seen};
use crate::simulate::request::{Known, Request, request};
use crate::simulate::testbed::Testbed;
use crate::simulate::upgrade_id::place_of;
use crate::simulate::verbs::requested;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tidegate_coordinator::context::Context;
use tidegate_coordinator::leadership::Leadership;
use tidegate_coordinator::operation::{self, OperationError};
use tidegate_proto::wire::v1::{DecommissionInstanceRequest, SetWindowRequest, StartUpgradeRequest};

/// No request takes longer where nothing disturbs it.
const LIMIT: Duration = Duration::from_secs(20);

/// How long people think between two requests, in milliseconds.
const THINKS: u64 = 1_500;

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
pub(super) struct Desk {
    pub contexts: Vec<(Context, Gate)>,
    pub place: Place,
    pub testbed: Testbed,
    pub asked: Arc<Asked>,
    pub name: String,
    /// The service of each upgrade.
    pub services: Vec<usize>,
    /// Nodes that were switched off for good when the person began.
    pub left: BTreeSet<usize>,
    /// What the contract of the upgrade does not bear.
    pub old: OldPrograms,
}

impl Desk {
    pub(super) async fn work(self, mut dice: Dice, known: Known) {
        for n in 0u32.. {
            let who = format!("{}-{n}", self.name);
            let next = request(&mut dice, &known);
            if !self.is_false_statement(&next) {
                self.ask(&who, next).await;
            }
            tokio::time::sleep(Duration::from_millis(dice.below(THINKS))).await;
        }
    }

    /// Whether it says that no old program is connected, and one is.
    fn is_false_statement(&self, request: &Request) -> bool {
        let Request::Approve(_, phase, accepts) = request else { return false };
        says_none_is_old(phase, accepts) && self.old.run(&self.testbed)
    }

    fn breach(&self, text: String) {
        let now = self.testbed.now();
        self.testbed.state().facts.breach(now, 0, text);
    }

    /// The coordinator that leads. Where none does, one that was stopped while it led: a person does not know that. Whether
    /// that leadership lasts is not asked, which would show its process the end of it before it goes on.
    fn leader(&self) -> Option<(&Context, &Gate, Arc<Leadership>)> {
        let mut open = self.contexts.iter().filter(|(_, gate)| gate.is_open());
        let leads = open.find_map(|(context, gate)| Some((context, gate, context.led_here()?)));
        leads.or_else(|| {
            let mut stopped = self.contexts.iter().filter(|(_, gate)| !gate.is_open() && !gate.is_dead());
            stopped.find_map(|(context, gate)| {
                let led = context.leadership.borrow().clone();
                Some((context, gate, led?))
            })
        })
    }

    /// Asks for one thing; a process that does not go on is asked all the same, and answers once it does.
    async fn ask(&self, who: &str, request: Request) {
        let Some((context, gate, leadership)) = self.leader() else { return };
        let begun = self.testbed.now();
        self.asked.sent(who, &request);
        let asked = gate.run(self.come(context, &leadership, who, &request));
        let came = tokio::time::timeout(LIMIT, asked).await;
        if matches!(came, Ok(Came::Done(_) | Came::Refused(_))) {
            self.asked.answered(who);
        }
        let what = format!("{request:?}");
        match came {
            Ok(Came::Done(done)) => self.testbed.log(format!("{who} asks {what}: {done}")),
            Ok(Came::Refused(why)) => {
                self.testbed.log(format!("{who} asks {what}: refused, {why}"));
                let mut refused = self.asked.refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.push((who.to_owned(), what));
            }
            Ok(Came::Unclear(why)) => self.testbed.log(format!("{who} asks {what}: {why}")),
            Err(_) => {
                self.testbed.log(format!("{who} asks {what}: no answer"));
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
                Came::Done("it runs: no person says that it has stopped".to_owned())
            }
            Request::Decommission(instance) => self.decommission(context, leadership, who, instance).await,
            Request::Preview(spec) => {
                preview(context, leadership, spec).await;
                self.looked(Vec::new())
            }
            Request::Look(id, service) => self.looked(look(context, leadership, id, service).await),
            other => Came::of(requested(context, leadership, who, other).await),
        }
    }

    /// Every question was asked, and had these wrong answers.
    fn looked(&self, wrong: Vec<String>) -> Came {
        wrong.into_iter().for_each(|text| self.breach(text));
        Came::Done("looked".to_owned())
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
        let begun = self.testbed.now();
        let before = self.seen(context).await;
        let promised = operation::start_upgrade(context, leadership, asked(true)).await;
        let between = self.seen(context).await;
        let done = operation::start_upgrade(context, leadership, asked(false)).await;
        let after = self.seen(context).await;
        let accepts = promised.as_ref().is_ok_and(|reply| !blocks(reply));
        let comparable = are_comparable(&self.testbed.state().facts, begun, [&promised, &done]);
        // A wrong spec may be accepted where no other look came between and the promise was the same: it is a fault all
        // the same.
        if comparable && before.is_some() && before == between && (after == between || done.is_ok()) {
            self.compare(who, accepts, done.is_ok());
        }
        if done.is_ok() {
            self.breach(format!("a spec that no fleet allows was started: {spec}"));
        }
        Came::of(done.map(|reply| reply.id))
    }

    async fn window(&self, context: &Context, leadership: &Leadership, asked: SetWindowRequest) -> Came {
        let who = asked.who.clone();
        let begun = self.testbed.now();
        let before = self.seen(context).await;
        let promised = operation::preview_window(context, leadership, asked.clone()).await;
        let between = self.seen(context).await;
        let done = operation::set_window(context, leadership, asked).await;
        let unmoved = before.is_some() && before == between;
        let first = match &done {
            Ok(done) => between.is_some_and(|between| done.revision == between + 1),
            Err(_) => self.seen(context).await == between,
        };
        let comparable = are_comparable(&self.testbed.state().facts, begun, [&promised, &done]);
        if comparable && unmoved && first {
            self.compare(&who, promised.is_ok(), done.is_ok());
        }
        Came::of(done.map(|done| done.what))
    }

    /// Whether nothing runs there, and nothing starts it by itself: as a person sees who looks.
    fn stands_still(&self, id: &str, node: &str) -> bool {
        let names = self.testbed.names();
        let Some(node) = names.node(node) else { return true };
        let Some(service) = place_of(id).and_then(|place| self.services.get(place)) else { return true };
        let (now, state) = (self.testbed.now(), self.testbed.state());
        let slot = state.slots.get(&(*service, node));
        slot.is_none_or(|slot| slot.stands_still(now) && !slot.supervised)
    }

    /// Whether an instance is not gone for good: it runs, or its node was not switched off for that.
    fn may_return(&self, instance: &str) -> bool {
        let names = self.testbed.names();
        let Some((service, node)) = instance.split_once('/') else { return false };
        let Some(at) = names.service(service).zip(names.node(node)) else { return false };
        let (now, state) = (self.testbed.now(), self.testbed.state());
        let slot = state.slots.get(&at);
        slot.is_some_and(|slot| !self.left.contains(&at.1) || !slot.stands_still(now))
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
        if before.is_none() && self.may_return(instance) {
            return Came::Done("it may return: no person says that it is gone".to_owned());
        }
        let done = operation::decommission_instance(context, leadership, asked).await;
        let after = self.reported(instance).await;
        // A report under a new lease has a new key, with another create revision.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::event_log::EventLog;
    use crate::simulate::judge::Facts;
    use crate::simulate::names::Names;
    use crate::simulate::slot::{Behaviour, Running, Slot};
    use std::collections::BTreeMap;
    use tidegate_embedded_etcd::Embedded;

    fn runs(slot: &mut Slot) {
        let is = Behaviour::good(1, 0);
        slot.running = Some(Running { tag: "pantry-1".to_owned(), is, since: 0, pid: 1, put_back: false });
    }

    #[tokio::test]
    async fn person_calls_only_what_was_switched_off_gone() {
        let nodes = ["n00", "n01", "n02"].map(str::to_owned).to_vec();
        let names = Names { services: vec!["pantry".to_owned()], nodes };
        let testbed = Testbed::new(names, BTreeMap::new(), EventLog::new(false), Facts::default());
        testbed.change((0, 0), |slot, _| runs(slot));
        testbed.change((0, 1), |_, _| ());
        testbed.change((0, 2), |_, _| ());
        let desk = Desk {
            contexts: Vec::new(),
            place: Place::of(Embedded::in_memory()),
            testbed: testbed.clone(),
            asked: Arc::default(),
            name: "person".to_owned(),
            services: vec![0],
            left: [2].into(),
            old: OldPrograms::default(),
        };
        assert!(desk.may_return("pantry/n00"), "its agent alone has ended");
        assert!(desk.may_return("pantry/n01"), "it lost its power for a while");
        assert!(!desk.may_return("pantry/n02"));
        testbed.change((0, 2), |slot, _| runs(slot));
        assert!(desk.may_return("pantry/n02"), "it is on again");
        assert!(!desk.may_return("attic/n00"), "what is not there is asked for, to be refused");
    }
}
