//! A history that was good, made bad in one place at a time: the judge must notice each.

use grenade_tests::trace::Trace;
use grenade_tests::trace::falsify::{About, FalseRecord, one_is_drained_again};

/// Asserts that each falsification of a completed upgrade is found, by the rule that it breaks.
pub(super) fn is_caught(good: &Trace) {
    let is_of_it = |record: &FalseRecord| !matches!(record.about(), About::RolledBack | About::Required);
    let records: Vec<FalseRecord> = FalseRecord::ALL.into_iter().filter(is_of_it).collect();
    for record in &records {
        let mut trace = good.clone();
        record.apply(&mut trace).expect("a completed upgrade has what the falsification is about");
        let rules: Vec<u8> = trace.breaches().iter().map(|broken| broken.rule).collect();
        assert!(rules.contains(&record.rule()), "{record:?}: found {rules:?}, expected {}", record.rule());
    }
    assert!(good.needless_drains().is_empty(), "{:?}", good.needless_drains());
    let mut trace = good.clone();
    one_is_drained_again(&mut trace).expect("a completed upgrade drains");
    assert!(!trace.needless_drains().is_empty(), "an instance at the new version is drained: not found out");
    println!("falsified histories: {} made, {} found out", records.len() + 1, records.len() + 1);
}
