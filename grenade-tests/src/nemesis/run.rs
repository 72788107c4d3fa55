//! Runs a plan: one upgrade after the other, faults beside them, and after each upgrade the judgement.

use anyhow::Context;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tidegate_proto::record::upgrade::PhaseName;
use tokio::sync::watch;

use super::auditor::Auditor;
use super::event_log::EventLog;
use super::health_monitor::HealthMonitor;
use super::judge;
use super::operator::{Care, Operator};
use super::plan::{Plan, UpgradePlan};
use super::releases;
use super::schedule::FaultSchedule;
use super::testbed::{ROWS, Testbed};
use crate::fixture::load::SampleLoad;
use crate::world::wait::wait_for;
use crate::world::{World, coordinator};

/// Requests a second.
const RATE: u32 = 20;
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two looks of the person.
const PERSON_LOOKS: Duration = Duration::from_millis(700);
/// How long an upgrade may last without any fault until it is a dead end.
const DEAD_END: Duration = Duration::from_secs(240);
/// How long the fleet may take to serve at one version.
const SERVES: Duration = Duration::from_secs(120);
/// How long an upgrade may be refused: reports of instances may be needed first.
const STARTS: Duration = Duration::from_secs(90);
/// Before one of so many upgrades the leader is killed with nothing else wrong.
const FIGURE_EVERY: usize = 3;
/// As many upgrades may fail in preflight one after the other.
const REFUSALS: usize = 3;

/// A run.
#[derive(Debug)]
pub(super) struct Run {
    // Those who look end before what they look at.
    /// The store's history.
    pub auditor: Auditor,
    /// The health URLs.
    pub health_monitor: HealthMonitor,
    /// Everything that runs.
    pub testbed: Testbed,
    /// The faults.
    pub faults: FaultSchedule,
    operator: Operator,
    /// The version that every instance runs between two upgrades.
    pub version: u32,
    /// The ids of all images that were acknowledged.
    pub images: BTreeSet<String>,
    /// How each upgrade ended.
    pub ended: Vec<String>,
    /// What was broken.
    pub broken: Vec<String>,
    /// Requests.
    pub requests: Sums,
}

/// What became of all requests.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// How many there were.
    pub sent: usize,
    /// How many of these had to succeed whatever happened.
    pub strict: usize,
    /// How many failed and are explained by a fault.
    pub explained: usize,
    /// How many were not sent in time.
    pub not_sent: usize,
}

/// One upgrade that goes on.
struct Current<'a> {
    id: String,
    plan: &'a UpgradePlan,
    reasons: watch::Receiver<Vec<String>>,
    began: Instant,
    back: bool,
}

impl Run {
    /// Brings everything up.
    ///
    /// # Errors
    /// When something cannot be started.
    pub(super) async fn begin(directory: &Path, aloud: bool) -> anyhow::Result<Self> {
        let world = World::alone(directory)?;
        let log = EventLog::begin(&world.path("events.log"), aloud)?;
        let testbed = Testbed::start(world, log.clone()).await?;
        log.log("everything runs");
        let auditor = Auditor::begin(testbed.etcd.endpoints(), &log);
        let instances = testbed.nodes.iter().enumerate();
        let instances = instances.map(|(n, (name, at))| (name.clone(), *at, testbed.disable_file(n)));
        let health_monitor = HealthMonitor::begin(instances.collect(), &log);
        let coordinators = testbed.coordinators.iter().map(|one| one.plan.grpc).collect();
        let operator = Operator::new(coordinators, coordinator::token_file(&testbed.world)?, &log);
        Ok(Self {
            testbed,
            auditor,
            health_monitor,
            faults: FaultSchedule::default(),
            operator,
            version: 1,
            images: BTreeSet::new(),
            ended: Vec::new(),
            broken: Vec::new(),
            requests: Sums::default(),
        })
    }

    /// The upgrades, as long as one may begin and nothing was broken.
    ///
    /// # Errors
    /// When the run itself cannot go on.
    pub(super) async fn play(&mut self, plan: &Plan, limit: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        for (n, upgrade) in plan.upgrades.iter().enumerate() {
            if began.elapsed() >= limit || !self.broken.is_empty() || self.version >= releases::LAST {
                break;
            }
            self.upgrade(n, upgrade).await?;
        }
        Ok(())
    }

    async fn upgrade(&mut self, n: usize, plan: &UpgradePlan) -> anyhow::Result<()> {
        let id = format!("u{n}");
        self.serves(&id).await?;
        if !self.broken.is_empty() {
            return Ok(());
        }
        if n.is_multiple_of(FIGURE_EVERY) {
            self.faults.kill_leader_alone(&mut self.testbed, &self.auditor).await?;
        }
        let before = self.testbed.databases.form().await?;
        self.health_monitor.demand(plan.min_in_service);
        self.faults.expect(&plan.faults);
        let ledger = self.testbed.world.path(&format!("requests-{id}.csv"));
        let load = SampleLoad::new(self.testbed.balancer.address, RATE, ROWS, ledger.clone());
        let load = SampleLoad { seed: u64::try_from(n)?, ..load }.start()?;
        let began = self.testbed.log.exactly(load.began().into_std());
        if let Err(why) = self.start(&id, plan).await? {
            self.broken.push(format!("{id} was not started: {why}"));
        } else {
            self.follow(&id, plan).await?;
        }
        while !self.faults.is_quiet() {
            self.step(None).await?;
        }
        load.stop().await.context("the load")?;
        judge::after(self, &id, (&ledger, began), &before).await
    }

    /// Every instance serves at the version that is left.
    async fn serves(&mut self, id: &str) -> anyhow::Result<()> {
        let end = Instant::now() + SERVES;
        loop {
            let others = self.health_monitor.not_serving(self.version);
            if others.is_empty() {
                return Ok(());
            }
            if Instant::now() > end {
                let text = format!("before {id} not all serve at {}: {}", self.version, others.join("; "));
                self.broken.push(text);
                return Ok(());
            }
            self.step(None).await?;
        }
    }

    /// Starts an upgrade; a refusal is asked again for a while, as its text may advise.
    async fn start(&mut self, id: &str, plan: &UpgradePlan) -> anyhow::Result<Result<(), String>> {
        releases::write_migration(&self.testbed.migrations, self.version + 1)?;
        let path: PathBuf = self.testbed.world.path(&format!("{id}.yaml"));
        std::fs::write(&path, self.testbed.spec(plan, self.version)).context("could not write a spec")?;
        let path = path.display().to_string();
        let end = Instant::now() + STARTS;
        loop {
            let said = self.operator.start(&path, id).await?;
            // An answer may be lost after it was carried out.
            if said.is_good() || self.auditor.phase(id).is_some() {
                return Ok(Ok(()));
            }
            if Instant::now() > end {
                return Ok(Err(said.err));
            }
            self.testbed.revive()?;
            tokio::time::sleep(PERSON_LOOKS).await;
        }
    }

    /// Until it is over, or a dead end.
    async fn follow(&mut self, id: &str, plan: &UpgradePlan) -> anyhow::Result<()> {
        let mut care = Care::of(self.operator.clone(), id, Duration::from_millis(plan.approves_after));
        let (found, reasons) = watch::channel(Vec::new());
        let cares = tokio::spawn(async move {
            loop {
                if let Err(error) = care.look().await {
                    found.send_replace(vec![format!("{error:#}")]);
                } else {
                    found.send_replace(care.reasons().to_vec());
                }
                tokio::time::sleep(PERSON_LOOKS).await;
            }
        });
        let mut current = Current { id: id.to_owned(), plan, reasons, began: Instant::now(), back: false };
        let over = self.ends(&mut current).await;
        cares.abort();
        let Some(over) = over? else { return Ok(()) };
        self.ended.push(format!("{id}: {} to {}: {over:?}", self.version, self.version + 1));
        match over {
            PhaseName::Completed => self.version += 1,
            PhaseName::Failed => {
                let failed = |text: &&String| text.ends_with("Failed");
                if self.ended.iter().rev().take_while(failed).count() >= REFUSALS {
                    self.broken.push(format!("{REFUSALS} upgrades failed in preflight one after the other"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    async fn ends(&mut self, current: &mut Current<'_>) -> anyhow::Result<Option<PhaseName>> {
        loop {
            self.step(Some(&current.id)).await?;
            let phase = self.auditor.phase(&current.id).map(|(phase, _)| phase);
            if let Some(over @ (PhaseName::Completed | PhaseName::RolledBack | PhaseName::Failed)) = phase {
                return Ok(Some(over));
            }
            self.roll_back(current);
            let quiet = self.faults.quiet_since().unwrap_or(current.began).max(current.began);
            if quiet.elapsed() > DEAD_END {
                let reasons = current.reasons.borrow().join("; ");
                self.broken.push(format!(
                    "{} does not end: in {phase:?} {DEAD_END:?} after the last fault, waiting on: {reasons}",
                    current.id
                ));
                return Ok(None);
            }
        }
    }

    /// The person rolls back where that is planned.
    fn roll_back(&self, current: &mut Current<'_>) {
        let Some((phase, after)) = current.plan.rolled_back.as_ref().filter(|_| !current.back) else {
            return;
        };
        let entered = self.auditor.entered(&current.id, phase);
        if entered.is_none_or(|at| at.elapsed() < Duration::from_millis(*after)) {
            return;
        }
        current.back = true;
        let (operator, id) = (self.operator.clone(), current.id.clone());
        tokio::spawn(async move {
            // A coordinator that is away is asked again.
            while operator.roll_back(&id).await.is_ok_and(|said| said.is_away()) {
                tokio::time::sleep(PERSON_LOOKS).await;
            }
        });
    }

    async fn step(&mut self, id: Option<&str>) -> anyhow::Result<()> {
        self.faults.step(&mut self.testbed, &self.auditor, id).await?;
        self.testbed.revive()?;
        tokio::time::sleep(LOOK_EVERY).await;
        Ok(())
    }

    /// Waits until etcd, the coordinators and the database answer again after the last fault.
    ///
    /// # Errors
    /// When they do not.
    pub(super) async fn settles(&mut self) -> anyhow::Result<()> {
        self.auditor.catch_up().await?;
        let databases = &self.testbed.databases;
        wait_for("the database to answer", SERVES, || async {
            databases.connect().await.map(drop).map_err(|error| format!("{error:#}"))
        })
        .await?;
        Ok(())
    }
}
