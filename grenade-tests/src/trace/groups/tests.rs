//! Each change of a group that is wrong, beside one that is right.

use super::*;
use crate::trace::Trace;
use crate::trace::falsify::FalseRecord;
use serde_json::{Value as Json, json};

const GROUP: &str = "groups/edge";
const PAGE: &str = "exposed/edge/000000";

/// Records that are written together; the key is gone where there is none.
type Writes = Vec<(String, Option<Json>)>;

/// What is found in a history, by the revision and the rule.
fn found(history: &[Writes]) -> Vec<(i64, u8)> {
    let revision = |(number, writes): (i64, &Writes)| {
        let written = writes.iter().map(|(key, record)| {
            let text = record.clone().map(|mut record| {
                record["schema"] = json!(1);
                record.to_string()
            });
            Written::of_text(key, text.as_deref(), number)
        });
        Revision { number, writes: written.collect() }
    };
    let revisions: Vec<Revision> = (1..).zip(history).map(revision).collect();
    judge(&revisions, |_| false).into_iter().map(|broken| (broken.at, broken.rule)).collect()
}

fn event(who: &str) -> (String, Option<Json>) {
    let event = json!({"from": "", "to": "", "because": "", "who": who, "at": 1});
    ("events/group-edge/00000000000000000001-0000000001".to_owned(), Some(event))
}

fn document(number: u64) -> (String, Option<Json>) {
    (format!("documents/edge/{number:012}"), Some(json!({"document": {"n": number}})))
}

fn version(number: u64) -> Json {
    json!({"generation": number, "digest": document_digest(&json!({"n": number})).to_string()})
}

fn page(generation: u64, batches: &[(&str, u32)]) -> (String, Option<Json>) {
    let members: serde_json::Map<String, Json> =
        batches.iter().map(|(node, batch)| ((*node).to_owned(), json!(batch))).collect();
    (PAGE.to_owned(), Some(json!({"generation": generation, "members": members})))
}

fn ended(generation: u64, outcome: &str) -> Json {
    json!({"generation": generation, "outcome": outcome, "because": "", "who": "ann", "at": 1})
}

fn group(latest: u64, current: u64, kept: Option<u64>, last: Json) -> Json {
    let mut group = json!({"members": {"service": "pantry"}, "latest": latest, "current": version(current), "last": last});
    if let Some(kept) = kept {
        group["kept"] = json!(kept);
    }
    group
}

fn exposing(batch: u32, waited_ms: u64) -> Json {
    let mut group = group(2, 1, None, ended(1, "finished"));
    group["update"] = json!({"to": version(2), "strategy": {"rolling": {"batch": 1}},
        "terms": {"timeout": "5m", "tolerate": 0}, "drawn": 2, "batches": 2, "pages": 1,
        "batch": batch, "waited_ms": waited_ms, "by": "ann", "at": 1});
    group
}

fn with(group: Json, others: &[(String, Option<Json>)]) -> Writes {
    [(GROUP.to_owned(), Some(group)), event("ann")].into_iter().chain(others.iter().cloned()).collect()
}

/// The first document is served to all.
fn made() -> Writes {
    with(group(1, 1, None, ended(1, "finished")), &[document(1)])
}

/// The second one is exposed to the first batch.
fn begun() -> Writes {
    with(exposing(0, 0), &[document(2), page(2, &[("n1", 0), ("n2", 1)])])
}

fn no_page() -> (String, Option<Json>) {
    (PAGE.to_owned(), None)
}

#[test]
fn update_goes_batch_by_batch_to_its_end() {
    let counts = vec![(GROUP.to_owned(), Some(exposing(0, 5_000)))];
    let second = with(exposing(1, 0), &[]);
    let finished = with(group(2, 2, Some(1), ended(2, "finished")), &[no_page()]);
    let returned = with(group(2, 1, Some(2), ended(2, "returned")), &[no_page()]);
    let at = |last: &Writes| found(&[made(), begun(), counts.clone(), second.clone(), last.clone()]);
    assert_eq!(at(&finished), []);
    assert_eq!(at(&returned), []);
    assert_eq!(found(&[made(), begun(), returned.clone()]), []);
    assert_eq!(
        at(&with(group(2, 2, Some(1), ended(2, "returned")), &[no_page()])),
        [(5, 0)],
        "it was not returned"
    );
    assert_eq!(
        at(&with(group(2, 2, None, ended(2, "finished")), &[no_page()])),
        [(5, 0)],
        "the former is not kept"
    );
    assert_eq!(at(&with(exposing(0, 0), &[])), [(5, 0)], "the first batch again");
    assert_eq!(at(&counts), [(5, 0)], "the same, as a count");
    assert_eq!(at(&with(exposing(2, 0), &[])), [(5, 0)], "there is no third batch");
}

#[test]
fn update_begins_with_its_document_and_batches() {
    let begins = |others: &[(String, Option<Json>)]| found(&[made(), with(exposing(0, 0), others)]);
    let drawn = page(2, &[("n1", 0), ("n2", 1)]);
    assert_eq!(begins(&[document(2), drawn.clone()]), []);
    assert_eq!(begins(std::slice::from_ref(&drawn)), [(2, 0)], "its document is not there");
    assert_eq!(begins(&[document(2)]), [(2, 0)], "nothing says who is in which batch");
    assert_eq!(
        begins(&[document(2), page(1, &[("n1", 0), ("n2", 1)])]),
        [(2, 0)],
        "the page is of another update"
    );
    assert_eq!(begins(&[document(2), page(2, &[("n1", 0)])]), [(2, 0)], "an instance is missing");
    assert_eq!(begins(&[document(2), page(2, &[("n1", 0), ("n2", 0)])]), [(2, 0)], "a batch has no instance");
    let later = with(exposing(1, 0), &[document(2), drawn.clone()]);
    assert_eq!(found(&[made(), later]), [(2, 0)], "it begins with the second batch");
    let mut unnamed = begun();
    unnamed[1] = event("bob");
    assert_eq!(found(&[made(), unnamed]), [(2, 0)], "the event names another person");
}

#[test]
fn document_for_all_at_once_is_the_next_one() {
    let next = |group: Json| found(&[made(), with(group, &[document(2)])]);
    assert_eq!(next(group(2, 2, Some(1), ended(2, "finished"))), []);
    assert_eq!(next(group(2, 1, None, ended(1, "finished"))), [(2, 0)], "no instance is served it");
    assert_eq!(next(group(1, 2, Some(1), ended(2, "finished"))), [(2, 0)], "a generation is given again");
    let mut silent = with(group(2, 2, Some(1), ended(2, "finished")), &[document(2)]);
    silent.remove(1);
    assert_eq!(found(&[made(), silent]), [(2, 0)], "there is no event");
}

#[test]
fn group_and_what_it_names_stay() {
    let gone = |key: &str| vec![(key.to_owned(), None)];
    assert_eq!(found(&[made(), gone(GROUP)]), [(2, 0)]);
    assert_eq!(found(&[made(), gone(&document(1).0)]), [(2, 0)]);
    assert_eq!(found(&[made(), begun(), gone(PAGE)]), [(3, 0)]);
    let regrouped = with(group(1, 1, None, ended(1, "finished")), &[]);
    assert_eq!(found(&[made(), regrouped]), [], "other members");
}

#[test]
fn each_falsified_group_is_found() {
    for record in [FalseRecord::BatchIsLeftOut, FalseRecord::DocumentIsLost] {
        let mut trace = Trace::default();
        record.apply(&mut trace).unwrap();
        let found = judge(&trace.revisions, |_| false);
        assert_eq!(found.len(), 1, "{record:?}: {found:?}");
        assert_eq!(found[0].at, 3, "{record:?}");
    }
}
