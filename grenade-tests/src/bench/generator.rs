//! What the load generator of gate jobs costs: how late it sends beside a bare server, and its CPU for a request beside
//! wrk's.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::future::join_all;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::bench::figure::Figure;
use crate::bench::proc;
use crate::bench::releases::bare::PATH;
use crate::bench::releases::bare_handler;
use crate::gate::file;
use crate::gate::host::HostSeen;
use crate::load::Load;
use crate::load::entry::{self, Entry};
use crate::load::ledger::{Counts, Ledger};
use crate::load::plan::{Due, Pace};
use crate::load::requests::{Direct, Requests, Target};
use crate::load::script::Script;
use crate::world::{Spawn, World, port, program};

/// How long each load runs.
const TIME: Duration = Duration::from_secs(10);
/// The rate at which its lateness is promised.
const RATE: u32 = 500;
/// The most that a gate may ask for.
const FASTEST: u32 = 5_000;
/// Kept connections that saturate the server, of wrk as of ours.
const CONNECTIONS: u64 = 16;

/// Measures.
///
/// # Errors
/// When the bare server or wrk cannot be run.
pub async fn measure(dir: &Path) -> anyhow::Result<Vec<Figure>> {
    let room = tempfile::Builder::new().prefix("generator").tempdir_in(dir)?;
    let world = World::alone(room.path())?;
    let wrk = program::outside("wrk")?;
    let listen = port::free()?;
    let _bare = bare_handler(&world, listen).await?;
    let target = || Target::Instances(vec![Direct { node: "bare".to_owned(), address: listen, version: 1 }]);
    let (calm, _) = load(&world, RATE, target()).await?;
    let lag = HostSeen::late_by(&calm).lag_p99_ms;
    let (fast, used) = load(&world, FASTEST, target()).await?;
    let paced = used.as_secs_f64() * 1e6 / fast.len() as f64;
    let (answered, used) = saturate(&world, target()).await?;
    let own = used.as_secs_f64() * 1e6 / answered as f64;
    let spawn = Spawn::new("wrk", &wrk)
        .args([
            "--threads",
            "1",
            "--connections",
            &CONNECTIONS.to_string(),
            "--duration",
            &format!("{}s", TIME.as_secs()),
        ])
        .arg(format!("http://{listen}{PATH}1"));
    let before = children()?;
    let mut process = world.spawn(spawn)?;
    ensure!(process.wait(2 * TIME).await?.success(), "wrk failed: {}", process.tail());
    let used = children()?.saturating_sub(before);
    let sent = sent(&process.tail()).context("wrk did not say how many requests it sent")?;
    let peer = used.as_secs_f64() * 1e6 / sent as f64;
    Ok(vec![
        Figure::limited(
            "load generator, late at 500/s, p99",
            lag,
            "ms",
            1.0,
            format!("{} requests", calm.len()),
        ),
        Figure::limited(
            "load generator, CPU for a request that saturates, beside wrk",
            own / peer,
            "x",
            2.0,
            format!(
                "{own:.1} us with a ledger, wrk {peer:.1} us, {CONNECTIONS} connections each; {paced:.0} us at {FASTEST}/s"
            ),
        ),
    ])
}

/// The CPU time of the children that this process has waited for.
fn children() -> anyhow::Result<Duration> {
    let own = std::process::id();
    Ok(proc::cpu(own, true)?.saturating_sub(proc::cpu(own, false)?))
}

/// Runs a load; answers its ledger, and the CPU time of this process meanwhile.
async fn load(world: &World, rate: u32, target: Target) -> anyhow::Result<(Vec<Entry>, Duration)> {
    let ledger = world.path(&format!("requests-{rate}.csv"));
    let pace = Pace { rate, seed: 1, jitter: None, ledger: ledger.clone() };
    let before = proc::cpu(std::process::id(), false)?;
    let load = Load::of(pace, Arc::new(Requests::new(script()?, target)))?;
    tokio::time::sleep(TIME).await;
    let report = load.stop().await?;
    let used = proc::cpu(std::process::id(), false)?.saturating_sub(before);
    ensure!(
        report.ok == report.sent,
        "{} of {} requests failed or were not sent in time: {:?}",
        report.sent - report.ok,
        report.sent,
        report.first_failures
    );
    Ok((entry::read(&ledger)?, used))
}

/// Sends one request after the other over each of the connections, with a ledger; answers how many, and the CPU time of this
/// process meanwhile.
async fn saturate(world: &World, target: Target) -> anyhow::Result<(u64, Duration)> {
    let (requests, began) = (Arc::new(Requests::new(script()?, target)), Instant::now());
    let ledger = Ledger::create(world.path("requests-saturating.csv"), began, Arc::new(Counts::default()))?;
    let (outcomes, written) = mpsc::unbounded_channel();
    let before = proc::cpu(std::process::id(), false)?;
    let ledger = tokio::spawn(ledger.keep(written));
    let callers = (0..CONNECTIONS).map(|first| {
        let (requests, outcomes) = (Arc::clone(&requests), outcomes.clone());
        tokio::spawn(async move {
            let mut dice = StdRng::seed_from_u64(first);
            for seq in (first..).step_by(CONNECTIONS as usize) {
                let at = Instant::now();
                if at.duration_since(began) >= TIME {
                    break;
                }
                let drawn = requests.draw(&mut dice);
                // The ledger is gone only if its own task failed, which is reported below.
                let _ = outcomes.send(requests.attempt(Due { seq, at }, drawn).await);
            }
        })
    });
    for caller in join_all(callers).await {
        caller.context("a connection's loop broke")?;
    }
    drop(outcomes);
    let report = ledger.await.context("the ledger broke")??;
    let used = proc::cpu(std::process::id(), false)?.saturating_sub(before);
    ensure!(
        report.ok == report.sent,
        "{} requests failed or were not sent in time: {:?}",
        report.sent - report.ok,
        report.first_failures
    );
    Ok((report.ok, used))
}

/// One GET over kept connections.
fn script() -> anyhow::Result<Arc<Script>> {
    let gate = format!(
        "name: bare\n\
         service:\n  base: {{number: 1, command: [bare, \"{{port}}\"]}}\n  target: {{number: 2, command: [bare, \"{{port}}\"]}}\n  \
         version: {{path: /}}\n  ready: /\n\
         load:\n  rate: 1\n  keep_alive: 1\n  steps: [{{name: get, request: {{path: \"{PATH}1\"}}}}]\n\
         tags: [zero-downtime]\n"
    );
    file::parse(&gate, Path::new("bare"), Path::new("/"))?.script.context("the load has steps")
}

/// `  123456 requests in 10.00s, …`
fn sent(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains(" requests in "))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{script, sent};

    #[test]
    fn wrk_is_understood_and_the_script_is_one() {
        assert_eq!(sent("  Latency 1ms\n  51234 requests in 10.00s, 7MB read\n"), Some(51_234));
        assert_eq!(script().unwrap().steps.len(), 1);
    }
}
