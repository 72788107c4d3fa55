//! Whether requests were answered as they should be.

use std::fmt::Write;

use crate::gate::host::HostSeen;
use crate::gate::verdict::{Check, Word};
use crate::gate::written::HostBounds;
use crate::load::entry::Entry;
use crate::load::outcome::BUSY;

/// Where none of n requests failed, at most 3/n of all do, with 95 % confidence (the rule of three).
pub(super) const RULE_OF_THREE: f64 = 3.0;

/// The machine that requests were sent on, and its bounds.
#[derive(Debug, Clone, Copy)]
pub(in crate::gate) struct On<'a> {
    /// What was seen of it.
    pub host: &'a HostSeen,
    /// Beyond which it is inconclusive.
    pub bounds: &'a HostBounds,
}

/// Whether all requests were answered as they should be. A generator that was late has not sent the load that the gate file
/// asks for, so that nothing is known even where no request failed.
pub(super) fn unfailed(check: &str, entries: &[Entry], on: On<'_>) -> Check {
    let sent = entries.iter().filter(|entry| entry.is_sent()).count();
    let failed: Vec<&Entry> = entries.iter().filter(|entry| entry.is_failed()).collect();
    let not_sent = not_sent(entries);
    let mut found = match first(failed.iter().copied()) {
        None if sent == 0 => "no request was sent".to_owned(),
        None => {
            let bound = RULE_OF_THREE / sent as f64 * 100.0;
            format!("0 of {sent} failed (at most {bound:.3} % do, with 95 % confidence)")
        }
        Some(first) => {
            let wrong = first_wrong_after(first, &failed).unwrap_or_default();
            format!("{} of {sent} failed; first: {}{wrong}", failed.len(), words(first))
        }
    };
    let late = on.host.late(on.bounds);
    let verdict = match (failed.as_slice(), on.host.overloaded(on.bounds)) {
        ([], _) if sent == 0 || late.is_some() || not_sent.is_some() => Word::Inconclusive,
        ([], _) => Word::Pass,
        (failed, Some(_)) if !failed.iter().any(|entry| is_wrong(entry)) => Word::Inconclusive,
        _ => Word::Fail,
    };
    found.push_str(&not_sent.unwrap_or_default());
    let why = if failed.is_empty() { late } else { on.host.overloaded(on.bounds) };
    if let Some(why) = why.filter(|_| verdict == Word::Inconclusive) {
        // Writing to a string cannot fail.
        let _ = write!(found, "; but {why}");
    }
    Check::new(check, verdict, found)
}

/// The request of these that was due first.
fn first<'a>(failed: impl IntoIterator<Item = &'a Entry>) -> Option<&'a Entry> {
    failed.into_iter().min_by(|a, b| a.scheduled_ms.total_cmp(&b.scheduled_ms))
}

/// The first answer that load does not cause, where the first failure is one that load may cause: it is what to look into.
fn first_wrong_after(named: &Entry, failed: &[&Entry]) -> Option<String> {
    let wrong: Vec<&Entry> = failed.iter().copied().filter(|entry| is_wrong(entry)).collect();
    let first = first(wrong.iter().copied()).filter(|_| !is_wrong(named))?;
    Some(format!("; first wrong answer of {}: {}", wrong.len(), words(first)))
}

/// The failed request that [`unfailed`] names last.
pub(super) fn last_named(entries: &[Entry]) -> Option<&Entry> {
    let failed = || entries.iter().filter(|entry| entry.is_failed());
    first(failed().filter(|entry| is_wrong(entry))).or_else(|| first(failed()))
}

/// How many requests the generator itself did not send, to be put after what was found; `None`: it sent all.
pub fn not_sent<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Option<String> {
    match entries.into_iter().filter(|entry| !entry.is_sent()).count() {
        0 => None,
        1 => Some("; 1 request was not sent in time by the generator".to_owned()),
        some => Some(format!("; {some} requests were not sent in time by the generator")),
    }
}

/// A wrong answer of a known instance is not caused by load.
pub(super) fn is_wrong(entry: &Entry) -> bool {
    let refused = entry.status.is_some_and(|status| !BUSY.contains(&status));
    entry.failure() == "wrong content" || (refused && !entry.node.is_empty())
}

/// A request in words: what, when, who answered, what was wrong.
pub fn words(entry: &Entry) -> String {
    let version =
        entry.version.map_or("an unknown version".to_owned(), |version| format!("version {version}"));
    let by = match entry.node.as_str() {
        "" => "the instance is not known".to_owned(),
        node => format!("{node} at {version}"),
    };
    let written =
        entry.written_by.map(|version| format!(", written by version {version}")).unwrap_or_default();
    format!(
        "{} {} at {:.3} s, {by}{written}: {}",
        entry.kind,
        entry.seq,
        entry.scheduled_ms / 1e3,
        // A kind without a detail.
        entry.reason.trim_end_matches(": ")
    )
}
