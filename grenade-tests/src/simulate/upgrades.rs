//! The upgrades of one service, one after the other, as the people of that service carry them out: they start them, follow
//! what `explain` advises, and try once more with a corrected release.

mod reasons;

use super::advice::{filled_by_hand, put_back, reconciled, undo_ended_by_hand};
use super::before::{all_filled, as_before, returns_to_form, seen_until};
use super::current::{Current, LOOK, MISFORTUNE};
use super::lost::{self, Refused};
use super::operator::{Operator, within};
use super::promise;
use super::scenario::{Fault, Scenario, UpgradePlan, What};
use super::sharing::{self, Turn, Wanted};
use super::spec::spec;
use super::upgrade_id;
use super::world::World;
use reasons::follow_reasons;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::record::upgrade::PhaseName;

/// So long after that every upgrade must be over.
const PATIENCE: u64 = 900_000;

/// After so long in all, what is wrong with releases is corrected where they run.
const CORRECTED_AFTER: u64 = MISFORTUNE + PATIENCE / 2;

/// How often a service that shares a schema tries to get to the next version, which another upgrade waits for. Where that
/// one cannot be rolled back, its people have the service try again.
const ATTEMPTS: u32 = 4;

/// The upgrades of one service.
#[derive(Debug)]
pub(super) struct UpgradeSequence {
    /// Those to come, by their place in the scenario.
    pub left: Vec<usize>,
    /// The one under way.
    pub current: Option<Current>,
    /// How each ended.
    pub ended: Vec<(usize, String)>,
    looked_at: u64,
    refusals: u32,
    /// How many attempts at the next upgrade have ended without success.
    failed: u32,
    /// The attempts that have ended, by id, where upgrades of another service wait for this one.
    over: BTreeMap<String, Over>,
}

/// An attempt that has ended.
#[derive(Debug)]
struct Over {
    attempt: Current,
    /// The phase in which it ended.
    phase: PhaseName,
    /// How many attempts at the same upgrade had failed before.
    failed: u32,
}

impl UpgradeSequence {
    /// Those of the service at a place.
    pub(super) fn of(world: &World, service: usize) -> Self {
        let all = world.scenario.upgrades.iter().enumerate();
        let left = all.filter(|(_, plan)| plan.service == service).map(|(n, _)| n).collect();
        let over = BTreeMap::new();
        Self { left, current: None, ended: Vec::new(), looked_at: 0, refusals: 0, failed: 0, over }
    }

    /// Whether nothing is left to do.
    pub(super) fn is_over(&self, world: &World) -> bool {
        self.current.is_none() && self.next(&world.scenario, &world.given_up).is_none()
    }

    /// The place of the upgrade to start next; none where the service's people try nothing further.
    fn next(&self, scenario: &Scenario, given_up: &BTreeSet<usize>) -> Option<usize> {
        let place = *self.left.first()?;
        (!given_up.contains(&scenario.upgrades[place].service)).then_some(place)
    }

    /// The upgrade that people start now: its place and its id.
    pub(super) fn starts_now(&self, world: &World) -> Option<(usize, String)> {
        let place = self.next(&world.scenario, &world.given_up)?;
        let is_due = self.current.is_none() && world.testbed.now() >= self.looked_at + LOOK;
        let starts = is_due && sharing::turn(world, &world.scenario.upgrades[place]) == Turn::Now;
        let order = world.scenario.upgrades[place].order;
        starts.then(|| (place, upgrade_id::id(place, order, self.failed)))
    }

    /// What people do now.
    pub(super) async fn step(&mut self, world: &mut World) {
        let now = world.testbed.now();
        if now < self.looked_at + LOOK {
            return;
        }
        self.looked_at = now;
        match self.current.clone() {
            None => self.begin(world).await,
            Some(current) => self.follow(world, current).await,
        }
    }

    async fn begin(&mut self, world: &mut World) {
        let reopened = self.reopened(&world.testbed.state().facts.phases);
        if let Some(reopened) = reopened {
            world.testbed.log(format!("{} is not over any more", reopened.id));
            let plan = world.scenario.upgrades[reopened.plan].clone();
            world.given_up.remove(&plan.service);
            return self.has_begun(world, &plan, reopened);
        }
        let Some(place) = self.next(&world.scenario, &world.given_up) else { return };
        let plan = world.scenario.upgrades[place].clone();
        match sharing::turn(world, &plan) {
            Turn::Now => {}
            Turn::Later => return,
            Turn::Never => {
                // An attempt may have begun in a store that was lost.
                forget_upgrade(world, plan.service);
                return self.give_up(world, place, "not begun".to_owned());
            }
        }
        let schema = world.scenario.owned_schema(plan.service);
        let form = match schema {
            Some(schema) => world.databases[schema].form().await.ok(),
            None => None,
        };
        let takes_place = |fault: &Fault| fault.what == What::DatabaseOlder;
        let is_needed = world.scenario.faults.iter().any(takes_place);
        let copied = schema.filter(|_| is_needed).map(|schema| world.databases[schema].keep_copy());
        if let Some(Err(error)) = copied {
            world.testbed.log(format!("no copy of the database: {error}"));
        }
        let (id, is_retry) = (upgrade_id::id(place, plan.order, self.failed), self.failed > 0);
        let spec = spec(world, &plan, is_retry);
        let started = match std::mem::take(&mut world.started_twice) {
            true => within(promise::start_twice(world, &id, &spec)).await,
            false => within(Operator::new(&world.coordinators).start(&id, &spec)).await,
        };
        let now = world.testbed.now();
        match started {
            Ok(_) => {
                world.testbed.log(format!("{id} is started"));
                self.has_begun(world, &plan, Current::new(place, id, now, form, is_retry));
            }
            Err(why) => {
                world.testbed.log(format!("{id} is not started: {why}"));
                reconciled(world, &why).await;
                put_back(world, &why).await;
                world.correct_config(plan.service, &why);
                filled_by_hand(world, plan.service, &why).await;
                undo_ended_by_hand(world, plan.service, &why).await;
                world.install_former(&plan, &why);
                world.install_chosen(&plan, &why);
                self.refusals += 1;
                // An answer that was lost: it may have begun.
                if world.testbed.state().facts.phases.contains_key(&id) {
                    self.has_begun(world, &plan, Current::new(place, id, now, form, is_retry));
                    return;
                }
                match lost::refused(world, plan.service, plan.from + 1, (&why, self.refusals)).await {
                    Refused::Done => {
                        forget_upgrade(world, plan.service);
                        self.is_done(place, "completed by hand, or its store was lost");
                        // Services that share the schema go on.
                        world.wanted.insert(place, Wanted::Done);
                    }
                    Refused::Again if self.refusals >= world.scenario.starts(plan.service) => {
                        forget_upgrade(world, plan.service);
                        if is_refused_by_its_term(&why) {
                            let text = format!("{id} cannot be started: {why}");
                            world.testbed.state().facts.breach(now, 0, text);
                        }
                        self.give_up(world, place, format!("refused: {why}"));
                    }
                    Refused::Again => {}
                }
            }
        }
    }

    /// An attempt that had ended, where the store was restored to a copy in which it is unfinished: it is followed again
    /// before anything is started. A completed one may be rolled back there, and one that failed holds up the next.
    fn reopened(&mut self, phases: &BTreeMap<String, (PhaseName, u64)>) -> Option<Current> {
        let phase = |id: &str| phases.get(id).map(|(phase, _)| *phase);
        let is_open = |over: &&Over| phase(&over.attempt.id).is_some_and(|now| now != over.phase);
        let id = self.over.values().find(is_open)?.attempt.id.clone();
        let Over { attempt, failed, .. } = self.over.remove(&id)?;
        self.failed = failed;
        if !self.left.contains(&attempt.plan) {
            self.left.insert(0, attempt.plan);
        }
        Some(attempt)
    }

    /// An upgrade is started, on the database that there is now.
    fn has_begun(&mut self, world: &mut World, plan: &UpgradePlan, current: Current) {
        world.goes_on_with.remove(&plan.service);
        world.testbed.state().facts.services[plan.service].begins(plan);
        if let Some(schema) = world.scenario.owned_schema(plan.service) {
            world.databases[schema].is_started_on();
        }
        self.refusals = 0;
        self.current = Some(current);
    }

    async fn follow(&mut self, world: &mut World, mut current: Current) {
        let now = world.testbed.now();
        let phase = world.testbed.state().facts.phases.get(&current.id).map(|(phase, _)| *phase);
        if let Some(over @ (PhaseName::Completed | PhaseName::RolledBack | PhaseName::Failed)) = phase {
            self.end(world, current, over).await;
            return;
        }
        if now > current.since + CORRECTED_AFTER && !current.corrected {
            correct_releases(world, &mut current);
        }
        let last = now > current.since + MISFORTUNE + PATIENCE;
        match Operator::new(&world.coordinators).explain(&current.id).await {
            Ok(explained) => follow_reasons(world, &mut current, explained, last).await,
            Err(why) => {
                reconciled(world, &why).await;
                put_back(world, &why).await;
                if why.contains("there is no upgrade") && !last {
                    self.start_again(world, current).await;
                    return;
                }
                if last {
                    let text = format!("{} does not end and cannot be explained: {why}", current.id);
                    world.testbed.state().facts.breach(now, 0, text);
                }
            }
        }
        if last {
            self.current = None;
            self.give_up(world, current.plan, "dead end".to_owned());
        } else {
            self.current = Some(current);
        }
    }

    /// Starts an upgrade once more that the store, which was replaced, does not know.
    async fn start_again(&mut self, world: &mut World, current: Current) {
        world.testbed.log(format!("{} is not known any more", current.id));
        world.testbed.state().facts.phases.remove(&current.id);
        world.testbed.state().facts.paused.remove(&current.id);
        self.current = None;
        let ended = self.ended.len();
        self.begin(world).await;
        if let Some(again) = &mut self.current {
            again.since = current.since;
            // The form before it is not known where the first look at it failed.
            again.form = current.form;
        } else if self.ended.len() == ended {
            self.current = Some(current);
        }
    }

    /// Nothing further is tried, unless an upgrade that cannot be rolled back waits for the service.
    fn give_up(&mut self, world: &mut World, place: usize, how: String) {
        if let Some(plan) = world.scenario.upgrades.get(place) {
            world.given_up.insert(plan.service);
        }
        self.ended.push((place, how));
        self.refusals = 0;
    }

    /// The service is at the version of an upgrade. The next one is an attempt of its own, and is started as often as any.
    fn is_done(&mut self, place: usize, how: &str) {
        self.ended.push((place, how.to_owned()));
        self.left.retain(|left| *left != place);
        (self.refusals, self.failed) = (0, 0);
    }

    async fn end(&mut self, world: &mut World, current: Current, phase: PhaseName) {
        let over = phase.word();
        self.current = None;
        world.testbed.log(format!("{} is over: {over}", current.id));
        let service = world.scenario.upgrades[current.plan].service;
        world.testbed.state().facts.services[service].upgrading = false;
        if over == "completed" {
            all_filled(world, &current).await;
        }
        // What shares the schema may go on to need what an older copy lacks, or return to it.
        let to = world.scenario.upgrades[current.plan].from + 1;
        let sharing = world.scenario.sharing(service);
        let is_needed = sharing::use_form(world, &sharing, to);
        let returns = returns_to_form(world, &current, |other| sharing.contains(&other));
        if let Some(schema) = world.scenario.owned_schema(service)
            && (over == "completed" || !is_needed)
        {
            let leaves = (over != "completed").then_some(if returns { to } else { to - 1 });
            let seen_until = seen_until(world, &current, over);
            world.databases[schema].upgrade_ended(seen_until, leaves).await;
        }
        let shares = world.scenario.is_waited_for(service);
        if shares {
            let over = Over { attempt: current.clone(), phase, failed: self.failed };
            self.over.insert(current.id.clone(), over);
        }
        if over == "completed" {
            return self.is_done(current.plan, over);
        }
        as_before(world, &current, over).await;
        self.failed += 1;
        let attempts = match world.scenario.upgrades[current.plan].tried_once {
            true => 1,
            false if shares => ATTEMPTS,
            false => 2,
        };
        if self.failed < attempts {
            self.ended.push((current.plan, over.to_owned()));
            self.begin(world).await;
        } else {
            self.give_up(world, current.plan, over.to_owned());
        }
    }
}

/// Whether the database refused a start because of the term that it obeys. One that a store does not know is named before
/// that, with the reconciliation that helps; from then on the store gives higher ones.
fn is_refused_by_its_term(why: &str) -> bool {
    why.contains("the database obey")
}

/// An upgrade of the service that had begun is in no store any more, and people do not start it again.
fn forget_upgrade(world: &World, service: usize) {
    world.testbed.state().facts.services[service].upgrading = false;
}

/// Corrects the releases of the upgrade's service and of all that share its schema, which it may be waiting on.
fn correct_releases(world: &mut World, current: &mut Current) {
    let service = world.scenario.upgrades[current.plan].service;
    world.scenario.sharing(service).into_iter().for_each(|other| world.testbed.correct_all(other));
    world.testbed.correct_all(service);
    for other in world.scenario.sharing(service) {
        world.reinstall(other);
    }
    current.corrected = true;
}

#[cfg(test)]
mod tests;
