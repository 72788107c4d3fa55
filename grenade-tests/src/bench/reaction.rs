//! How soon a decision follows the last report that it waited for: a real coordinator on a real etcd, agents that only
//! write the reports of agents, and one watcher outside who stamps both. Beside it, in the same run and in turn, a
//! plain put: from its call until the same watcher sees it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use etcd_client::{Client, EventType, KeyValue, PutOptions, WatchOptions, WatchStream};
use tidegate_proto::key::Prefix;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Report, Rotation, Step};
use tidegate_proto::{Key, NodeId, Revision, Value};
use tokio::sync::mpsc;

use crate::bench::figure::Figure;
use crate::bench::fleet;
use crate::bench::median::{median, quantile};
use crate::fixture::node::SERVICE;
use crate::world::coordinator::{Coordinator, CoordinatorPlan};
use crate::world::operator::Operator;
use crate::world::{World, etcd};

/// How many instances are moved, one at a time: each gives a decision when it is drained and, but for the last, one
/// when it is back.
const NODES: usize = 260;
/// How many decisions are stamped at least.
const CROSSINGS: usize = 500;
/// Within what time.
const LIMIT: Duration = Duration::from_secs(180);
/// The key of the plain puts, beside the coordinator's prefix.
const PLAIN: &str = "/plain";

/// Measures.
///
/// # Errors
/// When the programs cannot be started or the upgrade does not go on.
pub async fn measure(dir: &Path) -> anyhow::Result<Vec<Figure>> {
    let room = tempfile::Builder::new().prefix("reaction").tempdir_in(dir)?;
    let world = World::alone(room.path())?;
    let etcd = etcd::start(&world, 1).await?;
    let plan = CoordinatorPlan::new("coordinator", etcd.store_argument())?;
    let coordinator = Coordinator::start(&world, plan).await?;
    let mut client = Client::connect(etcd.endpoints(), None).await?;
    let agents = Agents::join(&mut client).await?;
    let operator = Operator::of(coordinator.plan.grpc, SERVICE, "bench").await?;
    operator.fleet_at(NODES as u32, 1).await?;
    let spec = world.path("upgrade.yaml");
    std::fs::write(&spec, text_of_spec()).context("could not write the spec")?;
    let everything = WatchOptions::new().with_prefix();
    let seen = client.watch("/", Some(everything)).await.context("could not watch etcd")?;
    operator.start(&world, &spec).await?;
    let stamps = tokio::time::timeout(LIMIT, watch(seen, agents))
        .await
        .with_context(|| format!("there were fewer than {CROSSINGS} decisions in {} s", LIMIT.as_secs()))??;
    Ok(figures(&stamps))
}

/// One at a time, without waves between: each decision waits for one report.
fn text_of_spec() -> String {
    let target = fleet::release(2);
    format!(
        "service: {}\nfrom: 1\nto: 2\nrelease: {{tag: {}, sha256: {}}}\nstrategy: immediate\nmax_unavailable: 1\n",
        fleet::service(),
        target.tag,
        target.sha256
    )
}

#[derive(Debug, Default)]
struct Stamps {
    reactions: Vec<f64>,
    plain: Vec<f64>,
}

fn figures(stamps: &Stamps) -> Vec<Figure> {
    let figure = |name: &str, q: f64| {
        let (reaction, plain) = (quantile(&stamps.reactions, q), quantile(&stamps.plain, q));
        let how = format!("{reaction:.2} ms over {plain:.2} ms, {} decisions", stamps.reactions.len());
        Figure::limited(name, reaction / plain, "x", 3.0, how)
    };
    vec![
        figure("reaction over a plain put, median", 0.5),
        figure("reaction over a plain put, 95th percentile", 0.95),
        Figure::unlimited(
            "reaction, median",
            median(&stamps.reactions),
            "ms",
            "report seen to decision seen",
        ),
    ]
}

/// Sees everything, stamps it at once, and leaves the agents' own writes to another task.
async fn watch(mut seen: WatchStream, agents: Agents) -> anyhow::Result<Stamps> {
    let prefix = Prefix::default();
    let (sender, receiver) = mpsc::unbounded_channel();
    let (called, mut calls) = mpsc::unbounded_channel();
    let obeying = tokio::spawn(agents.obey(receiver, called));
    let (mut stamps, mut waited_for) = (Stamps::default(), None::<Instant>);
    while stamps.reactions.len() < CROSSINGS {
        let Some(message) = seen.message().await.context("the watch broke")? else { break };
        let now = Instant::now();
        for kv in message.events().iter().filter(|e| e.event_type() == EventType::Put).filter_map(|e| e.kv())
        {
            if kv.key() == PLAIN.as_bytes() {
                let call: Instant = calls.recv().await.context("the agents ended")?;
                stamps.plain.push((now - call).as_secs_f64() * 1e3);
            }
            let Some((key, value)) = read(&prefix, kv) else { continue };
            match (&key, &value) {
                (Key::Report(..), Value::Report(report)) if is_waited_for(&report.body) => {
                    waited_for = Some(now)
                }
                (Key::Directive(..), Value::Directive(_)) => {
                    if let Some(report) = waited_for.take() {
                        stamps.reactions.push((now - report).as_secs_f64() * 1e3);
                    }
                }
                _ => {}
            }
            let at = Revision(kv.mod_revision());
            // The agents end only after us, or with an error that is reported below.
            let _ = sender.send((key, value, at));
        }
    }
    drop(sender);
    let done = stamps.reactions.len();
    obeying.await.context("the agents ended badly")??;
    ensure!(done >= CROSSINGS, "the watch ended after {done} decisions");
    Ok(stamps)
}

fn read(prefix: &Prefix, kv: &KeyValue) -> Option<(Key, Value)> {
    let key = prefix.parse(kv.key())?.ok()?;
    let value = Value::decode(&key, kv.value()).ok()?;
    Some((key, value))
}

/// Whether a decision follows this report: an instance is drained, or back at the new version.
fn is_waited_for(report: &Report) -> bool {
    let back = report.step == Step::Serving && report.version == Some(fleet::release(2).version);
    matches!(report.step, Step::Drained { .. }) || back
}

/// What all agents would report.
struct Agents {
    client: Client,
    prefix: Prefix,
    lease: i64,
    reports: Vec<Report>,
}

impl Agents {
    /// Admits and reports every node at version 1.
    async fn join(client: &mut Client) -> anyhow::Result<Self> {
        let lease = client.clone().lease_grant(3600, None).await.context("could not make a lease")?.id();
        let mut agents =
            Self { client: client.clone(), prefix: Prefix::default(), lease, reports: Vec::new() };
        for n in 0..NODES {
            let admission =
                agents.put(Key::Inventory(fleet::service(), fleet::node(n)), fleet::inventory(n, 1)).await?;
            agents.reports.push(fleet::report(n, 1, admission));
            agents.publish(n).await?;
        }
        Ok(agents)
    }

    async fn put(&mut self, key: Key, value: impl Into<Value>) -> anyhow::Result<Revision> {
        // A report without a lease is ignored.
        let leased = matches!(key, Key::Report(..)).then(|| PutOptions::new().with_lease(self.lease));
        let (key, value) = (self.prefix.key(&key), value.into().encode());
        let answer = self.client.put(key, value, leased).await.context("could not write as an agent")?;
        Ok(Revision(answer.header().map_or(0, |header| header.revision())))
    }

    async fn publish(&mut self, n: usize) -> anyhow::Result<()> {
        let report = self.reports[n].clone();
        self.put(Key::Report(fleet::service(), fleet::node(n)), report).await.map(|_| ())
    }

    /// Does what agents do, at once, until no more directives come; makes one plain put before each answer.
    async fn obey(
        mut self,
        mut receiver: mpsc::UnboundedReceiver<(Key, Value, Revision)>,
        called: mpsc::UnboundedSender<Instant>,
    ) -> anyhow::Result<()> {
        while let Some((key, value, at)) = receiver.recv().await {
            match (key, value) {
                (Key::Window(_), Value::Window(_)) => {
                    for n in 0..NODES {
                        self.reports[n].window = at;
                        self.publish(n).await?;
                    }
                }
                (Key::Directive(_, node), Value::Directive(directive)) => {
                    if directive.body.disposition.takes_out() && called.send(Instant::now()).is_ok() {
                        self.client.put(PLAIN, "", None).await.context("could not put plainly")?;
                    }
                    self.answer(number(&node)?, &directive.body.disposition, at).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn answer(&mut self, n: usize, wanted: &Disposition, at: Revision) -> anyhow::Result<()> {
        self.reports[n].generation = at;
        match wanted {
            Disposition::Drain => {
                self.reports[n].step = Step::Drained { forced: false };
                self.reports[n].rotation = Rotation::Out;
            }
            Disposition::Replace { .. } => {
                let (key, window) =
                    (Key::Inventory(fleet::service(), fleet::node(n)), self.reports[n].window);
                let admission = self.put(key, fleet::inventory(n, 2)).await?;
                self.reports[n] = fleet::report(n, 2, admission);
                (self.reports[n].generation, self.reports[n].window) = (at, window);
            }
            Disposition::Serve { .. } | Disposition::Stop => {}
        }
        self.publish(n).await
    }
}

fn number(node: &NodeId) -> anyhow::Result<usize> {
    let digits = node.as_str().trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.parse().with_context(|| format!("{node} is none of this fleet"))
}
