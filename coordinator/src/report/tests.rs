use super::*;

fn listed(revision: i64) -> Seen {
    Seen::Listed(Snapshot { revision: Revision(revision), ..Snapshot::default() })
}

fn mirror_that_saw(seen: impl IntoIterator<Item = Seen>) -> Arc<Mirror> {
    let mirror = Mirror::new();
    seen.into_iter().for_each(|seen| mirror.take_in(seen));
    mirror
}

#[test]
fn nothing_is_decided_before_first_read_or_without_store() {
    assert_eq!(mirror_that_saw([]).trouble(), Some(Trouble::Unread(None)));
    assert_eq!(mirror_that_saw([listed(7), lost()]).trouble(), Some(Trouble::Away("refused".to_owned())));
    let back = mirror_that_saw([listed(7), lost(), Seen::Progress { revision: Revision(9) }, Seen::Regained]);
    assert_eq!((back.trouble(), back.sync_status().borrow().revision), (None, Revision(9)));
}

#[test]
fn a_restored_store_is_not_forgotten_by_reading_it_again() {
    let restored = Seen::Restored { seen: Revision(90), found: Revision(12) };
    let mirror = mirror_that_saw([listed(90), restored, listed(12), lost(), Seen::Regained, listed(13)]);
    assert_eq!((mirror.falls(), mirror.view().fleet.fall()), (1, Some((Revision(90), Revision(12)))));
    assert!(mirror.view().report_grace_left_ms() > 0, "agents have time to report to it");
    let reason =
        tidegate_planner::gate::unreconciled(&mirror.view().fleet, &BTreeMap::new()).unwrap().to_string();
    assert!(reason.contains("saw the store at revision 90, and found it at 12"), "{reason}");
}

#[test]
fn store_that_was_reconciled_while_away_is_obeyed() {
    let term = |name: &str, at| {
        let text = include_str!("../../../proto/tests/golden/terms.1.json");
        Entry { mod_revision: Revision(at), ..entry(Key::Term(name.parse().unwrap()), text) }
    };
    let reconciled = |at, revision| {
        let mut record: serde_json::Value =
            serde_json::from_str(include_str!("../../../proto/tests/golden/reconciliation.1.json")).unwrap();
        record["revision"] = serde_json::json!(revision);
        Entry { mod_revision: Revision(at), ..entry(Key::Reconciliation, &record.to_string()) }
    };
    let listed = |revision, entries| {
        Seen::Listed(Snapshot { revision: Revision(revision), entries, ..Snapshot::default() })
    };
    let falls = |entries| {
        let restored = Seen::Restored { seen: Revision(90), found: Revision(20) };
        let mirror = mirror_that_saw([listed(90, vec![term("t1", 5)]), restored, listed(20, entries)]);
        mirror.view().fleet.fall().is_some()
    };
    assert!(!falls(vec![term("t1", 5), term("t2", 13), reconciled(15, 90)]));
    assert!(falls(vec![term("t1", 5), term("t2", 13)]), "it was not reconciled");
    assert!(falls(vec![term("t1", 5), term("t2", 13), reconciled(7, 90)]), "the backup had that record");
    assert!(falls(vec![term("t1", 5), term("t2", 13), reconciled(15, 89)]), "more was seen here");
}

fn lost() -> Seen {
    Seen::Lost { since: Instant::now(), why: "refused".to_owned() }
}

fn entry(key: Key, text: &str) -> Entry {
    let (mod_revision, create_revision) = (Revision(7), Revision(7));
    let value = Value::decode(&key, text.as_bytes());
    Entry { key, value, bytes_len: text.len(), mod_revision, create_revision, lease: 0 }
}

/// A list with the record of one metadata group.
fn listed_group(text: &str) -> Seen {
    let entries = vec![entry(Key::Group("edge".parse().unwrap()), text)];
    Seen::Listed(Snapshot { revision: Revision(7), entries, ..Snapshot::default() })
}

const UPDATED: &str = include_str!("../../../proto/tests/golden/groups.1.json");

#[test]
fn agents_have_time_to_report_before_metadata_is_exposed() {
    let left_ms = |text: &str| mirror_that_saw([listed_group(text)]).view().report_grace_left_ms();
    assert!(left_ms(UPDATED) > 0, "an update is under way");
    let mut idle: serde_json::Value = serde_json::from_str(UPDATED).unwrap();
    idle["update"] = serde_json::Value::Null;
    assert_eq!(left_ms(&idle.to_string()), 0, "nothing is under way");
}

#[test]
fn store_away_at_the_start_stays_unread_until_its_list() {
    let unread = Some(Trouble::Unread(Some("refused".to_owned())));
    assert_eq!(mirror_that_saw([lost()]).trouble(), unread);
    assert_eq!(mirror_that_saw([lost(), Seen::Regained]).trouble(), unread, "nothing is shown yet");
    let mirror = mirror_that_saw([lost(), Seen::Regained, listed_group(UPDATED)]);
    assert_eq!(mirror.trouble(), None);
    assert!(mirror.view().report_grace_left_ms() > 0, "agents have time to report to it");
}

#[test]
fn reasons_written_over_an_unreadable_record_heal_it() {
    let (key, revision) = (Key::Waiting("u1".parse().unwrap()), Revision(8));
    let seen = |change| Seen::Changed { revision, changes: vec![change] };
    let put = |text| seen(Change::Put(entry(key.clone(), text)));
    let good = include_str!("../../../proto/tests/golden/waiting.1.json");
    let unreadable = |all: Vec<Seen>| {
        let mirror = mirror_that_saw([listed(7)].into_iter().chain(all));
        mirror.view().fleet.unreadable().count()
    };
    assert_eq!(unreadable(vec![put("nonsense")]), 1);
    assert_eq!(unreadable(vec![put("nonsense"), put(good)]), 0);
    let gone = seen(Change::Gone { key: key.clone(), revision });
    assert_eq!(unreadable(vec![put("nonsense"), gone]), 0);
}

#[test]
fn nothing_is_decided_before_all_that_was_missed_is_seen() {
    let changed = Seen::Changed { revision: Revision(8), changes: Vec::new() };
    let mirror = mirror_that_saw([listed(7), lost(), changed]);
    assert_eq!(mirror.trouble(), Some(Trouble::Away("refused".to_owned())), "more may follow");
    mirror.take_in(Seen::Regained);
    assert_eq!((mirror.trouble(), mirror.sync_status().borrow().revision), (None, Revision(8)));
}
