//! The run itself: the load before, the upgrade, the load after, and a look at all of it five times a second.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use tidegate_proto::wire::v1::UpgradeStatusReply;

use crate::demo::arguments::DemoPlan;
use crate::demo::display::Display;
use crate::demo::operator::Operator;
use crate::demo::picture::{InstanceSeen, Picture, UpgradeSeen, waits};
use crate::demo::report::VersionCounts;
use crate::demo::setting::Setting;
use crate::load::departure::{Departure, departures};
use crate::load::{Load, LoadHandle, LoadPlan, LoadReport, entry};
use crate::world::World;

/// The load runs so long before the upgrade and after it.
const AROUND: Duration = Duration::from_secs(2);
/// From one look to the next.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// An upgrade of six instances takes well below a minute: one that takes this long will not end.
const LONGEST: Duration = Duration::from_secs(240);
/// What waits for a person is shown so long before the person of this demo acts.
const READ_FIRST: Duration = Duration::from_millis(1500);
/// How long the coordinator may give no answer before that is an error.
const SILENCE: Duration = Duration::from_secs(15);

/// What came of it.
#[derive(Debug)]
pub struct Driven {
    /// Where the upgrade stood at the end.
    pub status: Option<UpgradeStatusReply>,
    /// Why it did not come to an end.
    pub trouble: Option<anyhow::Error>,
    /// What the load found.
    pub load: LoadReport,
    /// The spread before.
    pub before: VersionCounts,
    /// The spread after; empty when nobody could tell.
    pub after: VersionCounts,
    /// The digest of the certificate on which contract ran.
    pub certificate: Option<String>,
    /// Each instance that left rotation, as the ledger has it.
    pub departures: Vec<Departure>,
    /// The size of each wave, as they were seen while they were rolled.
    pub waves: Vec<u32>,
    /// From the operator's command to the end.
    pub took: Duration,
    /// How long a person was given to read what they accept.
    pub read: Duration,
}

/// Drives the upgrade under load.
///
/// # Errors
/// When the load cannot run or be accounted for; an upgrade that fails is a result, not an error.
pub async fn drive(
    world: &World,
    plan: &DemoPlan,
    setting: &mut Setting,
    display: &mut Display,
) -> anyhow::Result<Driven> {
    let before = setting.operator.spread().await?;
    let target = setting.balancer.address;
    let ledger = world.path("requests.csv");
    let load = Load::start(LoadPlan::new(target, plan.rate, plan.rows, ledger.clone()))?;
    let (phase, answered) = ((String::new(), Instant::now()), Instant::now());
    let mut watch =
        Watch { setting, display, load, phase, answered, waves: Vec::new(), asked: None, accepted: false };
    watch.hold("the load runs", AROUND).await?;
    let began = Instant::now();
    let ended = watch.upgrade(world).await;
    let took = began.elapsed();
    let held = watch.hold("the upgrade is over; the load goes on", AROUND).await;
    let after = watch.setting.operator.spread().await.unwrap_or_default();
    let status = watch.setting.operator.status().await.ok();
    let certificate = certificate(world, &watch.setting.operator, status.as_ref()).await;
    let Watch { display, load, waves, accepted, .. } = watch;
    let read = if accepted { READ_FIRST } else { Duration::ZERO };
    display.end();
    display.note("waiting for the last answers");
    let load = load.stop().await?;
    let (certificate, untrue) = match certificate {
        Ok(certificate) => (certificate, None),
        Err(untrue) => (None, Some(untrue)),
    };
    let trouble = ended.and(held).err().or(untrue);
    let departures = departures(&entry::read(&ledger)?);
    Ok(Driven { status, trouble, load, departures, before, after, certificate, waves, took, read })
}

/// The certificate of an upgrade that completed; one that did not contract has none.
async fn certificate(
    world: &World,
    operator: &Operator,
    status: Option<&UpgradeStatusReply>,
) -> anyhow::Result<Option<String>> {
    let phase = status.and_then(|status| status.upgrade.as_ref()).map(|upgrade| upgrade.phase.as_str());
    if phase != Some("completed") {
        return Ok(None);
    }
    let certificate = operator.certificate(world, &world.path("certificate.json")).await;
    certificate.map(Some).context("completed, but without a certificate that is true")
}

struct Watch<'a> {
    setting: &'a mut Setting,
    display: &'a mut Display,
    load: LoadHandle,
    phase: (String, Instant),
    answered: Instant,
    waves: Vec<u32>,
    asked: Option<Instant>,
    accepted: bool,
}

impl Watch<'_> {
    /// Only watches, for a while.
    async fn hold(&mut self, doing: &str, span: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + span;
        while Instant::now() < end {
            self.look(doing).await?;
        }
        Ok(())
    }

    /// Starts the upgrade and watches it to its end.
    async fn upgrade(&mut self, world: &World) -> anyhow::Result<()> {
        let operator = self.setting.operator.clone();
        operator.start(world, &self.setting.spec).await?;
        let doing =
            format!("upgrading 1 -> 2: tidegate upgrade status demo --coordinator {}", operator.url());
        let end = Instant::now() + LONGEST;
        loop {
            let status = self.look(&doing).await?;
            if status.as_ref().and_then(|status| status.upgrade.as_ref()).is_some_and(|upgrade| upgrade.over)
            {
                return Ok(());
            }
            self.accept(world, status.as_ref()).await?;
            if Instant::now() > end {
                let waits: Vec<String> = status.iter().flat_map(waits).map(|wait| wait.line()).collect();
                bail!("the upgrade was not over after {LONGEST:?}; it waits for: {}", waits.join("; "));
            }
        }
    }

    /// Accepts, as a person would, what a database that cannot list its sessions asks for; once, after a while.
    async fn accept(&mut self, world: &World, status: Option<&UpgradeStatusReply>) -> anyhow::Result<()> {
        let asks = status.is_some_and(|status| status.waiting.iter().any(|wait| wait.kind == "acceptance"));
        if !asks || self.accepted {
            return Ok(());
        }
        if self.asked.get_or_insert_with(Instant::now).elapsed() > READ_FIRST {
            self.accepted = true;
            self.display.note("the operator types: tidegate upgrade approve demo contract --accept sessions");
            self.setting.operator.accept(world).await?;
        }
        Ok(())
    }

    /// Looks once, shows it, and lets some time pass.
    async fn look(&mut self, doing: &str) -> anyhow::Result<Option<UpgradeStatusReply>> {
        self.setting.must_run()?;
        let next = Instant::now() + LOOK_EVERY;
        let (picture, status) = self.picture(doing).await?;
        self.display.show(&picture);
        tokio::time::sleep_until(next.into()).await;
        Ok(status)
    }

    async fn picture(&mut self, doing: &str) -> anyhow::Result<(Picture, Option<UpgradeStatusReply>)> {
        let balancer = self.setting.balancer.show_stat().await.ok();
        // Before the start there is no such upgrade; then the instances alone are asked for.
        let (status, instances) = match self.setting.operator.status().await {
            Ok(status) => (Some(status.clone()), Ok(status.instances)),
            Err(_) => (None, self.setting.operator.instances().await),
        };
        let instances = match instances {
            Ok(instances) => instances,
            Err(silence) if self.answered.elapsed() > SILENCE => {
                return Err(anyhow!("the coordinator gave no answer for {SILENCE:?}: {silence}"));
            }
            Err(_) => Vec::new(),
        };
        if !instances.is_empty() {
            self.answered = Instant::now();
        }
        let picture = Picture {
            at: self.display.elapsed(),
            upgrade: status.as_ref().map(|status| self.with_what_is_known(UpgradeSeen::of(status))),
            instances: instances.iter().map(|seen| InstanceSeen::of(seen, balancer.as_ref())).collect(),
            requests: self.load.progress(),
            waits: status.as_ref().map(waits).unwrap_or_default(),
            doing: doing.to_owned(),
        };
        Ok((picture, status))
    }

    /// With what the coordinator does not say: it stores the seconds of a phase only every now and then.
    fn with_what_is_known(&mut self, mut upgrade: UpgradeSeen) -> UpgradeSeen {
        if self.phase.0 != upgrade.phase {
            self.phase = (upgrade.phase.clone(), Instant::now());
        }
        upgrade.seconds = self.phase.1.elapsed().as_secs_f64();
        // Once it is over, instances belong to no wave any more.
        match upgrade.over {
            true => upgrade.waves.clone_from(&self.waves),
            false => self.waves.clone_from(&upgrade.waves),
        }
        upgrade
    }
}
