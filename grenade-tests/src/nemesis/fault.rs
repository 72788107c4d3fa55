//! How each fault begins and ends.

use anyhow::Context;
use rustix::process::Signal;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::auditor::Auditor;
use super::database;
use super::plan::{Cut, MEMBERS, What};
use super::testbed::{BALANCER, Testbed, member, node};
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
    /// Hosts reach each other again.
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
    testbed: &mut Testbed,
    auditor: &Auditor,
    what: &What,
) -> anyhow::Result<Option<Undo>> {
    match *what {
        What::MemberKilled(_) | What::MemberStalled(_) | What::MemberDiskSlow(_) => of_etcd(testbed, what),
        What::LeaderKilled | What::FollowerKilled | What::LeaderStalled | What::FollowerStalled => {
            of_coordinator(testbed, auditor, what)
        }
        What::AgentKilled(_) | What::AgentStalled(_) | What::ServiceKilled(_) | What::ServiceStalled(_) => {
            of_node(testbed, what)
        }
        What::BalancerKilled | What::BalancerStalled => of_balancer(testbed, what),
        What::BackendKilled(_) | What::DatabaseKilled | What::DatabaseStalled | What::ReplicaPromoted => {
            of_database(testbed, what).await
        }
        What::DiskFull(_) | What::DiskSlow(_) => of_disk(testbed, what),
        What::CoordinatorClock(..) | What::NodeClock(..) | What::DatabaseClock(_) => of_clock(testbed, what),
        What::Compaction => {
            compact(testbed, auditor).await;
            Ok(Some(Undo::Nothing))
        }
        What::Cut(cut) => {
            let pairs = pairs(testbed, cut);
            for (one, other) in &pairs {
                testbed.network.cut(one, other)?;
            }
            Ok(Some(Undo::Reconnect(pairs)))
        }
    }
}

fn of_etcd(testbed: &mut Testbed, what: &What) -> anyhow::Result<Option<Undo>> {
    Ok(match *what {
        What::MemberKilled(n) => {
            testbed.down.insert(member(n));
            testbed.etcd.members[n].0.crash()?;
            Some(Undo::StartMember(n))
        }
        What::MemberStalled(n) => {
            testbed.etcd.members[n].0.freeze()?;
            Some(Undo::ThawMember(n))
        }
        What::MemberDiskSlow(n) => {
            let pid = testbed.etcd.members[n].0.pid();
            testbed.slow_disk(&member(n), pid, SLOW_MS)?;
            Some(Undo::FastDisk(member(n)))
        }
        _ => None,
    })
}

fn of_node(testbed: &mut Testbed, what: &What) -> anyhow::Result<Option<Undo>> {
    Ok(match *what {
        What::AgentKilled(n) => {
            testbed.down.insert(node(n));
            testbed.agents[n].process.crash()?;
            Some(Undo::StartAgent(n))
        }
        What::AgentStalled(n) => {
            testbed.agents[n].process.freeze()?;
            Some(Undo::ThawAgent(n))
        }
        What::ServiceKilled(n) => testbed.signal_service(n, Signal::KILL).then_some(Undo::Nothing),
        What::ServiceStalled(n) => testbed.signal_service(n, Signal::STOP).then_some(Undo::ThawService(n)),
        _ => None,
    })
}

fn of_balancer(testbed: &mut Testbed, what: &What) -> anyhow::Result<Option<Undo>> {
    if *what == What::BalancerStalled {
        testbed.balancer.process.freeze()?;
        return Ok(Some(Undo::ThawBalancer));
    }
    testbed.balancer.process.crash()?;
    Ok(Some(Undo::StartBalancer))
}

async fn of_database(testbed: &mut Testbed, what: &What) -> anyhow::Result<Option<Undo>> {
    Ok(match *what {
        What::BackendKilled(n) => {
            testbed.databases.crash_backend(n).await?;
            Some(Undo::Nothing)
        }
        What::DatabaseKilled => {
            testbed.databases.crash()?;
            Some(Undo::StartDatabase)
        }
        What::DatabaseStalled => {
            testbed.databases.signal(Signal::STOP)?;
            Some(Undo::ThawDatabase)
        }
        What::ReplicaPromoted => {
            testbed.databases.fail_over(&mut testbed.network).await?;
            Some(Undo::Replicate)
        }
        _ => None,
    })
}

fn of_disk(testbed: &mut Testbed, what: &What) -> anyhow::Result<Option<Undo>> {
    Ok(match *what {
        What::DiskFull(n) => {
            fill(&testbed.state(n).join(FILLER));
            Some(Undo::Space(n))
        }
        What::DiskSlow(n) => {
            let pid = testbed.agents[n].process.pid();
            testbed.slow_disk(&node(n), pid, SLOW_MS)?;
            Some(Undo::FastDisk(node(n)))
        }
        _ => None,
    })
}

fn of_clock(testbed: &Testbed, what: &What) -> anyhow::Result<Option<Undo>> {
    let (name, seconds) = match *what {
        What::CoordinatorClock(n, seconds) => (testbed.coordinators[n].plan.name.clone(), seconds),
        What::NodeClock(n, seconds) => (node(n), seconds),
        What::DatabaseClock(seconds) => ("database".to_owned(), seconds),
        _ => return Ok(None),
    };
    testbed.clock.step(&name, seconds)?;
    Ok(Some(Undo::Clock(name)))
}

/// One of the two coordinators: the one that leads, or the other.
fn of_coordinator(testbed: &mut Testbed, auditor: &Auditor, what: &What) -> anyhow::Result<Option<Undo>> {
    let Some(leader) = auditor.leader() else { return Ok(None) };
    let is_leader = |one: &Coordinator| leader.ends_with(&one.plan.grpc.to_string());
    let leads = matches!(what, What::LeaderKilled | What::LeaderStalled);
    let Some(n) = testbed.coordinators.iter().position(|one| is_leader(one) == leads) else {
        return Ok(None);
    };
    let one = &mut testbed.coordinators[n];
    if matches!(what, What::LeaderStalled | What::FollowerStalled) {
        one.process.freeze()?;
        return Ok(Some(Undo::ThawCoordinator(n)));
    }
    testbed.down.insert(one.plan.name.clone());
    one.process.crash()?;
    Ok(Some(Undo::StartCoordinator(n)))
}

/// Ends one.
///
/// # Errors
/// When something cannot be started again.
pub(super) async fn end(testbed: &mut Testbed, undo: &Undo) -> anyhow::Result<()> {
    match undo {
        Undo::Nothing => {}
        Undo::StartMember(n) => {
            testbed.down.remove(&member(*n));
            testbed.etcd.spawn_again(&testbed.world, *n)?;
        }
        Undo::ThawMember(n) => testbed.etcd.members[*n].0.thaw()?,
        Undo::StartCoordinator(n) => {
            let plan = testbed.coordinators[*n].plan.clone();
            testbed.down.remove(&plan.name);
            testbed.coordinators[*n] = Coordinator::spawn(&testbed.world, plan)?;
        }
        Undo::ThawCoordinator(n) => testbed.coordinators[*n].process.thaw()?,
        Undo::StartAgent(n) => {
            testbed.down.remove(&node(*n));
            testbed.agents[*n].restart(&testbed.world)?;
        }
        Undo::ThawAgent(n) => testbed.agents[*n].process.thaw()?,
        // Its agent may have ended it meanwhile.
        Undo::ThawService(n) => drop(testbed.signal_service(*n, Signal::CONT)),
        Undo::StartBalancer => {
            let host = testbed.network.host(BALANCER)?;
            testbed.balancer.process = haproxy::spawn(&testbed.world, &host)?;
        }
        Undo::ThawBalancer => testbed.balancer.process.thaw()?,
        Undo::StartDatabase => testbed.databases.restart(&testbed.world).await?,
        Undo::ThawDatabase => testbed.databases.signal(Signal::CONT)?,
        Undo::Replicate => testbed.databases.rebuild(&testbed.world).await?,
        Undo::Reconnect(pairs) => {
            for (one, other) in pairs {
                testbed.network.mend(one, other)?;
            }
        }
        Undo::Space(n) => {
            std::fs::remove_file(testbed.state(*n).join(FILLER)).context("could not empty a disk")?;
        }
        Undo::FastDisk(name) => testbed.mend_disk(name),
        Undo::Clock(name) => testbed.clock.step(name, 0)?,
    }
    Ok(())
}

/// The pairs of hosts that a cut separates.
fn pairs(testbed: &Testbed, cut: Cut) -> Vec<(String, String)> {
    let coordinator = |n: usize| testbed.coordinators[n].plan.name.clone();
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
async fn compact(testbed: &Testbed, auditor: &Auditor) {
    let (revision, endpoints) = (auditor.revision(), testbed.etcd.endpoints());
    let asked = async {
        let mut client = etcd_client::Client::connect(&endpoints, None).await?;
        client.compact(revision, None).await
    };
    let done = tokio::time::timeout(COMPACTS, asked).await;
    testbed.log.log(format!("compacted at {revision}: {}", matches!(done, Ok(Ok(_)))));
    for endpoint in endpoints {
        let asked = async {
            let mut client = etcd_client::Client::connect([endpoint], None).await?;
            client.defragment().await
        };
        // A member that is away has nothing made smaller.
        let _ = tokio::time::timeout(COMPACTS, asked).await;
    }
}
