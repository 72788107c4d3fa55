mod overload;
mod slow;

use super::*;
use crate::gate::deaths::Death;
use crate::gate::drive::Ended;
use crate::gate::host::HostSeen;
use crate::gate::mixed::Memory;
use crate::gate::offline::Offline;
use crate::gate::processes::Overlap;
use crate::gate::watch::Change;
use crate::load::LoadReport;
use crate::load::entry::{Judged, good};
use crate::load::sweep::Sweep;

fn entry(seq: u64, at: f64) -> Entry {
    good(seq, "node-1", at, 1.0)
}

fn failed(entry: Entry, reason: &str) -> Entry {
    Entry { outcome: Judged::Failed, reason: reason.to_owned(), ..entry }
}

fn change(at_ms: f64, version: Option<u32>, in_rotation: bool) -> Change {
    Change { at_ms, node: "node-1".to_owned(), version, in_rotation }
}

fn ended(word: &str, because: Option<&str>) -> Ended {
    let phases = vec![("roll".to_owned(), 3.0)];
    Ended { word: word.to_owned(), because: because.map(str::to_owned), phases, ..Ended::default() }
}

fn upgraded(entries: Vec<Entry>) -> Upgraded {
    Upgraded {
        ended: ended("completed", None),
        steps: Vec::new(),
        from: 1,
        to: 2,
        span_ms: (1_000.0, 5_000.0),
        entries,
        changes: vec![
            change(0.0, Some(1), true),
            change(2_000.0, Some(1), false),
            change(2_500.0, None, false),
            change(3_000.0, Some(2), false),
            change(3_500.0, Some(2), true),
        ],
        overlaps: Some(Vec::new()),
        deaths: Vec::new(),
        sweep: Some(Sweep { read: 50, ..Sweep::default() }),
        silence: None,
        load: LoadReport::default(),
        certificate: Some(Ok("digest".to_owned())),
        survival: Vec::new(),
        host: HostSeen::default(),
    }
}

fn of(tag: GateTag, up: &Upgraded, mixed: &[Mixed]) -> TagVerdict {
    let bounds = HostBounds::default();
    let evidence = Evidence {
        health: &[],
        orders: &[],
        rollbacks: &[],
        mixed,
        offline: Some(&Offline { started: Ok(()), survival: Vec::new(), host: HostSeen::default() }),
        upgraded: up,
        documented: None,
        impact: None,
        bounds,
    };
    judge(&[tag], &evidence).remove(0)
}

/// A machine on which processes waited for a core nearly all the time.
fn busy() -> HostSeen {
    let mut host = HostSeen::default();
    host.mean.cpu_pressure = Some(99.0);
    host
}

fn load() -> Vec<Entry> {
    (0..600).map(|n| entry(n, n as f64 * 10.0)).collect()
}

#[test]
fn good_run_passes_with_its_bound() {
    let judged = of(GateTag::ZeroDowntime, &upgraded(load()), &[]);
    assert_eq!(judged.verdict, Word::Pass, "{judged:#?}");
    assert!(judged.checks[1].found.contains("0 of 500 failed (at most 0.600 %"), "{judged:#?}");
    assert_eq!(of(GateTag::SupportsUpgrade, &upgraded(load()), &[]).verdict, Word::Pass);
}

#[test]
fn failed_request_fails_and_is_named() {
    let mut entries = load();
    entries[300] = failed(entry(300, 3_000.0), "status 500: boom");
    let judged = of(GateTag::ZeroDowntime, &upgraded(entries), &[]);
    assert_eq!(judged.verdict, Word::Fail);
    let found = &judged.checks[1].found;
    assert!(found.contains("read 300 at 3.000 s, node-1 at version 1: status 500: boom"), "{found}");
}

#[test]
fn failure_before_the_upgrade_is_not_the_upgrade_s() {
    let mut entries = load();
    entries[20] = failed(entry(20, 200.0), "status 500: boom");
    entries[300] = failed(entry(300, 3_000.0), "status 500: boom");
    assert_eq!(of(GateTag::ZeroDowntime, &upgraded(entries), &[]).verdict, Word::Inconclusive);
}

#[test]
fn overloaded_machine_excuses_all_but_wrong_answers() {
    let mut up = upgraded(load());
    up.host = HostSeen { lag_p99_ms: 3.0, ..busy() };
    assert_eq!(of(GateTag::ZeroDowntime, &up, &[]).verdict, Word::Pass, "nothing failed");
    up.entries[300] = failed(Entry { status: None, ..entry(300, 3_000.0) }, "no answer in 10 s: ");
    assert_eq!(of(GateTag::ZeroDowntime, &up, &[]).verdict, Word::Inconclusive);
    up.entries[301] = failed(entry(301, 3_010.0), "wrong content: /name is 1, not 2");
    assert_eq!(of(GateTag::ZeroDowntime, &up, &[]).verdict, Word::Fail);
}

#[test]
fn upgrade_without_a_request_in_it_is_inconclusive() {
    let mut up = upgraded(load());
    up.entries.retain(|entry| !(990.0..=5_000.0).contains(&entry.scheduled_ms));
    let judged = of(GateTag::ZeroDowntime, &up, &[]);
    assert_eq!(judged.verdict, Word::Inconclusive, "{judged:#?}");
    let none = "; 0 of them came due in the 4.0 s of the upgrade; at least one is needed";
    assert!(judged.checks[1].found.ends_with(none), "{judged:#?}");
    let evidence = Evidence {
        health: &[],
        orders: &[],
        rollbacks: &[(TurningPoint::Roll, up)],
        mixed: &[],
        offline: None,
        upgraded: &upgraded(load()),
        documented: None,
        impact: None,
        bounds: HostBounds::default(),
    };
    let judged = judge(&[GateTag::ZeroDowntime], &evidence).remove(0);
    let in_rollback = judged.checks.last().unwrap();
    assert_eq!(in_rollback.verdict, Word::Inconclusive, "{judged:#?}");
    assert!(in_rollback.found.ends_with(none), "{judged:#?}");
}

#[test]
fn version_that_changes_in_rotation_fails() {
    let mut up = upgraded(load());
    up.changes = vec![change(0.0, Some(1), true), change(2_000.0, Some(2), true)];
    let judged = of(GateTag::ZeroDowntime, &up, &[]);
    assert_eq!(judged.verdict, Word::Fail);
    assert!(judged.checks[2].found.contains("node-1"), "{judged:#?}");
    up.changes.truncate(1);
    let judged = of(GateTag::ZeroDowntime, &up, &[]);
    let verdicts: Vec<Word> = judged.checks.iter().map(|check| check.verdict).collect();
    assert_eq!(verdicts, [Word::Pass, Word::Pass, Word::Inconclusive, Word::Fail], "{judged:#?}");
}

#[test]
fn mix_must_be_read_both_ways() {
    let read = |n: u64, through, written| Entry {
        version: Some(through),
        written_by: Some(written),
        ..entry(n, n as f64)
    };
    let arrangement = Arrangement { base: 2, target: 1 };
    let mixed = |entries| {
        [Mixed {
            arrangement,
            entries,
            beside: Vec::new(),
            memory: Vec::new(),
            deaths: Vec::new(),
            host: HostSeen::default(),
        }]
    };
    let both: Vec<Entry> = (0..40).map(|n| read(n, 1 + (n % 2) as u32, 2 - (n % 2) as u32)).collect();
    assert_eq!(of(GateTag::Rolling, &upgraded(load()), &mixed(both.clone())).verdict, Word::Pass);
    let one_way: Vec<Entry> = (0..40).map(|n| read(n, 2, 1)).collect();
    assert_eq!(of(GateTag::Rolling, &upgraded(load()), &mixed(one_way)).verdict, Word::Inconclusive);
    let mut busy = both.clone();
    for entry in busy.iter_mut().filter(|entry| entry.seq < 4) {
        *entry = failed(Entry { status: Some(503), ..entry.clone() }, "status 503: busy");
    }
    let overloaded = HostSeen { lag_p99_ms: 9_000.0, ..HostSeen::default() };
    let busy = mixed(busy).map(|mixed| Mixed { host: overloaded, ..mixed });
    let judged = of(GateTag::Rolling, &upgraded(load()), &busy);
    assert!(judged.checks[..2].iter().all(|check| check.verdict == Word::Inconclusive), "{judged:#?}");
    let mut bad = both;
    bad[1] = failed(bad[1].clone(), "wrong content: /colour is absent, not \"red\"");
    let judged = of(GateTag::Rolling, &upgraded(load()), &mixed(bad));
    assert_eq!(judged.verdict, Word::Fail);
    assert!(judged.checks[1].found.contains("written by version 1"), "{judged:#?}");
}

#[test]
fn rollback_must_end_where_it_began() {
    let mut up = upgraded(load());
    up.ended = ended("rolled-back", None);
    let judged = |up: &Upgraded| back("a rollback", up, None);
    assert_eq!(judged(&up).verdict, Word::Fail);
    assert!(judged(&up).found.contains("node-1 is left at version 2"));
    up.changes.push(change(4_000.0, Some(1), false));
    assert_eq!(judged(&up).verdict, Word::Fail, "it is out of rotation");
    up.changes.push(change(4_100.0, Some(1), true));
    assert_eq!(judged(&up).verdict, Word::Pass);
    up.ended = ended("completed", None);
    assert_eq!(judged(&up).verdict, Word::Fail);
    assert!(judged(&up).found.contains("it ended completed"));
}

#[test]
fn rollback_passes_where_the_first_look_had_no_answer() {
    let mut up = upgraded(load());
    up.ended = ended("rolled-back", None);
    up.changes[0] = change(0.0, None, false);
    up.changes.push(change(4_000.0, Some(1), true));
    let judged = back("a rollback", &up, None);
    assert_eq!(judged.verdict, Word::Pass, "{judged:?}");
}

#[test]
fn lost_object_and_unfinished_upgrade_fail() {
    let mut up = upgraded(load());
    let wrong = vec!["a item written by version 1: status 404".to_owned()];
    up.sweep = Some(Sweep { read: 50, wrong, ..Sweep::default() });
    assert_eq!(of(GateTag::SupportsUpgrade, &up, &[]).verdict, Word::Fail);
    up = upgraded(load());
    up.ended = ended("rolled-back", Some("node-2 never became healthy"));
    up.deaths = vec![Death {
        node: "node-2".to_owned(),
        version: Some(2),
        at_ms: Some(2_900.0),
        how: "exited with code 3".to_owned(),
        log: "Traceback:\nboom".to_owned(),
    }];
    let judged = of(GateTag::SupportsUpgrade, &up, &[]);
    assert_eq!(judged.verdict, Word::Fail);
    assert!(judged.checks[0].found.contains("node-2 never became healthy"), "{judged:#?}");
    let died = "; node-2 at version 2 exited with code 3 at 2.9 s, its last line: boom";
    assert!(judged.checks[0].found.ends_with(died), "{judged:#?}");
    up = upgraded(load());
    up.changes.push(change(4_000.0, Some(2), false));
    let judged = of(GateTag::SupportsUpgrade, &up, &[]);
    assert!(judged.checks[0].found.contains("node-1 is left at version 2, out of rotation"), "{judged:#?}");
}

#[test]
fn only_memory_kept_for_each_request_fails() {
    let memory =
        |node: &str, version, after| Memory { node: node.to_owned(), version, before: 20_000, after };
    let to = |n: u64, node: &str| Entry { node: node.to_owned(), ..entry(n, n as f64) };
    let entries: Vec<Entry> = (0..200).map(|n| to(n, if n % 2 == 0 { "old" } else { "new" })).collect();
    let mixed = |old, new| Mixed {
        beside: Vec::new(),
        arrangement: Arrangement { base: 1, target: 1 },
        entries: entries.clone(),
        memory: vec![memory("old", 1, old), memory("new", 2, new)],
        deaths: Vec::new(),
        host: HostSeen::default(),
    };
    let said = |mixed: &Mixed| processes::memory("memory", mixed).unwrap();
    let leak = said(&mixed(21_000, 120_000));
    assert_eq!(leak.verdict, Word::Fail, "{leak:?}");
    for part in ["new at version 2", "100 requests", "the first: read 1 at 0.001 s"] {
        assert!(leak.found.contains(part), "{leak:?}");
    }
    // Both warm up; the target needs a little more, once.
    assert_eq!(said(&mixed(60_000, 65_000)).verdict, Word::Pass);
    assert_eq!(said(&mixed(20_000, 33_000)).verdict, Word::Pass);
    assert_eq!(said(&mixed(90_000, 40_000)).verdict, Word::Pass, "the base's leak is not the target's");
    let mut few = mixed(21_000, 120_000);
    few.entries.truncate(12);
    assert_eq!(said(&few).verdict, Word::Inconclusive);
    let mut unseen = mixed(21_000, 120_000);
    unseen.memory[0].before = 0;
    assert!(processes::memory("memory", &unseen).is_none());
}

#[test]
fn version_that_starts_before_the_other_ended_fails() {
    let mut up = upgraded(load());
    assert_eq!(processes::one_at_a_time(&up).unwrap().verdict, Word::Pass);
    up.overlaps = Some(vec![Overlap { at_ms: 2_600, node: "node-1".to_owned(), versions: vec![1, 2] }]);
    let check = processes::one_at_a_time(&up).unwrap();
    assert_eq!(check.verdict, Word::Fail);
    for part in ["versions 1 and 2 ran at node-1", "2.600 s", "the first request then: read"] {
        assert!(check.found.contains(part), "{check:?}");
    }
    up.overlaps = None;
    assert!(processes::one_at_a_time(&up).is_none());
}

#[test]
fn event_of_a_plan_that_is_missing_is_inconclusive() {
    let mut up = upgraded(load());
    up.ended.left_out = vec!["not reached: after 10m, the operator rolls back".to_owned()];
    let judged = of(GateTag::SupportsUpgrade, &up, &[]);
    assert_eq!(judged.verdict, Word::Inconclusive);
    assert!(
        judged.checks.iter().any(|check| check.found.contains("1 did not: not reached: after 10m")),
        "{judged:#?}"
    );
}

#[test]
fn command_that_sends_nothing_for_a_while_is_inconclusive() {
    let mut up = upgraded(load());
    up.silence = Some((2_000.0, 2_900.0));
    assert_eq!(of(GateTag::ZeroDowntime, &up, &[]).verdict, Word::Pass);
    up.silence = Some((2_000.0, 3_500.0));
    let judged = of(GateTag::ZeroDowntime, &up, &[]);
    assert_eq!(judged.verdict, Word::Inconclusive);
    assert!(judged.checks[1].found.contains("it sent nothing from 2.0 s to 3.5 s"), "{judged:#?}");
}
