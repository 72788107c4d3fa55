//! Compute releases: that neither a look at what is deployed nor a create asks etcd more when the history is long, and
//! what a start decision costs beside a handler that decides nothing. Real etcd, one coordinator.

pub mod bare;
mod traffic;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::bench::figure::Figure;
use crate::bench::median::median;
use crate::bench::proc;
use crate::fixture::node::SERVICE;
use crate::world::caller::Caller;
use crate::world::coordinator::{Coordinator, CoordinatorPlan, token_file};
use crate::world::etcd;
use crate::world::operator::Operator;
use crate::world::wait::wait_for_200;
use crate::world::{Process, Spawn, World, port};
use traffic::Traffic;

/// How many releases a short history and a long one have.
const SHORT: u64 = 10;
const LONG: u64 = 10_000;
/// The number of gets and creates in the mean.
const GETS: u64 = 200;
const CREATES: u64 = 50;
/// Questions of one round, and how many are asked at once.
const QUESTIONS: u64 = 40_000;
const AT_ONCE: u64 = 8;
/// Rounds of both sides in turn.
const ROUNDS: usize = 5;
/// What else is written at the time, such as a lease that is kept alive, is no more than this part of the bytes; and
/// a revision of five digits is longer than one of two.
const SAME_BYTES: f64 = 1.05;
/// How often a create may be refused in all, because the leadership changes on a busy machine, and the rest after it.
const REFUSED: u32 = 100;
const REST: Duration = Duration::from_millis(200);
/// How long a small program may take to answer.
const READY: Duration = Duration::from_secs(10);

const RELEASES: &str = "/management/api/v2/compute_releases";

/// Measures.
///
/// # Errors
/// When the servers cannot be brought up or do not answer as they should.
pub async fn measure(dir: &Path) -> anyhow::Result<Vec<Figure>> {
    let room = tempfile::Builder::new().prefix("releases").tempdir_in(dir)?;
    let world = World::alone(room.path())?;
    let etcd = etcd::start(&world, 1).await?;
    let plan = CoordinatorPlan::new("coordinator", etcd.store_argument())?;
    let coordinator = Coordinator::start(&world, plan).await?;
    Operator::of(coordinator.plan.grpc, SERVICE, "bench").await?;
    let token = std::fs::read_to_string(token_file(&world)?).context("could not read the token")?;
    let mut caller = Caller::connect(coordinator.plan.http, Some(token.trim())).await?;
    let mut history = History { caller: &mut caller, etcd: etcd.members[0].1, created: 0 };
    history.grow_to(SHORT).await?;
    let short = history.cost().await?;
    history.grow_to(LONG).await?;
    let long = history.cost().await?;
    let mut figures = compared(&short, &long);
    figures.extend(starts(&world, &coordinator).await?);
    Ok(figures)
}

struct History<'a> {
    caller: &'a mut Caller,
    etcd: SocketAddr,
    created: u64,
}

/// What one operation costs.
struct Cost {
    requests: f64,
    bytes: f64,
    milliseconds: f64,
}

/// With a history of one length.
struct Costs {
    get: Cost,
    create: Cost,
}

impl History<'_> {
    async fn create(&mut self) -> anyhow::Result<()> {
        self.created += 1;
        let version = self.created;
        let manifest = json!({"pg_settings": {"common": {"max_wal_size": version.to_string()}}});
        let body = json!({"version": version, "tag": format!("release-{version:05}"), "manifest": manifest});
        let (status, answer) = self.caller.send(Method::POST, RELEASES, &body).await?;
        let stands = status == StatusCode::NOT_MODIFIED || answer["status"] == "deployed";
        ensure!(stands, "a release with nothing to wait for is deployed: {answer}");
        Ok(())
    }

    async fn grow_to(&mut self, length: u64) -> anyhow::Result<()> {
        let mut refused = 0;
        while self.created < length {
            // Asked twice it is created once, so that an answer that did not come is asked for again.
            if let Err(error) = self.create().await {
                refused += 1;
                ensure!(refused < REFUSED, "{error:#}");
                self.created -= 1;
                tokio::time::sleep(REST).await;
                continue;
            }
            if self.created.is_multiple_of(1_000) {
                eprintln!("  {} releases", self.created);
            }
        }
        Ok(())
    }

    async fn cost(&mut self) -> anyhow::Result<Costs> {
        let before = Traffic::now(self.etcd).await?;
        let mut times = Vec::new();
        for _ in 0..GETS {
            let began = Instant::now();
            let deployed: Value = self.caller.get(&format!("{RELEASES}/deployed")).await?;
            times.push(began.elapsed());
            ensure!(deployed["version"] == self.created, "the latest is deployed: {deployed}");
        }
        let get = Cost::of(&Traffic::now(self.etcd).await?.since(&before), &times);
        let before = Traffic::now(self.etcd).await?;
        times.clear();
        for _ in 0..CREATES {
            let began = Instant::now();
            self.create().await?;
            times.push(began.elapsed());
        }
        let create = Cost::of(&Traffic::now(self.etcd).await?.since(&before), &times);
        Ok(Costs { get, create })
    }
}

impl Cost {
    fn of(traffic: &Traffic, times: &[Duration]) -> Self {
        let count = times.len() as f64;
        let milliseconds: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1_000.0).collect();
        Self {
            requests: traffic.requests / count,
            bytes: traffic.bytes / count,
            milliseconds: median(&milliseconds),
        }
    }
}

fn compared(short: &Costs, long: &Costs) -> Vec<Figure> {
    let pairs =
        [("get of the deployed release", &short.get, &long.get), ("create", &short.create, &long.create)];
    pairs
        .into_iter()
        .flat_map(|(what, short, long)| {
            // Nothing over nothing is the same.
            let ratio = |short: f64, long: f64| if long == short { 1.0 } else { long / short };
            let requests = format!("{:.2} at {LONG}, {:.2} at {SHORT}", long.requests, short.requests);
            let bytes = format!("{:.0} at {LONG}, {:.0} at {SHORT}", long.bytes, short.bytes);
            let how = format!("median; {:.2} ms at {SHORT}", short.milliseconds);
            [
                Figure::limited(
                    format!("etcd requests per {what}"),
                    ratio(short.requests, long.requests),
                    "x",
                    1.0,
                    requests,
                ),
                Figure::limited(
                    format!("etcd bytes per {what}"),
                    ratio(short.bytes, long.bytes),
                    "x",
                    SAME_BYTES,
                    bytes,
                ),
                Figure::unlimited(format!("{what} at {LONG}"), long.milliseconds, "ms", how),
            ]
        })
        .collect()
}

async fn starts(world: &World, coordinator: &Coordinator) -> anyhow::Result<Vec<Figure>> {
    let listen = port::free()?;
    let bare = bare_handler(world, listen).await?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let asked = format!("{RELEASES}/start?compute_id=ep-");
    for _ in 0..ROUNDS {
        ours.push(per_question(coordinator.plan.http, coordinator.process.pid(), &asked).await?);
        theirs.push(per_question(listen, bare.pid(), bare::PATH).await?);
    }
    let (ours, theirs) = (median(&ours), median(&theirs));
    let how = format!("{:.0} a second; bare axum handler {theirs:.1} µs", 1e6 / ours);
    Ok(vec![
        Figure::limited("CPU per start decision, over HTTP", ours, "µs", 50.0, how),
        Figure::limited(
            "start decision over a bare axum handler, CPU",
            ours / theirs,
            "x",
            2.0,
            format!("median of {ROUNDS} in turn, {QUESTIONS} each"),
        ),
    ])
}

/// Starts the handler that decides nothing.
///
/// # Errors
/// When it does not answer.
pub(super) async fn bare_handler(world: &World, listen: SocketAddr) -> anyhow::Result<Process> {
    let program = std::env::current_exe().context("could not find this program")?;
    let process = world.spawn(Spawn::new("bare", &program).args(["--bare-handler", &listen.to_string()]))?;
    wait_for_200("the bare handler to answer", READY, listen, bare::PATH).await?;
    Ok(process)
}

/// Microseconds of CPU that a process takes to answer one question of many.
async fn per_question(address: SocketAddr, pid: u32, path: &str) -> anyhow::Result<f64> {
    let mut callers = Vec::new();
    for _ in 0..AT_ONCE {
        callers.push(Caller::connect(address, None).await?);
    }
    let before = proc::cpu(pid, false)?;
    let asking = callers.into_iter().enumerate().map(|(n, mut caller)| {
        let path = path.to_owned();
        tokio::spawn(async move {
            for question in 0..QUESTIONS / AT_ONCE {
                let _: Value = caller.get(&format!("{path}{n}-{question}")).await?;
            }
            anyhow::Ok(())
        })
    });
    for asked in futures::future::join_all(asking).await {
        asked.context("a caller broke")??;
    }
    let used = proc::cpu(pid, false)?.saturating_sub(before);
    Ok(used.as_secs_f64() * 1e6 / QUESTIONS as f64)
}
