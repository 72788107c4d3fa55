//! A history that was good, made bad in one place at a time: whoever judges it must notice each.

use grenade_tests::trace::Trace;
use grenade_tests::trace::lie::{About, Lie, one_is_drained_again};

/// Asserts that each lie about a completed upgrade is found out, by the rule that it breaks.
pub(super) fn is_caught(good: &Trace) {
    let lies: Vec<Lie> = Lie::ALL.into_iter().filter(|lie| lie.about() != About::RolledBack).collect();
    for lie in &lies {
        let mut trace = good.clone();
        lie.tell(&mut trace).expect("a completed upgrade has what the lie is about");
        let rules: Vec<u8> = trace.breaches().iter().map(|broken| broken.rule).collect();
        assert!(rules.contains(&lie.rule()), "{lie:?}: found {rules:?}, expected {}", lie.rule());
    }
    assert!(good.needless_drains().is_empty(), "{:?}", good.needless_drains());
    let mut trace = good.clone();
    one_is_drained_again(&mut trace).expect("a completed upgrade drains");
    assert!(!trace.needless_drains().is_empty(), "an instance at the new version is drained: not found out");
    println!("falsified histories: {} told, {} found out", lies.len() + 1, lies.len() + 1);
}
