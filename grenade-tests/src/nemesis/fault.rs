//! How each fault begins and ends.

use anyhow::Context;
use rustix::process::Signal;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::auditor::Auditor;
use super::database;
use super::ground::{BALANCER, Ground, member, node};
use super::plan::{Cut, MEMBERS, What};
use crate::world::coordinator::Coordinator;
use crate::world::haproxy;

/// How long a sync takes on a disk that is slow, in milliseconds.
const SLOW_MS: u64 = 300;
/// The file that fills a disk.
const FILLER: &str = "filler";
/// How long a store may take to forget.
const COMPACTS: Duration = Duration::from_secs(5);

/// How a fault is ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Undo {
    /// Nothing: it was over at once.
    Nothing,
    /// A member of etcd is started again.
    StartMember(usize),
    /// A member goes on.
    ThawMember(usize),
    /// A coordinator is started again.
    StartCoordinator(usize),
    /// A coordinator goes on.
    ThawCoordinator(usize),
    /// An agent is started again.
    StartAgent(usize),
    /// An agent goes on.
    ThawAgent(usize),
    /// An instance goes on.
    ThawService(usize),
    /// HAProxy is started again.
    StartBalancer,
    /// HAProxy goes on.
    ThawBalancer,
    /// PostgreSQL is started again.
    StartDatabase,
    /// PostgreSQL goes on.
    ThawDatabase,
    /// The promoted server gets a replica.
    Replicate,
    /// Hosts fault_scope each other again.
    Reconnect(Vec<(String, String)>),
    /// There is space again.
    Space(usize),
    /// A disk is as fast as before.
    FastDisk(String),
    /// A clock is right again.
    Clock(String),
}

/// Begins a fault; returns what ends it. None = its target does not exist now.
///
/// # Errors
/// When the system or a server refuses.
pub(super) async fn begin(
    ground: &mut Ground,
    auditor: &Auditor,
    what: &What,
) -> anyhow::Result<Option<Undo>> {
    match *what {
        What::MemberKilled(_) | What::MemberStalled(_) | What::MemberDiskSlow(_) => of_etcd(ground, what),
        What::LeaderKilled | What::FollowerKilled | What::LeaderStalled | What::FollowerStalled => {
            of_coordinator(ground, auditor, what)
        }
        What::AgentKilled(_) | What::AgentStalled(_) | What::ServiceKilled(_) | What::ServiceStalled(_) => {
            of_node(ground, what)
        }
        What::BalancerKilled | What::BalancerStalled => of_balancer(ground, what),
        What::BackendKilled(_) | What::DatabaseKilled | What::DatabaseStalled | What::ReplicaPromoted => {
            of_database(ground, what).await
        }
        What::DiskFull(_) | What::DiskSlow(_) => of_disk(ground, what),
        What::CoordinatorClock(..) | What::NodeClock(..) | What::DatabaseClock(_) => of_clock(ground, what),
        What::Compaction => {
            compact(ground, auditor).await;
            Ok(Some(Undo::Nothing))
        }
        What::Cut(cut) => {
            let pairs = pairs(ground, cut);
            for (one, other) in &pairs {
                ground.network.cut(one, other)?;
            }
            Ok(Some(Undo::Reconnect(pairs)))
        }
    }
}

fn of_etcd(ground: &mut Ground, what: &What) -> anyhow::Result<Option<Undo>> {
    Ok(match *what {
        What::MemberKilled(n) => {
            ground.down.insert(member(n));
            ground.etcd.members[n].0.crash()?;
            Some(Undo::StartMember(n))
        }
        What::MemberStalled(n) => {
            ground.etcd.members[n].0.freeze()?;
            Some(Undo::ThawMember(n))
        }
        What::MemberDiskSlow(n) => {
            let pid = ground.etcd.members[n].0.pid();
            ground.slow_disk(&member(n), pid, SLOW_MS)?;
            Some(Undo::FastDisk(member(n)))
        }
        _ => None,
    })
}

fn of_node(ground: &mut Ground, what: &What) -> anyhow::Result<Option<Undo>> {
    Ok(match *what {
        What::AgentKilled(n) => {
            ground.down.insert(node(n));
            ground.agents[n].process.crash()?;
            Some(Undo::StartAgent(n))
        }
        What::AgentStalled(n) => {
            ground.agents[n].process.freeze()?;
            Some(Undo::ThawAgent(n))
        }
        What::ServiceKilled(n) => ground.signal_service(n, Signal::KILL).then_some(Undo::Nothing),
        What::ServiceStalled(n) => ground.signal_service(n, Signal::STOP).then_some(Undo::ThawService(n)),
        _ => None,
    })
}

fn of_balancer(ground: &mut Ground, what: &What) -> anyhow::Result<Option<Undo>> {
    if *what == What::BalancerStalled {
        ground.balancer.process.freeze()?;
        return Ok(Some(Undo::ThawBalancer));
    }
    ground.balancer.process.crash()?;
    Ok(Some(Undo::StartBalancer))
}

async fn of_database(ground: &mut Ground, what: &What) -> anyhow::Result<Option<Undo>> {
    Ok(match *what {
        What::BackendKilled(n) => {
            ground.databases.crash_backend(n).await?;
            Some(Undo::Nothing)
        }
        What::DatabaseKilled => {
            ground.databases.crash()?;
            Some(Undo::StartDatabase)
        }
        What::DatabaseStalled => {
            ground.databases.signal(Signal::STOP)?;
            Some(Undo::ThawDatabase)
        }
        What::ReplicaPromoted => {
            ground.databases.fail_over(&mut ground.network).await?;
            Some(Undo::Replicate)
        }
        _ => None,
    })
}

fn of_disk(ground: &mut Ground, what: &What) -> anyhow::Result<Option<Undo>> {
    Ok(match *what {
        What::DiskFull(n) => {
            fill(&ground.state(n).join(FILLER));
            Some(Undo::Space(n))
        }
        What::DiskSlow(n) => {
            let pid = ground.agents[n].process.pid();
            ground.slow_disk(&node(n), pid, SLOW_MS)?;
            Some(Undo::FastDisk(node(n)))
        }
        _ => None,
    })
}

fn of_clock(ground: &Ground, what: &What) -> anyhow::Result<Option<Undo>> {
    let (name, seconds) = match *what {
        What::CoordinatorClock(n, seconds) => (ground.coordinators[n].plan.name.clone(), seconds),
        What::NodeClock(n, seconds) => (node(n), seconds),
        What::DatabaseClock(seconds) => ("database".to_owned(), seconds),
        _ => return Ok(None),
    };
    ground.clock.step(&name, seconds)?;
    Ok(Some(Undo::Clock(name)))
}

/// One of the two coordinators: the one that leads, or the other.
fn of_coordinator(ground: &mut Ground, auditor: &Auditor, what: &What) -> anyhow::Result<Option<Undo>> {
    let Some(leader) = auditor.leader() else { return Ok(None) };
    let is_leader = |one: &Coordinator| leader.ends_with(&one.plan.grpc.to_string());
    let leads = matches!(what, What::LeaderKilled | What::LeaderStalled);
    let Some(n) = ground.coordinators.iter().position(|one| is_leader(one) == leads) else { return Ok(None) };
    let one = &mut ground.coordinators[n];
    if matches!(what, What::LeaderStalled | What::FollowerStalled) {
        one.process.freeze()?;
        return Ok(Some(Undo::ThawCoordinator(n)));
    }
    ground.down.insert(one.plan.name.clone());
    one.process.crash()?;
    Ok(Some(Undo::StartCoordinator(n)))
}

/// Ends one.
///
/// # Errors
/// When something cannot be started again.
pub(super) async fn end(ground: &mut Ground, undo: &Undo) -> anyhow::Result<()> {
    match undo {
        Undo::Nothing => {}
        Undo::StartMember(n) => {
            ground.down.remove(&member(*n));
            ground.etcd.spawn_again(&ground.world, *n)?;
        }
        Undo::ThawMember(n) => ground.etcd.members[*n].0.thaw()?,
        Undo::StartCoordinator(n) => {
            let plan = ground.coordinators[*n].plan.clone();
            ground.down.remove(&plan.name);
            ground.coordinators[*n] = Coordinator::spawn(&ground.world, plan)?;
        }
        Undo::ThawCoordinator(n) => ground.coordinators[*n].process.thaw()?,
        Undo::StartAgent(n) => {
            ground.down.remove(&node(*n));
            ground.agents[*n].restart(&ground.world)?;
        }
        Undo::ThawAgent(n) => ground.agents[*n].process.thaw()?,
        // Its agent may have ended it meanwhile.
        Undo::ThawService(n) => drop(ground.signal_service(*n, Signal::CONT)),
        Undo::StartBalancer => {
            let host = ground.network.host(BALANCER)?;
            ground.balancer.process = haproxy::spawn(&ground.world, &host)?;
        }
        Undo::ThawBalancer => ground.balancer.process.thaw()?,
        Undo::StartDatabase => ground.databases.restart(&ground.world).await?,
        Undo::ThawDatabase => ground.databases.signal(Signal::CONT)?,
        Undo::Replicate => ground.databases.rebuild(&ground.world).await?,
        Undo::Reconnect(pairs) => {
            for (one, other) in pairs {
                ground.network.mend(one, other)?;
            }
        }
        Undo::Space(n) => {
            std::fs::remove_file(ground.state(*n).join(FILLER)).context("could not empty a disk")?;
        }
        Undo::FastDisk(name) => ground.mend_disk(name),
        Undo::Clock(name) => ground.clock.step(name, 0)?,
    }
    Ok(())
}

/// The hosts that a cut stands between.
fn pairs(ground: &Ground, cut: Cut) -> Vec<(String, String)> {
    let coordinator = |n: usize| ground.coordinators[n].plan.name.clone();
    let all_members = |from: String| (0..MEMBERS).map(move |n| (from.clone(), member(n))).collect();
    let databases = |from: String| database::HOSTS.map(|host| (from.clone(), host.to_owned())).to_vec();
    match cut {
        Cut::CoordinatorMember(n, m) => vec![(coordinator(n), member(m))],
        Cut::CoordinatorStore(n) => all_members(coordinator(n)),
        Cut::Coordinators => vec![(coordinator(0), coordinator(1))],
        Cut::CoordinatorDatabase(n) => databases(coordinator(n)),
        Cut::CoordinatorAgent(n, m) => vec![(coordinator(n), node(m))],
        Cut::AgentMember(n, m) => vec![(node(n), member(m))],
        Cut::AgentStore(n) => all_members(node(n)),
        Cut::NodeDatabase(n) => databases(node(n)),
        Cut::NodeBalancer(n) => vec![(node(n), BALANCER.to_owned())],
        Cut::Members(n, m) => vec![(member(n), member(m))],
        Cut::MemberAlone(n) => (0..MEMBERS).filter(|m| *m != n).map(|m| (member(n), member(m))).collect(),
        Cut::Replication => vec![(database::HOSTS[0].to_owned(), database::HOSTS[1].to_owned())],
    }
}

/// Fills a disk to its last byte.
fn fill(path: &Path) {
    let Ok(mut file) = std::fs::File::create(path) else { return };
    for size in [1 << 20, 4096, 1] {
        let piece = vec![0; size];
        // The disk refuses the first piece that it has no room for.
        while file.write_all(&piece).is_ok() {}
    }
}

/// Forgets what the auditor has seen, and makes the members' files smaller. A member that is away forgets it later.
async fn compact(ground: &Ground, auditor: &Auditor) {
    let (revision, endpoints) = (auditor.revision(), ground.etcd.endpoints());
    let asked = async {
        let mut client = etcd_client::Client::connect(&endpoints, None).await?;
        client.compact(revision, None).await
    };
    let done = tokio::time::timeout(COMPACTS, asked).await;
    ground.log.log(format!("compacted at {revision}: {}", matches!(done, Ok(Ok(_)))));
    for endpoint in endpoints {
        let asked = async {
            let mut client = etcd_client::Client::connect([endpoint], None).await?;
            client.defragment().await
        };
        // A member that is away has nothing made smaller.
        let _ = tokio::time::timeout(COMPACTS, asked).await;
    }
}
