//! Each way of change that is wrong, beside one that is right.

use super::*;
use crate::trace::Put;
use crate::trace::falsify::FalseRecord;
use crate::trace::{LIE, Trace};
use serde_json::{Value as Json, json};

/// Records that are written together; the key is gone where there is none.
type Writes<'a> = &'a [(&'a str, Option<Json>)];

/// The revisions of such a history.
fn history(history: &[Writes<'_>]) -> Vec<Revision> {
    let written = |(key, record): &(&str, Option<Json>), number: i64| {
        let text = record.as_ref().map(|record| {
            let mut record = record.clone();
            record["schema"] = json!(if key.starts_with("upgrades/") { 3 } else { 1 });
            record.to_string()
        });
        Written::of_text(key, text.as_deref(), number)
    };
    let revision = |(number, writes): (i64, &Writes<'_>)| Revision {
        number,
        writes: writes.iter().map(|write| written(write, number)).collect(),
    };
    (1..).zip(history).map(revision).collect()
}

/// What is found in it, by the revision.
fn found(writes: &[Writes<'_>]) -> Vec<(i64, u8)> {
    judge(&history(writes), |_| false).into_iter().map(|broken| (broken.at, broken.rule)).collect()
}

fn event(who: &str) -> (&'static str, Option<Json>) {
    let event = json!({"from": "", "to": "", "because": "", "who": who, "at": 1});
    ("events/fleet/00000000000000000001-0000000001", Some(event))
}

fn token(role: &str, revoked: Option<&str>) -> (&'static str, Option<Json>) {
    let mut token = json!({"name": "ci", "role": role, "by": "ann", "at": 1,
        "credential": {"certificate": "ci.example"}});
    if let Some(by) = revoked {
        token["revoked"] = json!({"by": by, "why": "left", "at": 2});
    }
    ("tokens/t1", Some(token))
}

#[test]
fn token_is_revoked_once_and_stays() {
    let (made, revoked) = (token("read", None), token("read", Some("bob")));
    let begin: Writes<'_> = &[event("ann"), made.clone()];
    let end: Writes<'_> = &[event("bob"), revoked.clone()];
    assert_eq!(found(&[begin, end]), []);
    assert_eq!(found(&[std::slice::from_ref(&made)]), [(1, 0)], "nothing says who made it");
    assert_eq!(found(&[&[event("bob"), revoked]]), [(1, 0)], "it was never good");
    assert_eq!(found(&[begin, &[event("ann"), token("operate", None)]]), [(2, 0)]);
    assert_eq!(found(&[begin, &[event("bob"), token("operate", Some("bob"))]]), [(2, 0)]);
    assert_eq!(found(&[begin, end, begin]), [(3, 0)], "it is good again");
    assert_eq!(found(&[begin, &[("tokens/t1", None)]]), [(2, 0)]);
}

const TASK: &str = "tasks/n1/prewarm-1";
const RESULT: &str = "results/n1/prewarm-1";

fn task(settled: Option<&str>) -> (&'static str, Option<Json>) {
    let mut task =
        json!({"hook": "warm", "release": {"stream": "main", "revision": 1, "tag": "r-1"}, "at": 1});
    if let Some(who) = settled {
        task["settled"] = json!({"ended": "failed", "who": who, "why": "seen", "at": 2});
    }
    (TASK, Some(task))
}

fn result(outcome: &str, nonce: &str) -> (&'static str, Option<Json>) {
    let mut outcome = json!({"name": outcome});
    if outcome["name"] == "failed" || outcome["name"] == "unknown" {
        outcome["why"] = json!("so");
    }
    (RESULT, Some(json!({"outcome": outcome, "at": 2, "by": {"nonce": nonce, "boot": "b"}})))
}

#[test]
fn task_is_claimed_and_ends_once() {
    let begin: Writes<'_> = &[task(None)];
    let claimed: Writes<'_> = &[result("claimed", "a")];
    let ended: Writes<'_> = &[result("succeeded", "a")];
    let both: Writes<'_> = &[(TASK, None), (RESULT, None)];
    assert_eq!(found(&[begin, claimed, ended, both]), []);
    assert_eq!(found(&[begin, &[result("failed", "a")], both]), [], "there is no such hook");
    assert_eq!(found(&[begin, &[(TASK, None)]]), [], "no agent has taken it");
    assert_eq!(found(&[claimed]), [(1, 0)], "it is the result of no task");
    assert_eq!(found(&[claimed, begin]), [(1, 0), (2, 0)], "its result was there before it");
    assert_eq!(found(&[begin, claimed, &[result("succeeded", "b")]]), [(3, 0)], "another agent ends it");
    assert_eq!(found(&[begin, claimed, ended, &[result("failed", "a")]]), [(4, 0)], "it ends twice");
    assert_eq!(found(&[begin, claimed, claimed]), [(3, 0)], "it is claimed twice");
    assert_eq!(found(&[begin, claimed, both]), [(3, 0)], "it may run");
    assert_eq!(found(&[begin, ended, &[(TASK, None)]]), [(3, 0)], "its result stays");
    assert_eq!(found(&[begin, ended, &[(RESULT, None)]]), [(3, 0)], "its task stays");
    assert_eq!(found(&[begin, begin]), [(2, 0)], "it is ordered again");
}

#[test]
fn person_settles_a_task_by_name() {
    let begin: [Writes<'_>; 2] = [&[task(None)], &[result("unknown", "a")]];
    let both: Writes<'_> = &[(TASK, None), (RESULT, None)];
    let settled: Writes<'_> = &[event("ann"), task(Some("ann"))];
    assert_eq!(found(&[begin[0], begin[1], settled, both]), []);
    assert_eq!(found(&[begin[0], begin[1], both]), [(3, 0)], "it may run");
    assert_eq!(found(&[begin[0], begin[1], &[event("bob"), task(Some("ann"))]]), [(3, 0)]);
    assert_eq!(found(&[settled]), [(1, 0)], "it was ordered as settled");
}

#[test]
fn stray_result_may_be_removed() {
    let stray: Writes<'_> = &[result("claimed", "a")];
    assert_eq!(found(&[stray, &[(RESULT, None)]]), [(1, 0)], "the removal is right");
}

fn roll(sizes: &[u32]) -> (&'static str, Option<Json>) {
    let digest = "0".repeat(64);
    let release = json!({"tag": "pantry-2", "sha256": digest});
    let upgrade = json!({"spec": {"service": "pantry", "from": 1, "to": 2, "release": release},
        "digest": digest, "by": "op", "at": 1, "phase": {"name": "roll", "wave": 0},
        "waves": {"pages": 1, "sizes": sizes}});
    ("upgrades/u1", Some(upgrade))
}

fn page(members: &[(&str, u32)]) -> (&'static str, Option<Json>) {
    ("waves/u1/000000", Some(json!({"members": members})))
}

#[test]
fn waves_stay_as_the_roll_began_with_them() {
    let drawn = page(&[("n1", 0), ("n2", 1)]);
    let [pages, begins]: [Writes<'_>; 2] = [std::slice::from_ref(&drawn), &[roll(&[1, 1])]];
    assert_eq!(found(&[pages, begins, begins]), []);
    let again: Writes<'_> = &[page(&[("n1", 0), ("n2", 0)]), roll(&[2])];
    assert_eq!(found(&[pages, begins, again]), [], "they are drawn again, with the record");
    assert_eq!(found(&[begins]), [(1, 0)], "there is no page");
    assert_eq!(found(&[pages, &[roll(&[2])]]), [(2, 0)], "the record counts others");
    assert_eq!(found(&[pages, begins, pages]), [(3, 0)], "a page is written alone");
    assert_eq!(found(&[pages, begins, &[("waves/u1/000000", None)]]), [(3, 0)]);
    let twice: Writes<'_> = &[page(&[("n1", 0), ("n1", 1)])];
    assert_eq!(found(&[twice, begins]), [(2, 0)], "a node is in two waves");
}

fn schema(contracted: Option<i64>) -> (&'static str, Option<Json>) {
    let contracted = contracted.map_or(json!({}), |version| json!({"pantry": version}));
    let digest = "0".repeat(64);
    let services = json!({"pantry": 2});
    let schema =
        json!({"services": services, "contracted": contracted, "migrations": digest, "upgrade": "u1"});
    ("schemas/pantry", Some(schema))
}

fn contracts() -> (&'static str, Option<Json>) {
    let (key, upgrade) = roll(&[1]);
    let mut upgrade = upgrade.unwrap();
    upgrade["phase"] = json!({"name": "contract", "certificate": "0".repeat(64)});
    upgrade["waves"] = Json::Null;
    (key, Some(upgrade))
}

#[test]
fn contracted_schema_never_requires_less() {
    let (begins, contracts): (Writes<'_>, Writes<'_>) = (&[schema(None)], &[schema(Some(2)), contracts()]);
    assert_eq!(found(&[begins, contracts, &[schema(Some(2))]]), [], "the next upgrade begins");
    assert_eq!(found(&[begins, &[schema(Some(2))]]), [(2, 1)], "no upgrade enters contract");
    assert_eq!(found(&[begins, &[schema(Some(2)), roll(&[])]]), [(2, 1), (2, 0)], "it rolls, without waves");
    assert_eq!(found(&[begins, contracts, begins]), [(3, 1)]);
    assert_eq!(found(&[begins, contracts, &[schema(Some(1)), contracts[1].clone()]]), [(3, 1)]);
    assert_eq!(found(&[begins, &[(schema(None).0, None)]]), [(2, 1)]);
}

#[test]
fn window_below_what_a_contracted_schema_requires_is_found() {
    let window = |floor: i64, contracted: Option<i64>| {
        let mut window = json!({"floor": floor, "ceiling": 9, "set_by": "operator"});
        if let Some(contracted) = contracted {
            window["contracted"] = json!(contracted);
        }
        ("windows/pantry", Some(window))
    };
    let contracts: Writes<'_> = &[schema(Some(2)), contracts()];
    let then = |window| found(&[&[schema(None)], &[window], contracts, &[window_of_other()]]);
    assert_eq!(then(window(1, None)), [], "it was set before");
    let sets = |window| found(&[&[schema(None)], contracts, &[window]]);
    assert_eq!(sets(window(2, Some(2))), []);
    assert_eq!(sets(window(3, None)), [], "how far it may fall is not known");
    assert_eq!(sets(window(1, Some(2))), [(3, 1)], "it admits version 1");
    assert_eq!(sets(window(2, Some(1))), [(3, 1)], "its agents would let version 1 stay");
}

/// A window of a service that does not use the schema.
fn window_of_other() -> (&'static str, Option<Json>) {
    ("windows/larder", Some(json!({"floor": 1, "ceiling": 9, "set_by": "operator"})))
}

#[test]
fn instance_is_skipped_and_retried_with_the_record() {
    let skipped = |who: Option<&str>| {
        let mut exception = json!({"failure": {"wave": 0, "reason": "so"}});
        if let Some(who) = who {
            exception["skipped"] = json!({"who": who, "why": "so", "at": 1});
        }
        ("exceptions/u1/n1", Some(exception))
    };
    let (_, record) = roll(&[]);
    let mut record = record.unwrap();
    record["waves"] = Json::Null;
    let record = ("upgrades/u1", Some(record));
    let fails: Writes<'_> = &[record.clone(), skipped(None)];
    let skips: Writes<'_> = &[record.clone(), event("ann"), skipped(Some("ann"))];
    let retried: Writes<'_> = &[record.clone(), (skipped(None).0, None)];
    assert_eq!(found(&[fails, skips, retried]), []);
    assert_eq!(
        found(&[fails, &[record.clone(), skipped(Some("ann"))]]),
        [(2, 0)],
        "nothing says who skipped it"
    );
    assert_eq!(found(&[&[skipped(None)]]), [(1, 0)], "it fails beside the record");
    assert_eq!(found(&[fails, &[(skipped(None).0, None)]]), [(2, 0)], "it is taken up beside the record");
}

/// A release with this tag, and the tag's record.
fn release(number: u64, version: u64, named: u64) -> [(String, Option<Json>); 3] {
    let manifest = json!({"image": "x"});
    let digest = Digest::of(canonical(&manifest).as_bytes()).to_string();
    let body = json!({"revision": number, "version": version, "tag": "r-1", "branch": "main",
        "manifest": digest, "digest": digest, "status": "pending", "by": "ci", "created_at": 1});
    let tag = json!({"revision": named, "version": version});
    [
        (format!("releases/main/{number:012}"), Some(body)),
        ("release-tags/main/r-1".to_owned(), Some(tag)),
        (format!("manifests/{digest}"), Some(json!({"manifest": manifest}))),
    ]
}

fn borrowed(writes: &[(String, Option<Json>)]) -> Vec<(&str, Option<Json>)> {
    writes.iter().map(|(key, record)| (key.as_str(), record.clone())).collect()
}

#[test]
fn release_is_made_with_its_manifest_and_tag() {
    let (first, second) = (release(1, 7, 1), release(2, 7, 2));
    let (first, second) = (borrowed(&first), borrowed(&second));
    assert_eq!(found(&[&first, &second, &second[..1]]), []);
    assert_eq!(found(&[&first[..2]]), [(1, 7)], "it has no manifest");
    assert_eq!(found(&[&[first[0].clone(), first[2].clone()]]), [(1, 7)], "it has no tag");
    let back: Writes<'_> = &[first[1].clone()];
    assert_eq!(found(&[&first, &second, back]), [(3, 7)], "the tag falls back");
    let other = release(2, 8, 2);
    assert_eq!(found(&[&first, &borrowed(&other)]), [(2, 7)], "the tag has another version");
    let late = release(2, 7, 3);
    assert_eq!(found(&[&first, &borrowed(&late)]), [(2, 7), (2, 7)], "there is no such revision");
    let gone: Writes<'_> = &[(first[1].0, None), (first[2].0, None)];
    assert_eq!(found(&[&first, gone]), [(2, 7), (2, 7)]);
    let false_manifest: Writes<'_> = &[(first[2].0, Some(json!({"manifest": {"image": "y"}})))];
    assert_eq!(found(&[&first, false_manifest]), [(2, 7)]);
}

#[test]
fn document_of_a_group_never_changes() {
    let of = |text: &str| ("documents/computes/000000000001", Some(json!({"document": {"a": text}})));
    let (first, other): (Writes<'_>, Writes<'_>) = (&[of("x")], &[of("y")]);
    assert_eq!(found(&[first, first, &[(of("x").0, None)], other]), [], "it makes room for the next");
    assert_eq!(found(&[first, other]), [(2, 0)]);
}

#[test]
fn what_a_person_or_a_liar_wrote_is_not_judged() {
    let revisions = |at: i64| {
        let result = Value::TaskResult(TaskResult::new(Outcome::Succeeded, LIE).into());
        let put = Some(Put { value: result, created: at, lease: 0 });
        let key = Key::TaskResult("n1".parse().unwrap(), "t-1".parse().unwrap());
        Revision { number: at, writes: vec![Written { key, put, gone: false }] }
    };
    let trace = |lies: &[i64]| Trace {
        revisions: vec![revisions(1)],
        lies: lies.iter().copied().collect(),
        ..Trace::default()
    };
    let broken = |trace: &Trace| trace.breaches().iter().any(|broken| broken.what.contains("of no task"));
    assert!(broken(&trace(&[])) && !broken(&trace(&[1])));
}

#[test]
fn each_falsified_lasting_record_is_found() {
    use FalseRecord as F;
    let rolls =
        history(&[&[schema(None)], &[schema(Some(2)), contracts()], &[page(&[("n1", 0)])], &[roll(&[1])]]);
    let records = [
        F::ManifestIsChanged,
        F::TagIsMoved,
        F::RevokedTokenIsGood,
        F::TaskEndsTwice,
        F::WaveIsChanged,
        F::RequiredVersionIsForgotten,
        F::InstanceIsSkippedAlone,
    ];
    for record in records {
        let mut trace = Trace { revisions: rolls.clone(), ..Trace::default() };
        record.apply(&mut trace).unwrap();
        let found = judge(&trace.revisions, |_| false);
        assert!(!found.is_empty(), "{record:?}");
        assert!(found.iter().all(|broken| broken.rule == record.rule()), "{record:?}: {found:?}");
    }
}
