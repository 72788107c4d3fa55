//! Crashes at every step, on real processes: a coordinator and three agents, each behind a gate of its own that sees
//! every write of it to etcd, to its journal and to the database. At a point the process is killed, before the write or
//! after it, and restarted, as an init system does; the upgrade must end as if nothing had been, under load.

mod database;
mod falsified;
mod run;

use std::collections::BTreeSet;
use std::time::Instant;

use grenade_tests::crash::{Plan, Point};

use super::fleet::Ground;
use run::{Ends, Run, run};

const GROUND: Ground = Ground { rows: 2_000, ..Ground::SMALL };
/// Kills of one process in one upgrade of the long form.
const KILLS: usize = 12;
/// More upgrades than it takes to come to every point.
const ROUNDS: usize = 25;

/// Steps that every upgrade with a schema has, whatever the machine's pace.
const STEPS: [&str; 25] = [
    "preflight",
    "stage",
    "expand",
    "migrate",
    "roll wave",
    "drain",
    "replace",
    "remove",
    "contract approved",
    "contract",
    "completed",
    "leadership",
    "lease granted",
    "admission",
    "journal draining",
    "journal drained",
    "journal stopping",
    "journal stopped",
    "journal starting",
    "journal verifying",
    "database the term",
    "database expand steps",
    "database a batch",
    "database contract steps",
    "database end contract",
];

fn kinds<'a>(points: impl IntoIterator<Item = &'a Point>) -> BTreeSet<&'a str> {
    points.into_iter().map(|point| point.kind.as_str()).collect()
}

fn print(what: &str, ends: Ends, run: &Run, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{ends:?}, {what}: {} points seen, {} kills; {} requests sent, {} failed; {seconds:.1} s",
        run.found.len(),
        run.hit.len(),
        run.requests.sent,
        run.requests.failed
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_each_kind_of_step() {
    let began = Instant::now();
    let run = run(Ends::Completed, GROUND, Plan::EachKind).await;
    print("one of each kind", Ends::Completed, &run, began);
    let (found, hit) = (kinds(&run.found), kinds(&run.hit));
    println!("kinds of step found: {}, hit: {}: {hit:?}", found.len(), hit.len());
    assert_eq!(found, hit, "each kind that was found is hit");
    let absent: Vec<_> = STEPS.iter().filter(|step| !found.contains(**step)).collect();
    assert!(absent.is_empty(), "steps that no upgrade is without were not seen: {absent:?}");
    run.is_as_it_should(Ends::Completed);
    falsified::is_caught(&run.trace);
}

/// Kills at every point that an undisturbed run has, a few in each upgrade; each upgrade does what that one did.
async fn at_every_point(ends: Ends, ground: Ground) {
    let began = Instant::now();
    let ideal = run(ends, ground, Plan::Look).await;
    print("undisturbed", ends, &ideal, began);
    ideal.is_as_it_should(ends);
    let mut hit: BTreeSet<Point> = BTreeSet::new();
    for round in 1..=ROUNDS {
        let of: BTreeSet<Point> = ideal.found.difference(&hit).cloned().collect();
        if of.is_empty() {
            break;
        }
        let began = Instant::now();
        let run = run(ends, ground, Plan::EachPoint { of, at_most: KILLS }).await;
        print(&format!("upgrade {round}"), ends, &run, began);
        run.is_as_it_should(ends);
        run.is_like(&ideal);
        hit.extend(run.hit);
    }
    let missed: Vec<_> = ideal.found.difference(&hit).map(Point::to_string).collect();
    let reached = ideal.found.len() - missed.len();
    let seconds = began.elapsed().as_secs_f64();
    println!("{ends:?}: {} points found, {reached} hit, in {seconds:.0} s", ideal.found.len());
    assert!(missed.is_empty(), "not hit: {missed:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_real_postgres_every_point_of_a_completed_upgrade() {
    at_every_point(Ends::Completed, Ground { postgres: true, ..GROUND }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_real_postgres_every_point_of_a_rolled_back_upgrade() {
    at_every_point(Ends::RolledBack, Ground { postgres: true, ..GROUND }).await;
}
