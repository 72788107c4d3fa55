//! Several services that work together, upgraded one after the other under load, in each order: so every state in which
//! some are at the target and others at the base is passed through.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use crate::gate::beside::of_companion;
use crate::gate::course::Course;
use crate::gate::databases::Databases;
use crate::gate::deaths::{Death, DeathWatch};
use crate::gate::drive::{Drive, Ended};
use crate::gate::file::Gate;
use crate::gate::ground::{self, Ground};
use crate::gate::host::{HostSeen, Machine};
use crate::gate::late::Wrong;
use crate::gate::launcher::{Data, Places};
use crate::gate::load::{SET_ASIDE, SWEEP};
use crate::gate::spectator::Spectator;
use crate::gate::watch::Watch;
use crate::load::entry::{self, Entry};
use crate::load::plan::Pace;
use crate::load::requests::{Requests, Target, Versions};
use crate::load::sweep::Sweep;
use crate::load::{Load, Watched};
use crate::world::World;

/// From one look at the processes to the next.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What one order showed.
#[derive(Debug)]
pub struct Ordered {
    /// Each service in the order in which they are upgraded; those after one that did not complete are not.
    pub stages: Vec<Stage>,
    /// The service of each node.
    pub nodes: BTreeMap<String, String>,
    /// The ledger.
    pub entries: Vec<Entry>,
    /// The objects of the load, read again afterwards.
    pub sweep: Sweep,
    /// Processes of the services that ended without having been asked to.
    pub deaths: Vec<Death>,
    /// The machine while it ran.
    pub host: HostSeen,
}

/// The upgrade of one service.
#[derive(Debug)]
pub struct Stage {
    /// The service.
    pub service: String,
    /// Its base.
    pub from: u32,
    /// Its target.
    pub to: u32,
    /// How its upgrade ended, and when it began and ended, in milliseconds since the load's start; absent: an earlier one
    /// did not complete.
    pub upgraded: Option<(Ended, (f64, f64))>,
}

/// Each order of so many services.
pub fn orders(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..count {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            let left = (0..count).filter(|next| !order.contains(next)).collect::<Vec<_>>();
            left.into_iter().map(move |next| [order.clone(), vec![next]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// The services of a gate: its own, and its companions.
pub fn services(gate: &Gate) -> Vec<&Gate> {
    std::iter::once(gate).chain(&gate.companions).collect()
}

/// The names of an order, as `a before b`.
pub fn named(gate: &Gate, order: &[usize]) -> String {
    let services = services(gate);
    order.iter().map(|at| services[*at].service.name.as_str()).collect::<Vec<_>>().join(" before ")
}

/// One service with its own Tidegate.
struct Member<'a> {
    gate: &'a Gate,
    ground: Ground,
    places: Places,
    data: Data,
    // Last: its processes end after what is above was dropped.
    world: World,
}

impl<'a> Member<'a> {
    /// `name` is that of its directory, which is short: the paths of sockets are.
    async fn bring_up(world: &World, name: &str, gate: &'a Gate, data: Data) -> anyhow::Result<Self> {
        let world = World::beside(&world.path(name))?;
        let ground = Ground::bring_up(&world, gate, data.clone(), Course::Through).await;
        let ground = ground.with_context(|| format!("the service {}", gate.service.name))?;
        let places = Places::of(&world, gate, &data)?.behind(ground.balancer.address);
        Ok(Self { gate, ground, places, data, world })
    }

    fn target(&self, versions: &Versions) -> Target {
        Target::Balancer(self.ground.balancer.address, versions.clone())
    }

    async fn upgrade(&mut self, load: Watched, spectator: &dyn Spectator) -> anyhow::Result<Ended> {
        let Self { gate, ground, places, data, world } = self;
        let (course, survivors) = (Course::Through, None);
        let mut drive = Drive { world, gate, ground, places, spectator, load, course, survivors };
        let mut ended = drive.drive().await?;
        if ended.word == "completed" {
            ended.contract = Wrong::of_contract(ground::contract(world, gate, data).await)?;
        }
        Ok(ended)
    }
}

/// Upgrades the services in this order, which has a number, on fleets of their own.
///
/// # Errors
/// When they could not be run to an end; an upgrade that fails is a result.
pub async fn ordered(
    world: &World,
    gate: &Gate,
    databases: &Databases,
    spectator: &dyn Spectator,
    (number, order): (usize, &[usize]),
) -> anyhow::Result<Ordered> {
    let name = format!("order-{number}");
    let mut members = bring_up(world, gate, databases, &name).await?;
    let versions = Versions::default();
    let mut targets: Vec<Target> = members.iter().map(|member| member.target(&versions)).collect();
    let own = targets.remove(0);
    let names = gate.companions.iter().map(|companion| companion.service.name.to_string());
    let script = gate.script.clone().context("companions need `load.steps`")?;
    let requests = Arc::new(Requests::beside(script, own, names.zip(targets).collect()));
    let ledger = world.path(&format!("requests-{name}.csv"));
    let pace = Pace { rate: gate.pace.rate, seed: gate.pace.seed, jitter: None, ledger: ledger.clone() };
    let machine = Machine::watch();
    let load = Load::of(pace, Arc::clone(&requests))?;
    let watch = |member: &Member| Watch::start(member.gate, &member.ground.nodes, load.began(), &versions);
    let watches: Vec<Watch> = members.iter().map(watch).collect();
    let deaths: Vec<DeathWatch> = members.iter().map(|member| member.deaths(load.began())).collect();
    hold(&mut members, gate.pace.before).await?;
    requests.set_aside(SET_ASIDE);
    let mut stages: Vec<Stage> = order.iter().map(|at| Stage::of(members[*at].gate)).collect();
    for (stage, at) in stages.iter_mut().zip(order) {
        spectator.say(&format!("{} is upgraded", stage.service));
        let ms = |at: Instant| at.duration_since(load.began()).as_micros() as f64 / 1e3;
        let began = ms(Instant::now());
        let ended = members[*at].upgrade(load.watched(), spectator).await;
        let ended = ended.with_context(|| format!("the upgrade of {}", stage.service))?;
        let completed = ended.word == "completed" && ended.contract.is_none();
        stage.upgraded = Some((ended, (began, ms(Instant::now()))));
        // The state between two upgrades gets the load for as long as a frozen mix does.
        hold(&mut members, gate.pace.mixed).await?;
        if !completed {
            break;
        }
    }
    load.stop().await?;
    let sweep = requests.sweep(SWEEP).await;
    hold(&mut members, Duration::ZERO).await?;
    let entries = entry::read(&ledger)?;
    let unasked = watches.iter().zip(&deaths).flat_map(|(watch, deaths)| deaths.unasked(&watch.changes()));
    Ok(Ordered {
        stages,
        nodes: members.iter().flat_map(Member::nodes).collect(),
        host: machine.seen(&entries),
        entries,
        sweep,
        deaths: unasked.collect(),
    })
}

impl Stage {
    fn of(gate: &Gate) -> Self {
        let service = &gate.service;
        let (from, to) = (service.base.number.get(), service.target.number.get());
        Self { service: service.name.to_string(), from, to, upgraded: None }
    }
}

impl Member<'_> {
    fn deaths(&self, began: Instant) -> DeathWatch {
        DeathWatch::start(&self.world, self.gate.service.name.as_str(), &self.ground.nodes, began)
    }

    fn nodes(&self) -> impl Iterator<Item = (String, String)> {
        let service = self.gate.service.name.to_string();
        self.ground.nodes.iter().map(move |node| (node.name.clone(), service.clone()))
    }
}

/// The gate's own service comes first; its companions are started before it, because it may call them.
async fn bring_up<'a>(
    world: &World,
    gate: &'a Gate,
    databases: &Databases,
    name: &str,
) -> anyhow::Result<Vec<Member<'a>>> {
    let part = name.replace('-', "_");
    let mut shared = databases.fresh(world, gate, &part).await?;
    let mut members = Vec::new();
    for (n, companion) in gate.companions.iter().enumerate() {
        let data = of_companion(world, companion, databases, &shared, &part).await?;
        let member = Member::bring_up(world, &format!("{name}-{}", n + 1), companion, data).await?;
        shared.companions.push((companion.service.name.to_string(), member.ground.balancer.address));
        members.push(member);
    }
    members.insert(0, Member::bring_up(world, &format!("{name}-0"), gate, shared).await?);
    Ok(members)
}

/// Waits, and looks at the processes meanwhile.
async fn hold(members: &mut [Member<'_>], span: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + span;
    loop {
        members.iter_mut().try_for_each(|member| member.ground.must_run())?;
        let now = Instant::now();
        if now >= end {
            return Ok(());
        }
        tokio::time::sleep_until((now + LOOK_EVERY).min(end)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::orders;

    #[test]
    fn every_order_is_there_once() {
        assert_eq!(orders(2), [[0, 1], [1, 0]]);
        let three = orders(3);
        assert_eq!((three.len(), three[5].as_slice()), (6, [2, 1, 0].as_slice()));
    }
}
