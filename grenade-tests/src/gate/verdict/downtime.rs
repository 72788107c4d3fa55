//! Whether the tag zero-downtime is earned.

use std::fmt::Write;

use crate::gate::mixed::Health;
use crate::gate::upgrade::Upgraded;
use crate::gate::verdict::{Check, Evidence, On, Word, completed, last_named, not_sent, unfailed};
use crate::load::entry::Entry;

/// What was seen of requests and drains, check by check.
pub(super) fn zero_downtime(evidence: &Evidence<'_>) -> Vec<Check> {
    let up = evidence.upgraded;
    let (began, _) = up.span_ms;
    let (control, during): (Vec<Entry>, Vec<Entry>) =
        up.entries.iter().cloned().partition(|entry| entry.done_ms < began);
    let on = On { host: &up.host, bounds: &evidence.bounds };
    let mut checks: Vec<Check> = evidence.health.iter().map(followed).collect();
    let failed = control.iter().filter(|entry| entry.is_failed()).count();
    checks.push(by_itself(&control, failed));
    checks.extend(up.silence.map(|silence| steady(STEADY, silence)));
    let mut check = unfailed("no request fails while the service is upgraded", &during, on);
    if failed > 0
        && check.verdict == Word::Fail
        && !during.iter().any(|entry| entry.failure() == "wrong content")
    {
        check.verdict = Word::Inconclusive;
        check.found.push_str("; but the load fails by itself");
    }
    if let Some(named) = last_named(&during) {
        check.found.push_str(&around(up, named));
    }
    checks.push(within(up, check));
    checks.push(drained(up));
    let overloaded = up.host.overloaded(&evidence.bounds);
    checks.push(completed("every instance is upgraded while the load runs", up, overloaded.as_deref()));
    for (point, up) in evidence.rollbacks {
        let in_rollback = format!("{STEADY}, and while it is rolled back from {}", point.word());
        checks.extend(up.silence.map(|silence| steady(&in_rollback, silence)));
        let check = format!("no request fails in an upgrade that is rolled back from {}", point.word());
        let on = On { host: &up.host, bounds: &evidence.bounds };
        checks.push(within(up, unfailed(&check, &up.entries, on)));
    }
    checks
}

/// Adds how many requests came due while it was upgraded. Without one, those before and after show nothing of the upgrade.
fn within(up: &Upgraded, mut check: Check) -> Check {
    let (began, ended) = up.span_ms;
    let is_within = |entry: &&Entry| entry.is_sent() && entry.done_ms >= began && entry.scheduled_ms <= ended;
    let count = up.entries.iter().filter(is_within).count();
    // Writing to a string cannot fail.
    let _ = write!(
        check.found,
        "; {count} of them came due in the {:.1} s of the upgrade",
        (ended - began) / 1e3
    );
    if count == 0 && check.verdict == Word::Pass {
        check.verdict = Word::Inconclusive;
        check.found.push_str("; at least one is needed");
    }
    check
}

fn followed(health: &Health) -> Check {
    let Health { version, node, path, wrong } = health;
    let check = format!("the health check of version {version} follows the disable-file");
    let Some(wrong) = wrong else {
        return Check::new(&check, Word::Pass, format!("{node} at {path}: 200, 503 with it, 200"));
    };
    let advice = "leave out `service.health`, and each node's agent serves a health check that does";
    Check::new(&check, Word::Fail, format!("{node} at version {version}: {wrong} ({advice})"))
}

const STEADY: &str = "the load's command sends all the time while the service is upgraded";
/// The longest time without a request of the load's command, in milliseconds.
const LONGEST_SILENCE_MS: f64 = 1_000.0;

/// A command that waits for answers sends nothing while there are none, and so does not see what fails.
fn steady(check: &str, (from_ms, to_ms): (f64, f64)) -> Check {
    let (from, to, longest) = (from_ms / 1e3, to_ms / 1e3, LONGEST_SILENCE_MS / 1e3);
    match to_ms - from_ms > LONGEST_SILENCE_MS {
        true => {
            let found =
                format!("it sent nothing from {from:.1} s to {to:.1} s; at most {longest:.0} s is allowed");
            Check::new(check, Word::Inconclusive, found)
        }
        false => Check::new(check, Word::Pass, format!("at most {:.2} s without a request", to - from)),
    }
}

const CONTROL: &str = "the load does not fail by itself";

/// Whether the load was answered before the upgrade, where so many of its requests failed.
fn by_itself(control: &[Entry], failed: usize) -> Check {
    let (sent, not_sent) = (control.iter().filter(|entry| entry.is_sent()).count(), not_sent(control));
    let word = if sent > 0 && failed == 0 && not_sent.is_none() { Word::Pass } else { Word::Inconclusive };
    let found = match sent {
        0 => "no request was answered before the upgrade".to_owned(),
        sent => format!("{failed} of {sent} requests failed before anything was upgraded"),
    };
    Check::new(CONTROL, word, found + &not_sent.unwrap_or_default())
}

/// What was seen of the instance that gave a bad answer, right before it.
fn around(up: &Upgraded, entry: &Entry) -> String {
    let before = up.changes.iter().rfind(|c| c.node == entry.node && c.at_ms <= entry.done_ms);
    before.map_or_else(String::new, |change| {
        let version = change.version.map_or("no version".to_owned(), |version| format!("version {version}"));
        let rotation = if change.in_rotation { "in rotation" } else { "out of rotation" };
        format!(
            "; {} was seen at {version}, {rotation}, {:.1} s before",
            change.node,
            (entry.done_ms - change.at_ms) / 1e3
        )
    })
}

/// Whether every instance was seen to leave rotation before it was replaced.
fn drained(up: &Upgraded) -> Check {
    let check = "each instance leaves rotation before its version changes";
    let mut nodes: Vec<&str> = up.changes.iter().map(|change| change.node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut drains = 0;
    for node in &nodes {
        let (mut serving, mut out_since) = (None, false);
        for change in up.changes.iter().filter(|change| change.node == *node) {
            out_since |= !change.in_rotation;
            let Some(version) = change.version else { continue };
            if serving.is_some_and(|last| last != version) {
                if !out_since {
                    let found = format!("{node} answered as version {version} without having left rotation");
                    return Check::new(check, Word::Fail, found);
                }
                drains += 1;
            }
            if change.in_rotation {
                out_since = false;
            }
            serving = Some(version);
        }
    }
    match drains {
        0 => Check::new(check, Word::Inconclusive, "no instance was seen to change its version"),
        drains => Check::new(check, Word::Pass, format!("{drains} changes of {} instances", nodes.len())),
    }
}
