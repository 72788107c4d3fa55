//! What is looked at after each upgrade: the store's history, the requests, the health URLs, the database. Nothing of it is
//! asked of the product.

use http::Method;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_proto::record::upgrade::PhaseName;

use super::ledger;
use super::run::Run;
use super::testbed::ROWS;
use crate::fixture::load::version_of;
use crate::load::wire;
use crate::nemesis::rows::{PAGE, check_page};
use crate::sample::seed::seed_id;

/// How long instances may take to answer 200 at the version of an upgrade that has ended.
const SERVES: Duration = Duration::from_secs(60);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// The most breaches of a kind that are printed.
const FIRST: usize = 10;

/// Judges an upgrade that is over: its requests in the file, by a load that began at such a time of the event log; the schema
/// before it.
///
/// # Errors
/// When something cannot be looked at.
pub(super) async fn after(
    run: &mut Run,
    id: &str,
    requests: (&Path, f64),
    before: &[String],
) -> anyhow::Result<()> {
    run.settles().await?;
    let (breaches, gaps) = run.auditor.breaches();
    run.broken.extend(breaches.iter().take(FIRST).map(ToString::to_string));
    run.broken.extend(gaps.into_iter().take(FIRST));
    run.broken.extend(run.health_monitor.breaches().into_iter().take(FIRST));
    run.broken.append(&mut run.faults.broken);
    let requests = ledger::read(requests.0, requests.1, &run.faults.excuses)?;
    run.requests.sent += requests.sent;
    run.requests.strict += requests.strict;
    run.requests.explained += requests.explained.values().sum::<usize>();
    run.requests.not_sent += requests.not_sent;
    let failed = requests.unexplained.iter().take(FIRST);
    run.broken
        .extend(failed.map(|line| format!("{id}: a request failed without a fault at its time: {line}")));
    panics(run);
    serves(run, id).await;
    database(run, id, &requests.created, before).await?;
    let fewest = run.health_monitor.fewest();
    let (explained, sent) = (&requests.explained, requests.sent);
    run.testbed.log.log(format!(
        "{id} is judged: {sent} requests; failed and explained by faults: {explained:?}; orders left at least {fewest} in service; {} revisions, {} breaches",
        run.auditor.revisions(),
        run.broken.len()
    ));
    Ok(())
}

/// No process of the product panicked.
fn panics(run: &mut Run) {
    let logs = std::fs::read_dir(run.testbed.world.dir()).into_iter().flatten().flatten();
    for path in logs.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "log")) {
        let text = std::fs::read(&path).unwrap_or_default();
        if String::from_utf8_lossy(&text).contains("panicked at") {
            run.broken.push(format!("a process panicked: {}", path.display()));
        }
    }
}

/// Every instance answers 200 at the version that the upgrade left.
async fn serves(run: &mut Run, id: &str) {
    let end = Instant::now() + SERVES;
    loop {
        let others = run.health_monitor.not_serving(run.version);
        if others.is_empty() {
            return;
        }
        if Instant::now() > end {
            run.broken.push(format!("after {id} not all serve at {}: {}", run.version, others.join("; ")));
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What was written is there and is read right; the schema is what the end of the upgrade means.
async fn database(run: &mut Run, id: &str, created: &BTreeSet<u64>, before: &[String]) -> anyhow::Result<()> {
    let mut connection = run.testbed.databases.connect().await?;
    let all = "SELECT id FROM images WHERE id LIKE 'z-%'";
    let all: Vec<String> = sqlx::query_scalar(all).fetch_all(&mut connection).await?;
    let all: BTreeSet<String> = all.into_iter().collect();
    let lost: Vec<&String> = run.images.difference(&all).take(FIRST).collect();
    if !lost.is_empty() {
        run.broken.push(format!("{id}: images of former upgrades are lost: {lost:?}"));
    }
    let number = |image: &String| image.rsplit('-').next().and_then(|number| number.parse::<u64>().ok());
    let new: BTreeSet<u64> = all.difference(&run.images).filter_map(number).collect();
    let lost: Vec<&u64> = created.difference(&new).take(FIRST).collect();
    if !lost.is_empty() {
        run.broken.push(format!("{id}: images that were acknowledged are lost: {lost:?}"));
    }
    run.images = all;
    let phase = run.auditor.phase(id).map(|(phase, _)| phase);
    if phase == Some(PhaseName::Completed) {
        let column = match run.version {
            2 => "visibility".to_owned(),
            version => format!("note_{version}"),
        };
        let unfilled = format!("SELECT count(*) FROM images WHERE {column} IS NULL");
        let unfilled: i64 =
            sqlx::query_scalar(sqlx::AssertSqlSafe(unfilled)).fetch_one(&mut connection).await?;
        if unfilled != 0 {
            run.broken.push(format!("{id} is completed, and {unfilled} rows have no {column}"));
        }
    } else if let Some(phase) = phase.filter(|phase| *phase == PhaseName::RolledBack) {
        let after = run.testbed.databases.form().await?;
        if after != before {
            run.broken.push(format!("{id} is {phase:?}, and the schema is {after:#?}, it was {before:#?}"));
        }
    }
    pages(run, id).await;
    Ok(())
}

/// Every row that was there at the beginning is read right, through the balancer.
async fn pages(run: &mut Run, id: &str) {
    for after in (0..ROWS).step_by(usize::try_from(PAGE).unwrap_or(1)) {
        let path = format!("/images?limit={PAGE}&marker={}", seed_id(after));
        let asked = wire::send(run.testbed.balancer.address, Method::GET, &path, wire::nothing());
        let wrong = match tokio::time::timeout(ANSWER, asked).await {
            Err(_) => Some("no answer".to_owned()),
            Ok(Err(error)) => Some(error.to_string()),
            Ok(Ok(answer)) => match serde_json::from_slice(&answer.body) {
                Ok(body) => check_page(&body, after, ROWS, version_of(&answer)).err(),
                Err(error) => Some(format!("{}: {error}", answer.status)),
            },
        };
        if let Some(wrong) = wrong {
            run.broken.push(format!("{id}: {path} is answered wrongly: {wrong}"));
            return;
        }
    }
}
