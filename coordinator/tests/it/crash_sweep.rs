//! Crashes at every write: a whole upgrade of three instances is run once undisturbed, and every transaction that its
//! coordinator sends is counted; then it is run again for each of them and each way in which it can fail. Each run
//! must end as the undisturbed one did, and must have done just the same: no step twice, no needless drain.
//!
//! Time is paused: what is waited for costs nothing, and every run is the same again.

mod run;
mod trace;
mod wire;

use run::{Ends, Outcome, run};
use std::time::Instant;
use trace::Trace;
use wire::{FAULTS, Fault};

/// One run with a clock of its own.
fn apart(ends: Ends, points: &[(usize, Fault)]) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(run(ends, points))
}

/// The undisturbed run; `times` = how often each instance leaves rotation in it, and is admitted at version 2.
fn undisturbed(ends: Ends, times: [(usize, usize); 3]) -> Outcome {
    let ideal = apart(ends, &[]);
    let found: Vec<(usize, usize)> = ideal.trace.instances.values().map(|lines| counted(lines)).collect();
    assert_eq!(found, times, "{:#?}", ideal.trace);
    for (number, keys) in ideal.sent.iter().enumerate() {
        println!("{number:3} {keys}");
    }
    ideal
}

fn counted(lines: &[String]) -> (usize, usize) {
    let count = |has: &dyn Fn(&str) -> bool| lines.iter().filter(|line| has(line)).count();
    (count(&|line| line.contains("Leaving")), count(&|line| line == "admitted at 2"))
}

fn same(found: &Trace, ideal: &Trace, points: &[(usize, Fault)]) {
    assert_eq!(found, ideal, "{points:?} changed what happened");
}

/// Fails once, at each write in each way.
fn sweep(ends: Ends, times: [(usize, usize); 3]) {
    let began = Instant::now();
    let ideal = undisturbed(ends, times);
    let points: Vec<(usize, Fault)> =
        (0..ideal.sent.len()).flat_map(|number| FAULTS.map(|fault| (number, fault))).collect();
    let mut hit = 0;
    for point in &points {
        println!("{:?} at {} ({})", point.1, point.0, ideal.sent[point.0]);
        let outcome = apart(ends, &[*point]);
        hit += outcome.hit;
        same(&outcome.trace, &ideal.trace, &[*point]);
    }
    let (found, seconds) = (points.len(), began.elapsed().as_secs_f64());
    println!("{ends:?}: {} writes, {found} points found, {hit} hit, in {seconds:.1} s", ideal.sent.len());
    assert_eq!(hit, found, "each point that was found is hit");
}

/// Crashes twice: the coordinator that takes over crashes too, at each of its own writes.
fn sweep_twice(ends: Ends, times: [(usize, usize); 3]) {
    let began = Instant::now();
    let ideal = undisturbed(ends, times);
    let mut pairs = 0;
    for first in 0..ideal.sent.len() {
        for second in 0.. {
            let points = [(first, Fault::CutAfter), (second, Fault::CutAfter)];
            println!("crashes after {first} and then after {second}");
            let outcome = apart(ends, &points);
            same(&outcome.trace, &ideal.trace, &points);
            if outcome.hit < 2 {
                break;
            }
            pairs += 1;
        }
    }
    println!("{ends:?}: {pairs} pairs of crashes in {:.1} s", began.elapsed().as_secs_f64());
    assert!(pairs >= ideal.sent.len(), "each successor crashes at least once");
}

const COMPLETED: [(usize, usize); 3] = [(1, 1), (1, 1), (1, 1)];
/// The first to be upgraded goes forward and back, the second fails and is put back, the third is left alone.
const ROLLED_BACK: [(usize, usize); 3] = [(2, 1), (2, 1), (0, 0)];

#[test]
fn an_upgrade_that_completes() {
    sweep(Ends::Completed, COMPLETED);
}

#[test]
fn an_upgrade_that_is_rolled_back() {
    sweep(Ends::RolledBack, ROLLED_BACK);
}

#[test]
fn long_an_upgrade_that_completes_with_two_crashes() {
    sweep_twice(Ends::Completed, COMPLETED);
}

#[test]
fn long_an_upgrade_that_is_rolled_back_with_two_crashes() {
    sweep_twice(Ends::RolledBack, ROLLED_BACK);
}
