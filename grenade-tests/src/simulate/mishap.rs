//! How each mishap begins and how it ends.

use super::chain::{place_of, within};
use super::database::set_slow;
use super::gate::Passage;
use super::ground::disable_file;
use super::judge::OLD;
use super::line::Weather;
use super::operator::{Command, Person};
use super::persons;
use super::scenario::{ReleasePlan, UpgradePlan, What};
use super::slot::{At, Hiccup};
use super::tamper;
use super::world::World;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::{Key, Prefix, Value};

/// What is to be done when a mishap is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Undo {
    /// The network is good again.
    Weather,
    /// An agent reaches the store again.
    AgentLine(usize),
    /// A coordinator does.
    CoordinatorLine(usize),
    /// A coordinator is started again.
    StartCoordinator(usize),
    /// A coordinator goes on.
    ThawCoordinator(usize),
    /// An agent is started again.
    StartAgent(usize),
    /// A node has power again.
    Boot(usize),
    /// What nobody can read is removed.
    Garbage(Key),
    /// What a record was before it became unreadable is put back.
    Record(Key, Vec<u8>),
    /// The machine of an agent that lies is built anew.
    Liar(usize),
    /// An agent goes on.
    ThawAgent(usize),
    /// There is space again.
    Disk(usize),
    /// A person takes their file away.
    Show(At),
    /// The database is back.
    Database(usize),
    /// Databases are as fast as before.
    Fast,
    /// The database that an older copy took the place of is back.
    Newest(usize),
    /// The second agent ends.
    Impostor(usize),
    /// A person resumes.
    Resume(String),
    /// A person lets a node back.
    Uncordon(usize),
}

impl Undo {
    /// Whether it ends what a person did: everything else goes on undisturbed meanwhile.
    pub(super) fn is_a_persons(&self) -> bool {
        matches!(self, Self::Resume(_) | Self::Uncordon(_) | Self::Show(_))
    }
}

/// Lets a mishap happen to a service, in the upgrade of this id; says what ends it.
pub(super) async fn begin(
    world: &mut World,
    id: Option<String>,
    service: usize,
    what: &What,
    lasts: u64,
) -> Vec<Undo> {
    let nodes = world.scenario.services[service].nodes.clone();
    let node = |n: usize| nodes[n % nodes.len()];
    let until = world.ground.now() + lasts;
    world.ground.tell(format!("mishap: {what:?} for {lasts} ms"));
    if what.disturbs_coordinators() {
        let facts = &mut world.ground.state().facts;
        facts.disturbed_until = facts.disturbed_until.max(until + OLD);
    }
    match what {
        What::BadNetwork => {
            let weather = Weather { lost_requests: 5, lost_answers: 5, late: 30, late_ms: 1500 };
            each_line(world, |line| line.set_weather(weather));
            vec![Undo::Weather]
        }
        What::AgentCut(n) => {
            let n = node(*n);
            world.agents[n].iter().for_each(|agent| agent.line.set_cut(true));
            vec![Undo::AgentLine(n)]
        }
        What::CoordinatorCut(n) => {
            let n = n % world.coordinators.len();
            world.coordinators[n].iter().for_each(|one| one.line.set_cut(true));
            vec![Undo::CoordinatorLine(n)]
        }
        What::StreamsEnd => {
            each_line(world, |line| line.reset());
            Vec::new()
        }
        What::Compaction => {
            compact(world).await;
            Vec::new()
        }
        What::CoordinatorKilled(n) => {
            let n = n % world.coordinators.len();
            world.coordinators[n].take().into_iter().for_each(super::coordinator::Coordinator::kill);
            vec![Undo::StartCoordinator(n)]
        }
        What::CoordinatorStalled(n) => {
            let n = n % world.coordinators.len();
            world.coordinators[n].iter().for_each(|one| one.gate.set(Passage::Stalled));
            vec![Undo::ThawCoordinator(n)]
        }
        What::AgentKilled(n) => {
            let n = node(*n);
            world.agents[n].take().into_iter().for_each(super::agent::Agent::kill);
            vec![Undo::StartAgent(n)]
        }
        What::AgentStalled(n) => {
            let n = node(*n);
            world.agents[n].iter().for_each(|agent| agent.gate.set(Passage::Stalled));
            vec![Undo::ThawAgent(n)]
        }
        What::JournalLost(n) => {
            let n = node(*n);
            world.agents[n].take().into_iter().for_each(super::agent::Agent::kill);
            let mut state = world.ground.state();
            state.disks[n].files.retain(|path, _| !path.starts_with("/var/agent"));
            vec![Undo::StartAgent(n)]
        }
        What::DiskFull(n) => {
            world.ground.state().disks[node(*n)].full = true;
            vec![Undo::Disk(node(*n))]
        }
        What::DiskSlow(n) => {
            world.ground.state().disks[node(*n)].slow_ms = 700;
            vec![Undo::Disk(node(*n))]
        }
        What::NodeDies(n) => {
            let n = node(*n);
            world.agents[n].take().into_iter().for_each(super::agent::Agent::kill);
            for service in world.services_on(n) {
                world.ground.loses_power((service, n));
            }
            world.off.insert(n);
            vec![Undo::Boot(n)]
        }
        What::NodeLeaves(n) => {
            let n = node(*n);
            world.agents[n].take().into_iter().for_each(super::agent::Agent::kill);
            for service in world.services_on(n) {
                world.ground.loses_power((service, n));
            }
            world.off.insert(n);
            world.left.insert(n);
            vec![Undo::Boot(n)]
        }
        What::NodeJoins(n) => {
            joins(world, id.as_deref(), *n);
            Vec::new()
        }
        What::Labels(n) => {
            let n = node(*n);
            let zone = if world.scenario.zones[n] == "a" { "b" } else { "a" };
            world.scenario.zones[n] = zone.to_owned();
            let up = world.agents[n].take();
            let was_up = up.is_some();
            up.into_iter().for_each(super::agent::Agent::kill);
            if was_up {
                world.start_agent(n);
            }
            Vec::new()
        }
        What::OneHiccup(n, hiccup) => {
            hiccups(world, (service, node(*n)), *hiccup, until);
            Vec::new()
        }
        What::AllHiccup(hiccup) => {
            nodes.iter().for_each(|n| hiccups(world, (service, *n), *hiccup, until));
            Vec::new()
        }
        What::Crash(n) => {
            world.ground.crash((service, node(*n)));
            Vec::new()
        }
        What::HooksHang(n) => {
            world.ground.change((service, node(*n)), |slot, _| slot.hangs_until = until);
            Vec::new()
        }
        What::HooksFail(n) => {
            world.ground.change((service, node(*n)), |slot, _| slot.fails_until = until);
            Vec::new()
        }
        What::PersonHides(n) => {
            let at = (service, node(*n));
            let file = disable_file(&world.ground.names().services[service]);
            // A disk that is full takes no file.
            let _ = world.ground.write(at.1, &file, b"kept out by hand".to_vec());
            vec![Undo::Show(at)]
        }
        What::DatabaseAway => {
            let Some(schema) = world.scenario.services[service].schema else { return Vec::new() };
            if let Err(error) = world.databases[schema].set_away(true) {
                world.ground.tell(format!("the database could not be put away: {error}"));
            }
            vec![Undo::Database(schema)]
        }
        What::DatabaseSlow => {
            set_slow(true);
            vec![Undo::Fast]
        }
        What::DatabaseOlder => {
            let Some(schema) = world.scenario.owned_schema(service) else { return Vec::new() };
            let done = world.databases[schema].put_copy_back(world.ground.now());
            world.ground.tell(format!("an older copy of the database: {:?}", done.map_err(|e| e.kind())));
            // Half of the time the right one is found.
            if lasts.is_multiple_of(2) { vec![Undo::Newest(schema)] } else { Vec::new() }
        }
        What::StoreRestored => {
            if let Some(copy) = world.snapshot.as_ref().map(Embedded::restored_in_memory) {
                another_store(world, copy).await;
            }
            Vec::new()
        }
        What::StoreBlank => {
            another_store(world, Embedded::in_memory()).await;
            Vec::new()
        }
        What::Garbage(n) => {
            let key = tamper::garbage(world, service, node(*n)).await;
            world.garbage.extend(key.clone());
            key.map(Undo::Garbage).into_iter().collect()
        }
        What::Unreadable(n) => {
            let spoilt = tamper::spoil(world, id.as_deref(), (service, node(*n)), *n).await;
            spoilt.map(|(key, was)| Undo::Record(key, was)).into_iter().collect()
        }
        What::LyingAgent(n) => {
            let n = node(*n);
            world.agents[n].take().into_iter().for_each(super::agent::Agent::kill);
            world.ground.state().facts.liars.insert(n);
            world.liars.insert(n);
            vec![Undo::Liar(n)]
        }
        What::HooksLie(n) => {
            world.ground.change((service, node(*n)), |slot, _| slot.lies_until = until);
            Vec::new()
        }
        What::SecondAgent(n) => {
            world.start_impostor(node(*n));
            vec![Undo::Impostor(node(*n))]
        }
        What::LateRow => {
            tamper::late_row(world, id.as_deref()).await;
            Vec::new()
        }
        What::Pause => {
            let Some(id) = id else { return Vec::new() };
            let done = within(Person::new(&world.coordinators).pause(&id)).await;
            world.ground.tell(format!("pause: {done:?}"));
            vec![Undo::Resume(id)]
        }
        What::RollBack => {
            let Some(id) = id else { return Vec::new() };
            let done = within(Person::new(&world.coordinators).act(&Command::RollBack(id))).await;
            world.ground.tell(format!("rollback: {done:?}"));
            Vec::new()
        }
        What::WrongCommands => {
            let Some(id) = id else { return Vec::new() };
            wrong(world, &id, &world.ground.names().nodes[node(0)].clone()).await;
            Vec::new()
        }
        What::Cordon(n) => {
            let name = world.ground.names().nodes[node(*n)].clone();
            let done = within(Person::new(&world.coordinators).cordon(&name)).await;
            world.ground.tell(format!("cordon {name}: {done:?}"));
            vec![Undo::Uncordon(node(*n))]
        }
        What::Person => persons::begin(world, id, service, 1, lasts),
        What::TwoPersons => persons::begin(world, id, service, 2, lasts),
    }
}

/// Ends one; whether that was possible.
pub(super) async fn end(world: &mut World, undo: &Undo) -> anyhow::Result<bool> {
    let what = match undo {
        Undo::Record(key, _) => format!("Record({key})"),
        undo => format!("{undo:?}"),
    };
    world.ground.tell(format!("it is over: {what}"));
    match undo {
        Undo::Weather => each_line(world, |line| line.set_weather(Weather::default())),
        Undo::AgentLine(n) => world.agents[*n].iter().for_each(|agent| agent.line.set_cut(false)),
        Undo::CoordinatorLine(n) => world.coordinators[*n].iter().for_each(|one| one.line.set_cut(false)),
        Undo::StartCoordinator(n) => world.start_coordinator(*n).await?,
        Undo::ThawCoordinator(n) => {
            world.coordinators[*n].iter().for_each(|one| one.gate.set(Passage::Open));
        }
        Undo::StartAgent(n) => world.start_agent(*n),
        Undo::Boot(n) => {
            world.left.remove(n);
            world.off.remove(n);
            for service in world.services_on(*n) {
                world.ground.boots((service, *n));
            }
            world.start_agent(*n);
        }
        Undo::Garbage(key) => {
            // A store that was put in its place has a good one: nobody removes that.
            if !is_readable(world, key).await {
                tamper::remove(world, key).await;
            }
        }
        Undo::Record(key, was) => {
            tamper::put_back(world, key, was).await;
            world.put_back.push((key.clone(), was.clone()));
        }
        Undo::Liar(n) => tamper::rebuilt(world, *n).await,
        Undo::ThawAgent(n) => world.agents[*n].iter().for_each(|agent| agent.gate.set(Passage::Open)),
        Undo::Disk(n) => {
            let mut state = world.ground.state();
            (state.disks[*n].full, state.disks[*n].slow_ms) = (false, 0);
        }
        Undo::Show(at) => {
            let file = disable_file(&world.ground.names().services[at.0]);
            // It is gone where somebody else removed it.
            if world.ground.remove(at.1, &file).is_ok() {
                let now = world.ground.now();
                world.ground.state().facts.shown_again(now, *at);
            }
        }
        Undo::Database(n) => {
            if let Err(error) = world.databases[*n].set_away(false) {
                world.ground.tell(format!("the database could not be put back: {error}"));
            }
        }
        Undo::Fast => set_slow(false),
        Undo::Newest(n) => {
            if let Err(error) = world.databases[*n].put_newest_back(world.ground.now()).await {
                world.ground.tell(format!("the newest database could not be put back: {error}"));
            }
        }
        Undo::Impostor(n) => {
            world.impostors[*n].take().into_iter().for_each(super::agent::Agent::kill);
            // To the right agent, what the other hid is kept out by a person.
            for service in world.services_on(*n) {
                let file = disable_file(&world.ground.names().services[service]);
                world.ground.remove_of(*n, &file, super::agent::IMPOSTOR);
            }
        }
        Undo::Resume(id) => {
            let done = within(Person::new(&world.coordinators).act(&Command::Resume(id.clone()))).await;
            world.ground.tell(format!("resume: {done:?}"));
        }
        Undo::Uncordon(n) => {
            let name = world.ground.names().nodes[*n].clone();
            let done = within(Person::new(&world.coordinators).act(&Command::Uncordon(name))).await;
            world.ground.tell(format!("uncordon: {done:?}"));
            let is_uncordoned = matches!(&done, Err(why) if why.contains("is not cordoned"));
            // Whatever came in between, the person tries again.
            return Ok(done.is_ok() || is_uncordoned);
        }
    }
    Ok(true)
}

/// A node that was not there comes, with the services that are meant for it.
fn joins(world: &mut World, id: Option<&str>, n: usize) {
    let late: std::collections::BTreeSet<usize> =
        world.scenario.services.iter().flat_map(|service| service.late.iter().copied()).collect();
    let coming: Vec<usize> = late.into_iter().filter(|node| world.agents[*node].is_none()).collect();
    let Some(node) = coming.get(n % coming.len().max(1)).copied() else { return };
    // Before it is started, nobody has an image of what it goes to.
    let id = id.filter(|id| world.ground.state().facts.phases.contains_key(*id));
    let upgrading = id.and_then(place_of).and_then(|place| world.scenario.upgrades.get(place)).cloned();
    // Every other one was made from an image that is new already. What such an image is that says the former version, and
    // that no upgrade put there, nobody can find out.
    let image = |plan: &UpgradePlan| match plan.release {
        ReleasePlan::Lies => plan.from,
        _ => plan.from + u32::try_from(n % 2).unwrap_or(0),
    };
    let version = upgrading.as_ref().map_or(1, image);
    for service in 0..world.scenario.services.len() {
        if !world.scenario.services[service].late.contains(&node) {
            continue;
        }
        let is_upgraded = upgrading.as_ref().is_some_and(|plan| plan.service == service);
        let version = if is_upgraded { version } else { world.ground.lowest(service) };
        world.joins(service, node, version);
    }
    world.start_agent(node);
}

fn each_line(world: &World, change: impl Fn(&super::line::Line)) {
    world.agents.iter().flatten().for_each(|agent| change(&agent.line));
    world.coordinators.iter().flatten().for_each(|one| change(&one.line));
}

fn hiccups(world: &World, at: At, hiccup: Hiccup, until: u64) {
    if hiccup == Hiccup::Heedless {
        let now = world.ground.now();
        world.ground.state().facts.shown_again(now, at);
    }
    world.ground.change(at, |slot, _| {
        // Nobody sends requests to what is out of rotation.
        if hiccup != Hiccup::Works || slot.server.up {
            slot.hiccups.insert(hiccup, until);
        }
    });
}

/// Puts another store in the place of the one that is there.
async fn another_store(world: &mut World, store: Embedded) {
    if let Err(error) = world.auditor.catch_up(&world.place.store()).await {
        world.ground.tell(format!("the former store cannot be followed: {error}"));
    }
    world.place.replace(store);
    world.store_lost = true;
    world.ground.state().facts.streams.lost = true;
    // Before anything is written to it: its history ends where the copy was made.
    if let Err(error) = world.audit_anew().await {
        world.ground.tell(format!("the new store cannot be followed: {error}"));
    }
    // What could not be read and was removed since the copy was made is removed once more. A copy from before that, or from
    // after it, has a good one: an agent's report, whose lease stands.
    for key in &world.garbage {
        if !is_readable(world, key).await {
            tamper::remove(world, key).await;
        }
    }
    each_line(world, |line| line.reset());
}

async fn compact(world: &World) {
    let Ok(mut client) = world.place.store().client().await else { return };
    let Ok(answer) = client.get("compaction", None).await else { return };
    let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
    // The auditor has seen what is forgotten.
    let done = client.compact(revision, None).await;
    world.ground.tell(format!("compacted at {revision}: {}", done.is_ok()));
}

async fn is_readable(world: &World, key: &Key) -> bool {
    let Ok(mut client) = world.place.store().client().await else { return false };
    let found = client.get(Prefix::default().key(key), None).await;
    found.is_ok_and(|found| found.kvs().first().is_some_and(|kv| Value::decode(key, kv.value()).is_ok()))
}

/// What makes no sense, or was asked before: it is refused, and nothing breaks.
async fn wrong(world: &World, id: &str, node: &str) {
    let person = Person::new(&world.coordinators);
    let commands = [
        Command::Resume(id.to_owned()),
        Command::Retry(id.to_owned(), node.to_owned()),
        Command::Retry(id.to_owned(), "nowhere".to_owned()),
        Command::Approve(id.to_owned(), "roll".to_owned(), Vec::new()),
        Command::Approve(id.to_owned(), "nothing".to_owned(), Vec::new()),
        Command::Uncordon(node.to_owned()),
        Command::Resume("nothing".to_owned()),
    ];
    for command in &commands {
        let done = within(person.act(command)).await;
        world.ground.tell(format!("{command:?}: {done:?}"));
    }
}
