//! How each fault of a scenario begins and how it ends.

mod database;
mod join;
mod network;
mod node;
mod operator;
mod process;
mod service;
mod store;
mod undo;
pub(super) mod version;

pub(super) use undo::Undo;

use super::database::set_slow;
use super::judge::OLD;
use super::operators;
use super::scenario::What;
use super::slot::At;
use super::tamper;
use super::world::World;
/// What a fault happens to, and for how long.
struct Target {
    /// The upgrade in which it happens.
    id: Option<String>,
    service: usize,
    /// The service's nodes.
    nodes: Vec<usize>,
    /// Milliseconds of simulated time.
    lasts: u64,
}

impl Target {
    fn node(&self, n: usize) -> usize {
        self.nodes[n % self.nodes.len()]
    }

    fn at(&self, n: usize) -> At {
        (self.service, self.node(n))
    }
}

/// Begins a fault of a service, in the upgrade of this ID; returns what ends it.
pub(super) async fn begin(
    world: &mut World,
    id: Option<String>,
    service: usize,
    what: &What,
    lasts: u64,
) -> Vec<Undo> {
    let nodes = world.scenario.services[service].nodes.clone();
    let until = world.testbed.now() + lasts;
    world.testbed.log(format!("mishap: {what:?} for {lasts} ms"));
    if what.disturbs_coordinators() {
        let facts = &mut world.testbed.state().facts;
        facts.disturbed_until = facts.disturbed_until.max(until + OLD);
    }
    if !matches!(what, What::VersionPutBack(_)) {
        let facts = &mut world.testbed.state().facts;
        facts.struck_until = facts.struck_until.max(until + OLD);
    }
    let on = Target { id, service, nodes, lasts };
    match what {
        What::BadNetwork => network::degrade(world),
        What::AgentCut(n) => network::cut_agent(world, on.node(*n)),
        What::CoordinatorCut(n) => network::cut_coordinator(world, *n),
        What::StreamsEnd => network::end_streams(world),
        What::WatchesHang => network::hang_watches(world),
        What::RequestsRepeat => network::repeat_requests(world),
        What::Compaction => store::compact(world).await,
        What::CoordinatorKilled(n) => process::kill_coordinator(world, *n),
        What::CoordinatorStalled(n) => process::stall_coordinator(world, *n),
        What::AgentKilled(n) => process::kill_agent(world, on.node(*n)),
        What::AgentStalled(n) => process::stall_agent(world, on.node(*n)),
        What::JournalLost(n) => process::lose_journal(world, on.node(*n)),
        What::DiskFull(n) => node::fill_disk(world, on.node(*n)),
        What::DiskSlow(n) => node::slow_disk(world, on.node(*n)),
        What::NodeDies(n) => node::switch_off(world, on.node(*n)),
        What::NodeLeaves(n) => {
            let undo = node::switch_off(world, on.node(*n));
            world.left.insert(on.node(*n));
            undo
        }
        What::NodeJoins(n) => join::join(world, on.id.as_deref(), *n),
        What::Labels(n) => node::relabel(world, on.node(*n)),
        What::OneHiccup(n, hiccup) => service::hiccup(world, on.at(*n), *hiccup, until),
        What::AllHiccup(hiccup) => {
            on.nodes.iter().flat_map(|n| service::hiccup(world, (service, *n), *hiccup, until)).collect()
        }
        What::Crash(n) => service::crash(world, on.at(*n)),
        What::HooksHang(n) => service::change(world, on.at(*n), |slot| slot.hangs_until = until),
        What::HooksFail(n) => service::change(world, on.at(*n), |slot| slot.fails_until = until),
        What::HooksLie(n) => service::change(world, on.at(*n), |slot| slot.lies_until = until),
        What::VersionPutBack(None) => version::put_back(world, service, &on.nodes),
        What::VersionPutBack(Some(n)) => version::put_back(world, service, &[on.node(*n)]),
        What::PersonHides(n) => operator::put_disable_file(world, on.at(*n)),
        What::DatabaseAway => database::take_away(world, service),
        What::DatabaseSlow => {
            set_slow(true);
            vec![Undo::Fast]
        }
        What::DatabaseOlder => database::put_older_copy(world, service, lasts).await,
        What::StoreRestored => store::restore(world).await,
        What::StoreBlank => store::blank(world).await,
        What::Garbage(n) => store::write_garbage(world, on.at(*n)).await,
        What::Unreadable(n) => {
            let spoilt = tamper::spoil(world, on.id.as_deref(), on.at(*n), *n).await;
            spoilt.map(Undo::Record).into_iter().collect()
        }
        What::LyingAgent(n) => process::replace_by_byzantine(world, on.node(*n)),
        What::SecondAgent(n) => process::start_second_agent(world, on.node(*n)),
        What::LateRow => {
            tamper::late_row(world, on.id.as_deref()).await;
            Vec::new()
        }
        What::Pause => operator::pause(world, on.id).await,
        What::RollBack => operator::roll_back(world, on.id).await,
        What::WrongCommands => operator::send_wrong_commands(world, on.id.as_deref(), on.node(0)).await,
        What::Cordon(n) => operator::cordon(world, on.node(*n)).await,
        What::Person => operators::begin(world, on.id, service, 1, on.lasts),
        What::TwoPersons => operators::begin(world, on.id, service, 2, on.lasts),
    }
}

/// Ends a fault; false = it has to be tried again later.
pub(super) async fn end(world: &mut World, undo: &Undo) -> anyhow::Result<bool> {
    let what = match undo {
        Undo::Record(spoilt) => format!("Record({})", spoilt.key),
        undo => format!("{undo:?}"),
    };
    world.testbed.log(format!("it is over: {what}"));
    match undo {
        Undo::Weather => network::restore(world),
        Undo::AgentLine(n) => network::reconnect_agent(world, *n),
        Undo::CoordinatorLine(n) => world.coordinators[*n].iter().for_each(|one| one.line.set_cut(false)),
        Undo::Watches => network::let_watches_go_on(world),
        Undo::Requests => network::let_requests_arrive_once(world),
        Undo::StartCoordinator(n) => world.start_coordinator(*n).await?,
        Undo::ThawCoordinator(n) => process::resume_coordinator(world, *n),
        Undo::StartAgent(n) => world.start_agent(*n),
        Undo::Boot(n) => node::boot(world, *n),
        Undo::Garbage(key) => store::remove_unreadable(world, key).await,
        Undo::Record(spoilt) => {
            tamper::put_back(world, spoilt).await;
            world.put_back.push(spoilt.clone());
        }
        Undo::Liar(n) => tamper::rebuilt(world, *n).await,
        Undo::ThawAgent(n) => process::resume_agent(world, *n),
        Undo::Disk(n) => node::repair_disk(world, *n),
        Undo::Show(at) => operator::remove_disable_file(world, *at),
        Undo::RightVersion(service) => return Ok(version::put_right(world, *service)),
        Undo::Database(n) => database::bring_back(world, *n),
        Undo::Fast => set_slow(false),
        Undo::Newest(n) => database::put_newest_back(world, *n).await,
        Undo::Impostor(n) => process::end_second_agent(world, *n),
        Undo::Resume(id) => operator::resume(world, id).await,
        Undo::Uncordon(n) => return Ok(operator::uncordon(world, *n).await),
    }
    Ok(true)
}
