//! What a machine that cannot keep up explains, and what it does not.

use super::*;
use crate::gate::late::Wrong;
use crate::gate::survival::Survived;

/// One that the generator did not send.
fn not_sent_at(seq: u64, at: f64) -> Entry {
    Entry {
        outcome: Judged::NotSent,
        node: String::new(),
        version: None,
        status: None,
        reason: "not sent within 1 s of its instant: ".to_owned(),
        ..entry(seq, at)
    }
}

#[test]
fn rollback_without_a_failed_request_does_not_pass() {
    let mut up = upgraded(load());
    up.ended = ended("rolled-back", Some("node-2: not healthy within 20 s"));
    up.changes.push(change(4_000.0, Some(2), false));
    up.changes.push(change(4_500.0, Some(1), true));
    let judged = of(GateTag::ZeroDowntime, &up, &[]);
    assert_eq!(judged.verdict, Word::Fail, "{judged:#?}");
    let check = judged.checks.iter().find(|check| check.verdict == Word::Fail).unwrap();
    assert_eq!(check.check, "every instance is upgraded while the load runs");
    assert!(check.found.contains("it ended rolled-back: node-2: not healthy within 20 s"), "{check:?}");
}

#[test]
fn late_generator_is_inconclusive_also_where_no_request_failed() {
    let mut up = upgraded(load());
    up.host.lag_p99_ms = 9_000.0;
    let judged = of(GateTag::ZeroDowntime, &up, &[]);
    assert_eq!(judged.verdict, Word::Inconclusive);
    let found = &judged.checks[1].found;
    assert!(
        found.contains("0 of 500 failed") && found.contains("within 9000 ms, 250 ms are allowed"),
        "{found}"
    );
}

#[test]
fn request_that_was_not_sent_is_no_failure_and_no_answer() {
    let mut up = upgraded(load());
    up.entries[300] = not_sent_at(300, 3_000.0);
    up.entries[301] = not_sent_at(301, 3_010.0);
    let judged = of(GateTag::ZeroDowntime, &up, &[]);
    assert_eq!(judged.verdict, Word::Inconclusive, "{judged:#?}");
    let found = &judged.checks[1].found;
    assert!(found.contains("0 of 498 failed"), "{found}");
    assert!(found.contains("2 requests were not sent in time by the generator"), "{found}");
    // A failure that was seen stays one.
    up.entries[302] = failed(entry(302, 3_020.0), "status 500: boom");
    let judged = of(GateTag::ZeroDowntime, &up, &[]);
    assert_eq!(judged.verdict, Word::Fail);
    assert!(judged.checks[1].found.contains("1 of 498 failed; first: read 302"), "{judged:#?}");
}

#[test]
fn wrong_answer_is_named_where_another_request_failed_first() {
    let mut up = upgraded(load());
    let silent = failed(entry(300, 3_000.0), "no answer in 10 s");
    up.entries[300] = Entry { status: None, node: String::new(), version: None, ..silent };
    up.entries[310] = failed(entry(310, 3_100.0), "status 500: boom");
    up.entries[311] = failed(entry(311, 3_110.0), "status 500: boom");
    let judged = of(GateTag::ZeroDowntime, &up, &[]);
    let found = &judged.checks[1].found;
    assert!(found.contains("3 of 500 failed; first: read 300 "), "{found}");
    assert!(found.contains("first wrong answer of 2: read 310 at 3.100 s, node-"), "{found}");
    assert!(found.contains("status 500: boom"), "{found}");
}

#[test]
fn load_that_was_not_sent_before_the_upgrade_is_inconclusive() {
    let mut up = upgraded(load());
    for entry in up.entries.iter_mut().filter(|entry| entry.done_ms < 1_000.0) {
        *entry = not_sent_at(entry.seq, entry.scheduled_ms);
    }
    let judged = of(GateTag::ZeroDowntime, &up, &[]);
    assert_eq!(judged.checks[0].verdict, Word::Inconclusive);
    assert!(
        judged.checks[0].found.starts_with("no request was answered before the upgrade; "),
        "{judged:#?}"
    );
}

#[test]
fn request_of_a_mix_that_was_not_sent_is_of_no_version() {
    let read = |n: u64| Entry {
        version: Some(1 + (n % 2) as u32),
        written_by: Some(2 - (n % 2) as u32),
        ..entry(n, n as f64)
    };
    let mut entries: Vec<Entry> = (0..40).map(read).collect();
    entries[7] = not_sent_at(7, 7.0);
    let mixed = [Mixed {
        arrangement: Arrangement { base: 2, target: 1 },
        entries,
        beside: Vec::new(),
        memory: Vec::new(),
        deaths: Vec::new(),
        host: HostSeen::default(),
    }];
    let judged = of(GateTag::Rolling, &upgraded(load()), &mixed);
    let words: Vec<Word> = judged.checks[..2].iter().map(|check| check.verdict).collect();
    assert_eq!(words, [Word::Inconclusive, Word::Pass], "{judged:#?}");
    let found = &judged.checks[0].found;
    assert!(found.contains("0 of 39 failed") && !found.contains("version 0"), "{found}");
}

#[test]
fn overload_excuses_an_unfinished_upgrade_without_a_death() {
    let mut up = upgraded(load());
    up.host = busy();
    up.ended = ended("rolled-back", Some("node-2: not healthy within 20 s"));
    up.changes.truncate(3);
    for tag in [GateTag::SupportsUpgrade, GateTag::Rolling, GateTag::ZeroDowntime] {
        let judged = of(tag, &up, &[]);
        assert_eq!(judged.verdict, Word::Inconclusive, "{judged:#?}");
        let said = judged.checks.iter().any(|check| {
            check.found.contains("not healthy within 20 s") && check.found.contains("waited for a core 99 %")
        });
        assert!(said, "{judged:#?}");
    }
    up.deaths = vec![Death {
        node: "node-2".to_owned(),
        version: Some(2),
        at_ms: Some(2_900.0),
        how: "exited with code 3".to_owned(),
        log: String::new(),
    }];
    assert_eq!(of(GateTag::SupportsUpgrade, &up, &[]).verdict, Word::Fail);
}

#[test]
fn contract_that_exits_with_1_fails_despite_overload() {
    let mut up = upgraded(load());
    up.host = busy();
    let what = "it completed, and then its contract failed: `drop` ended with exit status: 1";
    for (of_time, word) in [(true, Word::Inconclusive), (false, Word::Fail)] {
        up.ended.contract = Some(Wrong { what: what.to_owned(), of_time });
        for tag in [GateTag::SupportsUpgrade, GateTag::Rolling, GateTag::ZeroDowntime] {
            let judged = of(tag, &up, &[]);
            assert_eq!(judged.verdict, word, "{judged:#?}");
            assert!(judged.checks.iter().any(|check| check.found.starts_with(what)), "{judged:#?}");
        }
    }
}

#[test]
fn instance_at_another_version_fails_despite_overload() {
    let mut up = upgraded(load());
    up.host = busy();
    up.changes.push(change(4_000.0, Some(2), false));
    assert_eq!(of(GateTag::SupportsUpgrade, &up, &[]).verdict, Word::Inconclusive, "out of rotation");
    up.changes.push(change(4_500.0, Some(1), true));
    assert_eq!(of(GateTag::SupportsUpgrade, &up, &[]).verdict, Word::Fail);
}

#[test]
fn overload_alone_excuses_an_unread_object() {
    let mut up = upgraded(load());
    let unread = vec!["a item written by version 1: no answer in 10 s".to_owned()];
    up.sweep = Some(Sweep { read: 50, unread, ..Sweep::default() });
    assert_eq!(of(GateTag::SupportsUpgrade, &up, &[]).verdict, Word::Fail);
    up.host = busy();
    let judged = of(GateTag::SupportsUpgrade, &up, &[]);
    assert_eq!(judged.verdict, Word::Inconclusive, "{judged:#?}");
    assert!(judged.checks.iter().any(|check| check.found.contains("1 of 50 objects could not be read")));
    up.sweep.as_mut().unwrap().wrong = vec!["a item written by version 1: status 404".to_owned()];
    assert_eq!(of(GateTag::SupportsUpgrade, &up, &[]).verdict, Word::Fail, "it is lost");
}

#[test]
fn overload_alone_excuses_late_start_and_survival() {
    let verdict = |of_time, host| {
        let wrong = Wrong { what: "waited 30s for offline-1 to be ready".to_owned(), of_time };
        let survived = Survived {
            stage: "after the upgrade",
            wrong: Some("GET /items/1: no answer".to_owned()),
            of_time,
        };
        let mut up = upgraded(load());
        (up.host, up.survival) = (host, vec![survived.clone()]);
        let offline = Offline { started: Err(wrong), survival: vec![survived], host };
        let evidence = Evidence {
            health: &[],
            orders: &[],
            rollbacks: &[],
            mixed: &[],
            offline: Some(&offline),
            upgraded: &up,
            documented: None,
            impact: None,
            bounds: HostBounds::default(),
        };
        let judged = judge(&[GateTag::SupportsUpgrade], &evidence).remove(0);
        let bad = judged.checks.into_iter().filter(|check| check.verdict != Word::Pass);
        bad.map(|check| check.verdict).collect::<Vec<_>>()
    };
    assert_eq!(verdict(true, busy()), [Word::Inconclusive; 3]);
    assert_eq!(verdict(true, HostSeen::default()), [Word::Fail; 3]);
    assert_eq!(verdict(false, busy()), [Word::Fail; 3]);
}
