//! What is judged of the processes of instances: that one version runs at a place, and that memory is not lost. Where
//! processes cannot be seen, as in a container, nothing is.

use crate::gate::mixed::{Memory, Mixed};
use crate::gate::upgrade::Upgraded;
use crate::gate::verdict::{Check, Word, words};
use crate::load::entry::Entry;

/// A version may keep so much more for each request than the base does, in KiB.
const KEPT: f64 = 100.0;
/// Less than this may be what a program needs once, in KiB.
const ONCE: f64 = 16_384.0;
/// With fewer requests to an instance it is not judged.
const ENOUGH: usize = 10;

/// Whether no version was started at a place before the other one had ended.
pub(super) fn one_at_a_time(up: &Upgraded) -> Option<Check> {
    let check = "each instance has ended before its target starts";
    let Some(first) = up.overlaps.as_ref()?.first() else {
        return Some(Check::new(check, Word::Pass, "one version at a time ran at each place"));
    };
    let both: Vec<String> = first.versions.iter().map(u32::to_string).collect();
    let request = up.entries.iter().find(|e| e.node == first.node && e.done_ms >= first.at_ms as f64);
    let request = request.map(|entry| format!("; the first request then: {}", sent(entry)));
    let found = format!(
        "versions {} ran at {} at the same time, first seen at {:.3} s{}",
        both.join(" and "),
        first.node,
        first.at_ms as f64 / 1e3,
        request.unwrap_or_default()
    );
    Some(Check::new(check, Word::Fail, found))
}

fn sent(entry: &Entry) -> String {
    words(entry).trim_end_matches(": ").to_owned()
}

/// What an instance kept.
struct Kept<'a> {
    memory: &'a Memory,
    requests: Vec<&'a Entry>,
}

impl Kept<'_> {
    fn grown(&self) -> f64 {
        self.memory.after as f64 - self.memory.before as f64
    }

    fn for_each_request(&self) -> f64 {
        self.grown() / self.requests.len() as f64
    }
}

/// Whether memory grows with the requests at the target and does not at the base.
pub(super) fn memory(check: &str, mixed: &Mixed) -> Option<Check> {
    let base = mixed.memory.iter().map(|memory| memory.version).min()?;
    if mixed.memory.iter().any(|memory| memory.before == 0 || memory.after == 0) {
        return None;
    }
    let requests = |node: &str| mixed.entries.iter().filter(|entry| entry.node == node).collect();
    let kept: Vec<Kept<'_>> =
        mixed.memory.iter().map(|memory| Kept { memory, requests: requests(&memory.node) }).collect();
    if let Some(few) = kept.iter().find(|kept| kept.requests.len() < ENOUGH) {
        let found = format!("{} requests to {}; {ENOUGH} are needed", few.requests.len(), few.memory.node);
        return Some(Check::new(check, Word::Inconclusive, found));
    }
    let (old, new): (Vec<_>, Vec<_>) = kept.iter().partition(|kept| kept.memory.version == base);
    let most = |all: &[&Kept<'_>]| all.iter().map(|kept| kept.for_each_request()).fold(f64::MIN, f64::max);
    let (allowed, most_of_new) = (most(&old).max(0.0) + KEPT, most(&new));
    let said = format!(
        "at most {:.1} KiB for each request at the base, {most_of_new:.1} KiB at the target",
        most(&old)
    );
    let leaks = |kept: &&&Kept<'_>| kept.for_each_request() > allowed && kept.grown() > ONCE;
    let Some(worst) = new.iter().find(leaks) else {
        return Some(Check::new(check, Word::Pass, said));
    };
    let Kept { memory, requests } = worst;
    let mebibytes = |kibibytes: u64| kibibytes as f64 / 1024.0;
    let found = format!(
        "{} at version {} grew from {:.0} to {:.0} MiB in {} requests; {said}; the first: {}",
        memory.node,
        memory.version,
        mebibytes(memory.before),
        mebibytes(memory.after),
        requests.len(),
        requests.first().map(|entry| sent(entry)).unwrap_or_default()
    );
    Some(Check::new(check, Word::Fail, found))
}
