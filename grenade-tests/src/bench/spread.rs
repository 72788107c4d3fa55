//! What a change, a read and a whole turn cost, by the size of the fleet: pure, over the planner's own fleet.

use std::hint::black_box;
use std::time::Instant;

use tidegate_planner::{Fleet, plan};
use tidegate_proto::record::report::{Report, Rotation, Step};
use tidegate_proto::{Key, Revision, Value};

use crate::bench::figure::Figure;
use crate::bench::fleet;
use crate::bench::median::median;
use crate::bench::proc;

/// The fleet that the figures are promised for.
const LARGE: usize = 100_000;
/// What its reads are compared with.
const SMALL: usize = 100;
/// What its turns are compared with.
const MIDDLE: usize = 1_000;
/// How many changes one round makes.
const CHANGES: usize = 50_000;
/// How many rounds are taken, the sides of a ratio in turn; the median counts. An even number: each odd round undoes
/// what the one before it changed.
const ROUNDS: usize = 10;
/// How many reads one round makes.
const READS: usize = 200_000;
/// How many turns one round takes.
const TURNS: usize = 4_000;
/// About how long one slice is, in microseconds: what runs beside us takes the core for milliseconds at a time, so most
/// slices are undisturbed, and the median of the slices is.
const SLICE_US: f64 = 500.0;

/// One kind of change.
type Change = (&'static str, fn(&mut Report, bool));

/// What changes in the life of an instance: something that moves it between no sets, its rotation, its version.
const CHANGED: [Change; 3] = [
    ("in-flight", |report, odd| report.in_flight = Some(u32::from(odd))),
    ("rotation", |report, odd| {
        if odd {
            (report.step, report.rotation) = (Step::Draining, Rotation::Leaving);
        }
    }),
    ("version", |report, odd| {
        if odd {
            report.version = None;
        }
    }),
];

/// Measures.
pub fn measure() -> Vec<Figure> {
    let before = proc::resident_mib(std::process::id()).unwrap_or(f64::NAN);
    let mut large = fleet::of(fleet::records(LARGE));
    let after = proc::resident_mib(std::process::id()).unwrap_or(f64::NAN);
    let (small, mut middle) = (fleet::of(fleet::records(SMALL)), fleet::of(fleet::records(MIDDLE)));
    let mut figures = Vec::new();
    for (name, change) in CHANGED {
        let us: Vec<f64> = (0..ROUNDS).flat_map(|round| update(&mut large, change, round)).collect();
        figures.push(Figure::limited(
            format!("update per event at 100,000, {name}"),
            median(&us),
            "us",
            2.0,
            format!("median slice of {ROUNDS} rounds of {CHANGES} changed reports"),
        ));
    }
    let reads = in_turn(|_| (read(&large), read(&small)));
    figures.push(ratio("read of the spread, 100,000 over 100", &reads, 1.2));
    let turns = in_turn(|round| (turn(&mut large, LARGE, round), turn(&mut middle, MIDDLE, round)));
    figures.push(ratio("a turn with one change, 100,000 over 1,000", &turns, 2.0));
    drop((large, middle));
    let (mut large, mut middle) = (fleet::of(fleet::staging(LARGE)), fleet::of(fleet::staging(MIDDLE)));
    let turns =
        in_turn(|round| (staging_turn(&mut large, LARGE, round), staging_turn(&mut middle, MIDDLE, round)));
    figures.push(ratio("the same while all are staging, 100,000 over 1,000", &turns, 2.0));
    let how = "three records an instance, directives and waves included";
    figures.push(Figure::unlimited("memory of the fleet at 100,000", after - before, "MiB", how));
    figures
}

/// Both sides, one after the other, round by round: every slice of both.
fn in_turn(mut sides: impl FnMut(usize) -> (Vec<f64>, Vec<f64>)) -> (Vec<f64>, Vec<f64>) {
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for (a, b) in (0..ROUNDS).map(&mut sides) {
        one.extend(a);
        other.extend(b);
    }
    (one, other)
}

fn ratio(name: &str, (large, small): &(Vec<f64>, Vec<f64>), limit: f64) -> Figure {
    let (large, small) = (median(large), median(small));
    let how = format!("{large:.3} us over {small:.3} us, median slices of {ROUNDS} rounds in turn");
    Figure::limited(name, large / small, "x", limit, how)
}

/// Microseconds for each item, by slices.
fn timed<T>(items: Vec<T>, expected_us: f64, mut each: impl FnMut(T)) -> Vec<f64> {
    let slice = ((SLICE_US / expected_us) as usize).max(1);
    let (mut items, mut slices) = (items.into_iter(), Vec::new());
    while items.len() > 0 {
        let count = items.len().min(slice);
        let began = Instant::now();
        items.by_ref().take(count).for_each(&mut each);
        slices.push(began.elapsed().as_secs_f64() * 1e6 / count as f64);
    }
    slices
}

/// Microseconds for each changed report, decoded already; over nodes in no order.
fn update(fleet: &mut Fleet, change: fn(&mut Report, bool), round: usize) -> Vec<f64> {
    let service = fleet::service();
    let events: Vec<(Key, Value)> = (0..CHANGES)
        // 7,919 is a prime that divides no size here: the steps reach every node, neighbours far apart.
        .map(|step| fleet::node(step * 7_919 % LARGE))
        .filter_map(|node| {
            let mut record = fleet.service(&service)?.get(&node)?.report.as_ref()?.record.clone();
            record.body.step = Step::Serving;
            record.body.rotation = Rotation::In;
            record.body.version = record.body.release.as_ref().map(|tag| version_of(tag.as_str()));
            change(&mut record.body, round.is_multiple_of(2));
            Some((Key::Report(service.clone(), node), Value::Report(record)))
        })
        .collect();
    assert_eq!(events.len(), CHANGES, "every node of the fleet reports");
    let at = Revision(fleet.revision().0 + 1);
    let us = timed(events, 2.0, |(key, value)| fleet.put(key, Ok(value), at));
    fleet.set_revision(at);
    us
}

fn version_of(tag: &str) -> tidegate_proto::ServiceVersion {
    fleet::release(if tag == fleet::release(1).tag.as_str() { 1 } else { 2 }).version
}

/// Microseconds for one read: the spread, its ends, and what gates ask of it.
fn read(fleet: &Fleet) -> Vec<f64> {
    let (service, needed) = (fleet::service(), fleet::release(2).version);
    timed(vec![(); READS], 0.05, |()| {
        let Some(service) = black_box(fleet).service(&service) else { return };
        let spread = service.spread();
        black_box((spread.min(), spread.max(), spread.silent, spread.is_all_at(needed)));
        black_box((
            service.below(needed).each.next(),
            service.in_service(),
            service.unacknowledged().each.next(),
        ));
    })
}

/// Microseconds for one turn: the draining instance reports another count in flight or that it is drained, and what
/// follows is planned.
fn turn(fleet: &mut Fleet, size: usize, round: usize) -> Vec<f64> {
    let (us, decisions, waits) = turns(fleet, size, |report, step| {
        let drained = (step + round).is_multiple_of(2);
        report.rotation = if drained { Rotation::Out } else { Rotation::Leaving };
        report.step = if drained { Step::Drained { forced: false } } else { Step::Draining };
        report.in_flight = Some(step as u32);
    });
    assert_eq!(decisions, TURNS / 2, "a drained instance is replaced, and nothing else follows");
    assert!(waits >= TURNS / 2, "a draining instance is waited for");
    us
}

/// Microseconds for one turn while all are staging: one instance has staged the release, or has it no longer.
fn staging_turn(fleet: &mut Fleet, size: usize, round: usize) -> Vec<f64> {
    let (us, decisions, waits) = turns(fleet, size, |report, step| {
        let there = 1 + (step + round) % 2;
        report.staged = (1..=there as i64).map(|version| fleet::release(version).tag).collect();
    });
    assert_eq!(decisions, 0, "every instance had its directive");
    assert_eq!(waits, 2 * TURNS, "all others are waited for, to stage and to acknowledge");
    us
}

/// Microseconds for each turn after a change of one report; how many actions and reasons there were in all.
fn turns(fleet: &mut Fleet, size: usize, change: impl Fn(&mut Report, usize)) -> (Vec<f64>, usize, usize) {
    let (service, node, moment) = (fleet::service(), fleet::node(fleet::draining(size)), fleet::moment());
    let stored = fleet.service(&service).and_then(|s| s.get(&node)).and_then(|i| i.report.clone());
    let Some(record) = stored.map(|stored| stored.record) else { return (Vec::new(), 0, 0) };
    let mut events: Vec<Value> = Vec::with_capacity(TURNS);
    for step in 0..TURNS {
        let mut next = record.clone();
        change(&mut next.body, step);
        events.push(Value::Report(next));
    }
    let (mut decisions, mut waits) = (0, 0);
    let us = timed(events, 2.0, |value| {
        fleet.put(Key::Report(service.clone(), node.clone()), Ok(value), Revision(fleet.revision().0 + 1));
        let plan = plan(fleet, &moment);
        decisions += plan.actions.len();
        waits += plan.waiting.values().map(Vec::len).sum::<usize>();
    });
    (us, decisions, waits)
}
