//! Runs one scenario to its end in simulated time.

mod clients;

use super::current::MISFORTUNE;
use super::database::is_slow;
use super::deposed;
use super::falsify::Plan;
use super::fault::{self, Undo};
use super::judge::Breach;
use super::metadata::{MetadataPeople, judge_falls};
use super::old_sessions;
use super::paused_job;
use super::planned::Steps;
use super::programs;
use super::scenario::{Fault, Scenario, What};
use super::stream::StreamPeople;
use super::testbed::Testbed;
use super::upgrades::UpgradeSequence;
use super::world::World;
use super::{lies, tamper};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::record::upgrade::PhaseName;
use tokio::time::Instant;

/// Between two looks of the world at itself.
const STEP: Duration = Duration::from_millis(250);

/// Between two checks of the balancers.
const CHECK: Duration = Duration::from_secs(1);

/// What lying agents and clients do, in steps.
const LIES: u64 = 4;
const CLIENTS: u64 = 20;

/// How often the store is backed up, in steps.
const SNAPSHOT: u64 = 48;

const PREFLIGHT: &str = "preflight";

/// No world lasts longer, in milliseconds.
pub(super) const LONGEST: u64 = 6_000_000;

/// What came of a scenario.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Of everything that happened.
    pub digest: String,
    /// Rules that were broken.
    pub breaches: Vec<Breach>,
    /// The phases that any upgrade reached.
    pub reached: BTreeSet<String>,
    /// The kind of each fault that happened, and in which phase.
    pub fired: Vec<(String, String)>,
    /// How each upgrade ended.
    pub ended: Vec<String>,
    /// How long it lasted there.
    pub simulated_ms: u64,
    /// How many revisions of the store wrote something.
    pub revisions: usize,
    /// The most that one of them wrote, keys and records together, in bytes.
    #[serde(default)]
    pub largest_commit: usize,
    /// Faults of the scenario that never began.
    #[serde(default)]
    pub never_began: Vec<Fault>,
    /// The event log, if it was kept.
    pub log: Vec<String>,
}

struct Run {
    world: World,
    sequences: Vec<UpgradeSequence>,
    stream: Option<StreamPeople>,
    metadata: Option<MetadataPeople>,
    waiting: Vec<Fault>,
    planned: Steps,
    pending: Vec<(u64, Undo)>,
    fired: Vec<(String, String)>,
    falsify: Plan,
    /// Since when no coordinator is stopped and no database is slow.
    calm: u64,
    /// When a coordinator was stopped last.
    stopped: Option<u64>,
    /// When a coordinator last went on after it had been stopped.
    went_on: Option<u64>,
}

/// An upgrade in one of its phases.
struct UnderWay {
    service: usize,
    plan: usize,
    phase: String,
    since: u64,
}

impl UnderWay {
    /// When a fault of this phase begins.
    fn begins(&self, fault: &Fault) -> Option<u64> {
        let is_here = fault.upgrade == self.plan && fault.phase == self.phase;
        is_here.then_some(self.since + fault.after)
    }
}

/// Runs it; its files lie in `directory`.
///
/// # Errors
/// Where the simulation itself cannot go on.
pub async fn run(scenario: Scenario, directory: &Path, keeps: bool) -> anyhow::Result<Outcome> {
    let (seed, waiting) = (scenario.seed, scenario.faults.clone());
    let world = World::make(scenario, directory, keeps).await?;
    let sequences =
        (0..world.scenario.services.len()).map(|service| UpgradeSequence::of(&world, service)).collect();
    let falsify = Plan::of(&world.scenario);
    let stream = StreamPeople::of(&world);
    let metadata = MetadataPeople::of(&world);
    let planned = Steps::of(&world.scenario);
    let (pending, fired) = (Vec::new(), Vec::new());
    let mut run = Run {
        world,
        sequences,
        stream,
        metadata,
        waiting,
        planned,
        pending,
        fired,
        falsify,
        calm: 0,
        stopped: None,
        went_on: None,
    };
    // Balancers check also while a person waits for an answer.
    let checks = tokio::spawn(check(run.world.testbed.clone()));
    let endless = Arc::clone(&run.world.testbed.state().facts.rate.endless);
    let played = tokio::select! {
        biased;
        () = endless.notified() => Ok(()),
        played = run.play() => played,
    };
    checks.abort();
    played?;
    let world = &run.world;
    judge_falls(world);
    for text in world.operators.refused_but_done(&world.auditor.names()) {
        world.testbed.state().facts.breach(world.testbed.now(), 0, text);
    }
    for broken in world.former.iter().cloned().chain(world.auditor.breaches(run.falsify.record())) {
        let what = format!("revision {}: {}", broken.at, broken.what);
        world.testbed.state().facts.breaches.push(Breach {
            at: world.testbed.now(),
            rule: broken.rule,
            what,
        });
    }
    let ended =
        run.sequences.iter().flat_map(|chain| &chain.ended).map(|(plan, how)| format!("u{plan}: {how}"));
    let ended: Vec<String> = ended.collect();
    let state = world.testbed.state();
    Ok(Outcome {
        seed,
        digest: state.log.digest(),
        breaches: state.facts.breaches.clone(),
        reached: state.facts.reached.iter().map(|phase| word(*phase)).collect(),
        fired: run.fired,
        ended,
        simulated_ms: world.testbed.now(),
        revisions: world.auditor.revisions(),
        largest_commit: state.facts.sizes.largest,
        never_began: run.waiting,
        log: state.log.lines().to_vec(),
    })
}

async fn check(testbed: Testbed) {
    let mut next = Instant::now();
    loop {
        next += CHECK;
        tokio::time::sleep_until(next).await;
        testbed.tick();
    }
}

impl Run {
    async fn play(&mut self) -> anyhow::Result<()> {
        let (mut step, mut next) = (0u64, Instant::now() + STEP);
        let backs_up = self.waiting.iter().any(|fault| fault.what == What::StoreRestored);
        while self.world.testbed.now() < LONGEST {
            let due = self.next_due().unwrap_or(next).min(next);
            tokio::select! {
                biased;
                () = self.world.testbed.changed().notified() => {
                    self.let_things_happen().await?;
                    self.clients().await;
                    continue;
                }
                () = tokio::time::sleep_until(due) => {}
            }
            if due < next {
                self.let_things_happen().await?;
                deposed::look(&mut self.world).await;
                continue;
            }
            next += STEP;
            step += 1;
            if step.is_multiple_of(LIES) {
                tamper::lie(&mut self.world).await;
                lies::lie(&mut self.world).await;
            }
            self.let_things_happen().await?;
            for n in 0..self.sequences.len() {
                self.before_the_start(n).await;
                self.sequences[n].step(&mut self.world).await;
            }
            if backs_up && step % SNAPSHOT == 1 {
                self.world.keep_store();
            }
            if step.is_multiple_of(CLIENTS) {
                self.clients().await;
            }
            self.look_at_processes();
            self.end_idle_sessions();
            if self.falsify.is_found(&self.world) {
                break;
            }
            self.world.operators.look().await;
            let rests = self.pending.is_empty() && self.sequences.iter().all(|one| one.is_over(&self.world));
            if let Some(stream) = &mut self.stream {
                stream.step(&mut self.world, rests).await;
            }
            if let Some(people) = &mut self.metadata {
                people.step(&self.world, rests).await;
            }
            let streamed = self.stream.as_ref().is_none_or(|stream| stream.over);
            if rests && streamed && self.metadata.as_ref().is_none_or(|people| people.over) {
                break;
            }
        }
        Ok(())
    }

    /// Preflight is over in an instant: what happens in it happens as the upgrade is started.
    async fn before_the_start(&mut self, service: usize) {
        let Some((plan, id)) = self.sequences[service].starts_now(&self.world) else { return };
        let is_due = |fault: &mut Fault| fault.upgrade == plan && fault.phase == PREFLIGHT;
        let due: Vec<Fault> = self.waiting.extract_if(.., is_due).collect();
        for fault in due {
            self.happens(service, PREFLIGHT.to_owned(), Some(id.clone()), &fault).await;
        }
    }

    async fn happens(&mut self, service: usize, phase: String, id: Option<String>, fault: &Fault) {
        self.fired.push((fault.what.kind(), phase));
        let undo = fault::begin(&mut self.world, id, service, &fault.what, fault.lasts).await;
        let ends = self.world.testbed.now() + fault.lasts;
        self.pending.extend(undo.into_iter().map(|undo| (ends, undo)));
    }

    /// The upgrades under way that faults may still strike.
    fn under_way(&self) -> Vec<UnderWay> {
        let (state, now) = (self.world.testbed.state(), self.world.testbed.now());
        let current = |(service, chain): (usize, &UpgradeSequence)| {
            let current = chain.current.as_ref()?;
            let (phase, since) = *state.facts.phases.get(&current.id)?;
            let late = now > current.since + MISFORTUNE || current.is_retry;
            (!late).then(|| UnderWay { service, plan: current.plan, phase: word(phase), since })
        };
        self.sequences.iter().enumerate().filter_map(current).collect()
    }

    /// When the next fault begins or ends: between two looks as well, in the middle of whatever is done then. Or when it is
    /// time to look for what a deposed leader writes.
    fn next_due(&self) -> Option<Instant> {
        let under_way = self.under_way();
        let begins =
            self.waiting.iter().filter_map(|fault| under_way.iter().find_map(|one| one.begins(fault)));
        let ends = self.pending.iter().map(|(ends, _)| *ends);
        let now = self.world.testbed.now();
        let looks = self.went_on.filter(|at| now < at + deposed::LASTS).map(|_| now + deposed::EVERY);
        let due = begins.chain(ends).chain(looks).filter(|due| *due > now).min()?;
        Some(Instant::now() + Duration::from_millis(due - now))
    }

    /// What is due begins, and what is over ends.
    async fn let_things_happen(&mut self) -> anyhow::Result<()> {
        let now = self.world.testbed.now();
        let mut due = Vec::new();
        for one in self.under_way() {
            let is_due = |fault: &mut Fault| one.begins(fault).is_some_and(|begins| begins <= now);
            let faults = self.waiting.extract_if(.., is_due);
            due.extend(faults.map(|fault| (one.service, one.phase.clone(), fault)));
        }
        for (service, phase, fault) in due {
            let id = self.sequences[service].current.as_ref().map(|current| current.id.clone());
            self.happens(service, phase, id, &fault).await;
        }
        self.next_of_the_plan().await;
        self.look_at_sessions().await;
        for chain in &self.sequences {
            let Some(id) = chain.current.as_ref().map(|current| &current.id) else { continue };
            let phase = self.world.testbed.state().facts.phases.get(id).copied();
            let Some(phase) = phase else { continue };
            self.falsify.step(&mut self.world, id, phase).await;
        }
        let now = self.world.testbed.now();
        if self.pending.iter().any(|(_, undo)| !undo.is_of_an_operator()) {
            self.world.operators.disturbed(now);
        }
        let over: Vec<(u64, Undo)> = self.pending.extract_if(.., |(ends, _)| *ends <= now).collect();
        for (_, undo) in over {
            if matches!(undo, Undo::ThawCoordinator(_)) {
                self.went_on = Some(now);
            }
            if !fault::end(&mut self.world, &undo).await? {
                self.pending.push((now + 5_000, undo));
            }
        }
        Ok(())
    }

    /// A step of a plan waits for the end of the one above it.
    async fn next_of_the_plan(&mut self) {
        const FIRST: usize = 0;
        if !self.pending.is_empty() {
            return;
        }
        if let Some(step) = self.sequences.get(FIRST).and_then(|first| self.planned.due(&self.world, first)) {
            let id = self.sequences[FIRST].current.as_ref().map(|current| current.id.clone());
            let phase = id.as_ref().and_then(|id| self.world.testbed.state().facts.phases.get(id).copied());
            let phase = phase.map(|(phase, _)| word(phase)).unwrap_or_default();
            self.happens(FIRST, phase, id, &step).await;
        }
    }

    async fn look_at_sessions(&mut self) {
        programs::connect(&mut self.world);
        if self.is_any_stopped() {
            self.stopped = Some(self.world.testbed.now());
        }
        if is_slow() || self.is_any_stopped() {
            self.calm = self.world.testbed.now();
        }
        for chain in &self.sequences {
            let Some(current) = &chain.current else { continue };
            paused_job::judge(&mut self.world, current, self.stopped).await;
            let phase = self.world.testbed.state().facts.phases.get(&current.id).map(|(phase, _)| *phase);
            if phase == Some(PhaseName::Contract) {
                let plan = self.world.scenario.upgrades[current.plan].clone();
                old_sessions::judge(&mut self.world, &plan, self.calm).await;
            }
        }
    }

    fn is_any_stopped(&self) -> bool {
        self.world.coordinators.iter().flatten().any(|one| !one.gate.is_open())
    }

    /// A coordinator may be stopped in a transaction.
    fn end_idle_sessions(&mut self) {
        let now = self.world.testbed.now();
        if self.is_any_stopped() {
            self.world.databases.iter_mut().for_each(|database| database.end_idle(now));
        }
    }

    fn look_at_processes(&mut self) {
        let now = self.world.testbed.now();
        for one in self.world.coordinators.iter().flatten() {
            if one.is_broken() {
                let text = "a coordinator's loop ended by itself".to_owned();
                // Where a record cannot be read, that is no excuse: it harms nothing but its own gates.
                let rule = if self.world.garbage.is_empty() { 0 } else { 11 };
                self.world.testbed.state().facts.breach(now, rule, text);
            }
        }
    }
}

/// The phase in the words of a scenario.
fn word(phase: PhaseName) -> String {
    serde_json::to_value(phase).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
