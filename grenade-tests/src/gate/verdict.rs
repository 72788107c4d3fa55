//! The judge. Pure: ledgers, what commands and health URLs answered, and bounds in; for each tag a verdict with its figures
//! out. Failures on a machine that could not keep up say nothing about the service, except where an answer was wrong.

mod check;
mod downtime;
pub(in crate::gate) mod impact;
pub mod orders;
mod processes;

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::gate::deaths::Death;
use crate::gate::drive::Ended;
use crate::gate::impact::Impact;
use crate::gate::mixed::{Health, Mixed};
use crate::gate::offline::Offline;
use crate::gate::orders::Ordered;
use crate::gate::survival::Survived;
use crate::gate::upgrade::Upgraded;
use crate::gate::written::{Arrangement, HostBounds, TurningPoint};
use crate::load::entry::Entry;
pub use check::{Check, TagVerdict, Word, worst};
use tidegate_proto::GateTag;
use tidegate_proto::printable::one_line;

/// Fewer reads across versions prove nothing, in each direction.
const ENOUGH_ACROSS: usize = 10;
/// Where none of n requests failed, at most 3/n of all do, with 95 % confidence (the rule of three).
const RULE_OF_THREE: f64 = 3.0;

/// All that was seen.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The health checks of both versions.
    pub health: &'a [Health],
    /// The frozen mixes.
    pub mixed: &'a [Mixed],
    /// The upgrade with the service down; absent: not tried.
    pub offline: Option<&'a Offline>,
    /// The services of the gate, upgraded in each order; none: there are no companions.
    pub orders: &'a [Ordered],
    /// The upgrades that were rolled back.
    pub rollbacks: &'a [(TurningPoint, Upgraded)],
    /// The upgrade.
    pub upgraded: &'a Upgraded,
    /// The two pools; absent: not tried.
    pub impact: Option<&'a Impact>,
    /// When the machine cannot tell.
    pub bounds: HostBounds,
}

/// Judges the tags.
pub fn judge(tags: &[GateTag], evidence: &Evidence<'_>) -> Vec<TagVerdict> {
    let judged = |tag: &GateTag| {
        let checks = match tag {
            GateTag::SupportsUpgrade => supports_upgrade(evidence),
            GateTag::Rolling => rolling(evidence),
            GateTag::ZeroDowntime => downtime::zero_downtime(evidence),
            GateTag::ZeroImpact => impact::zero_impact(evidence),
        };
        TagVerdict { tag: *tag, verdict: worst(checks.iter().map(|check| check.verdict)), checks }
    };
    tags.iter().map(judged).collect()
}

fn supports_upgrade(evidence: &Evidence<'_>) -> Vec<Check> {
    let up = evidence.upgraded;
    let mut checks = vec![Check::of("the upgrade completes, step by step as documented", completed(up))];
    if let Some(Offline { started, survival }) = evidence.offline {
        let started = started.clone().map(|()| "it became ready".to_owned());
        checks.push(Check::of("the target starts with the base's configuration", started));
        checks.extend(survival.iter().map(survived));
    }
    if let Some(left_out) = up.ended.left_out.first() {
        let found = format!("{} did not: {left_out}", up.ended.left_out.len());
        checks.push(Check::new("every event of the plan happens", Word::Inconclusive, found));
    }
    if let Some(certificate) = &up.certificate {
        let found = certificate.clone().map(|digest| format!("it verifies without the store: {digest}"));
        checks.push(Check::of("contract ran on a certificate that is true", found));
    }
    checks.extend(stored(WHAT_IS_STORED, up));
    checks.extend(up.survival.iter().map(survived));
    for (point, up) in evidence.rollbacks {
        let point = point.word();
        checks.push(Check::of(&format!("a rollback from {point} ends where it began"), back(up)));
        checks.extend(stored(&format!("what was stored is there after a rollback from {point}"), up));
    }
    checks
}

fn survived(Survived { stage, wrong }: &Survived) -> Check {
    let tried = wrong.clone().map_or_else(|| Ok("verified".to_owned()), Err);
    Check::of(&format!("the resources of the survival check: {stage}"), tried)
}

/// Whether every object of the load is as it was written; `None`: the load has none.
fn stored(check: &str, up: &Upgraded) -> Option<Check> {
    Some(objects(check, up.sweep.as_ref()?))
}

/// Whether the objects that were read again are as they were written.
fn objects(check: &str, (read, wrong): &(usize, Vec<String>)) -> Check {
    match (wrong.first(), read) {
        (Some(first), _) => {
            Check::new(check, Word::Fail, format!("{} of {read} objects: first: {first}", wrong.len()))
        }
        (None, 0) => Check::new(check, Word::Inconclusive, "the load left no object that a step reads"),
        (None, read) => Check::new(check, Word::Pass, format!("all of {read} objects are as they were left")),
    }
}

/// Whether an upgrade that was rolled back ended with every instance where it had been.
fn back(up: &Upgraded) -> Result<String, String> {
    let mut first = BTreeMap::new();
    for change in &up.changes {
        first.entry(change.node.as_str()).or_insert(change.version);
    }
    let Ended { word, because, .. } = &up.ended;
    if word != "rolled-back" {
        let because = because.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        return Err(format!("it ended {word}{because}"));
    }
    let last = last_seen(up);
    let elsewhere =
        last.iter().find(|(node, (version, serves))| !serves || first.get(*node) != Some(version));
    match elsewhere {
        Some((node, seen)) => Err(format!("{node} is left {}", standing(seen))),
        None => Ok(format!("all of {} instances are where they were", last.len())),
    }
}

const WHAT_IS_STORED: &str = "what was stored is there after the upgrade";

fn completed(up: &Upgraded) -> Result<String, String> {
    let Ended { word, because, phases, .. } = &up.ended;
    let phases: Vec<String> =
        phases.iter().map(|(phase, seconds)| format!("{phase} {seconds:.1} s")).collect();
    let because = because.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    if word != "completed" {
        let died = died(&up.deaths);
        return Err(format!("it ended {word}{because}; {}{died}", phases.join(", ")));
    }
    // What it says of itself is not enough.
    match last_seen(up).iter().find(|(_, (version, serves))| !serves || *version != Some(up.to)) {
        Some((node, seen)) => {
            let died = died(&up.deaths);
            Err(format!("it says that it completed, but {node} is left {}{died}", standing(seen)))
        }
        None => Ok(phases.join(", ")),
    }
}

/// The first process that ended unasked, with the last line of its log; empty: none did.
fn died(deaths: &[Death]) -> String {
    let Some(first) = deaths.first() else { return String::new() };
    let last = first.log.lines().last().map(|line| format!(", its last line: {}", one_line(line)));
    let more = match deaths.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("; {}{}{more}", first.words(), last.unwrap_or_default())
}

/// What was seen last of each node: its version, and whether it is in rotation.
fn last_seen(up: &Upgraded) -> BTreeMap<&str, (Option<u32>, bool)> {
    up.changes.iter().map(|change| (change.node.as_str(), (change.version, change.in_rotation))).collect()
}

fn standing((version, serves): &(Option<u32>, bool)) -> String {
    let version = version.map_or("at no version".to_owned(), |version| format!("at version {version}"));
    if *serves { version } else { format!("{version}, out of rotation") }
}

fn rolling(evidence: &Evidence<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    for mixed in evidence.mixed {
        let Arrangement { base, target } = mixed.arrangement;
        let name = format!("{base} at the base beside {target} at the target");
        let overloaded = mixed.host.overloaded(&evidence.bounds);
        let mut check = unfailed(&format!("{name}: every request"), &mixed.entries, overloaded);
        check.found.push_str(&by_version(&mixed.entries));
        check.found.push_str(&died(&mixed.deaths));
        checks.push(check);
        if !mixed.beside.is_empty() {
            checks.push(unfailed(
                &format!("{name}: every request to a companion"),
                &mixed.beside,
                mixed.host.overloaded(&evidence.bounds),
            ));
        }
        checks.push(across(&format!("{name}: each reads what the other wrote"), &mixed.entries));
        checks.extend(processes::memory(
            &format!("{name}: the target keeps no memory for each request"),
            mixed,
        ));
    }
    let up = evidence.upgraded;
    checks.push(Check::of("every instance is upgraded while the others serve", completed(up)));
    checks.extend(processes::one_at_a_time(up));
    checks.extend(orders::in_each_order(evidence.orders, &evidence.bounds));
    checks
}

/// How many each version answered: a fault of one is seen among its own only.
fn by_version(entries: &[Entry]) -> String {
    let mut counts = BTreeMap::<u32, (usize, usize)>::new();
    for entry in entries {
        let count = counts.entry(entry.version.unwrap_or_default()).or_default();
        count.0 += 1;
        count.1 += usize::from(!entry.is_ok());
    }
    let each = |(version, (all, failed)): (&u32, &(usize, usize))| match failed {
        0 => format!("; version {version}: 0 of {all}, at most {:.2} %", RULE_OF_THREE / *all as f64 * 100.0),
        failed => format!("; version {version}: {failed} of {all}"),
    };
    counts.iter().map(each).collect()
}

/// Reads through one version of what another wrote, both ways.
fn across(check: &str, entries: &[Entry]) -> Check {
    let mut versions: Vec<u32> = entries.iter().filter_map(|entry| entry.version).collect();
    versions.sort_unstable();
    versions.dedup();
    let read = |through: u32, written: u32| {
        let is = |e: &&Entry| e.version == Some(through) && e.written_by == Some(written);
        let (good, bad): (Vec<&Entry>, Vec<&Entry>) = entries.iter().filter(is).partition(|e| e.is_ok());
        (through, written, good.len(), bad)
    };
    let pairs = versions.iter().flat_map(|a| versions.iter().filter(move |b| a != *b).map(move |b| (*a, *b)));
    let pairs: Vec<_> = pairs.map(|(through, written)| read(through, written)).collect();
    let mut found = String::new();
    for (through, written, good, bad) in &pairs {
        // Writing to a string cannot fail.
        let _ = write!(found, "{good} good reads through version {through} of what version {written} wrote");
        if let Some(first) = bad.first() {
            let _ = write!(found, ", {} failed, first: {}", bad.len(), words(first));
        }
        found.push_str("; ");
    }
    let found = found.trim_end_matches("; ").to_owned();
    if pairs.iter().any(|(.., bad)| bad.iter().any(|entry| is_wrong(entry))) {
        return Check::new(check, Word::Fail, found);
    }
    if pairs.iter().any(|(_, _, good, bad)| *good == 0 && bad.len() >= ENOUGH_ACROSS) {
        return Check::new(check, Word::Fail, format!("no read of them succeeds: {found}"));
    }
    if pairs.iter().any(|(.., bad)| !bad.is_empty()) {
        let which =
            "reads failed in ways that a busy machine explains too; a wrong answer would be a failure";
        return Check::new(check, Word::Inconclusive, format!("{which}: {found}"));
    }
    if pairs.len() < 2 || pairs.iter().any(|(_, _, good, _)| *good < ENOUGH_ACROSS) {
        let few = format!(
            "fewer than {ENOUGH_ACROSS} in one direction; let the mix run longer (`load.mixed`) or at a higher `load.rate`"
        );
        return Check::new(check, Word::Inconclusive, format!("{few}: {found}"));
    }
    Check::new(check, Word::Pass, found)
}

/// Whether all requests were answered as they should be.
fn unfailed(check: &str, entries: &[Entry], overloaded: Option<String>) -> Check {
    let failed: Vec<&Entry> = entries.iter().filter(|entry| !entry.is_ok()).collect();
    let all = entries.len();
    let Some(first) = failed.iter().min_by(|a, b| a.scheduled_ms.total_cmp(&b.scheduled_ms)) else {
        return match all {
            0 => Check::new(check, Word::Inconclusive, "no request was sent"),
            all => {
                let bound = RULE_OF_THREE / all as f64 * 100.0;
                let found = format!("0 of {all} failed (at most {bound:.3} % do, with 95 % confidence)");
                Check::new(check, Word::Pass, found)
            }
        };
    };
    let mut found = format!("{} of {all} failed; first: {}", failed.len(), words(first));
    match overloaded {
        Some(why) if !failed.iter().any(|entry| is_wrong(entry)) => {
            let _ = write!(found, "; but {why}");
            Check::new(check, Word::Inconclusive, found)
        }
        _ => Check::new(check, Word::Fail, found),
    }
}

/// Statuses by which an instance says that it cannot keep up.
const BUSY: [u16; 3] = [429, 503, 504];

/// A wrong answer of a known instance is not caused by load.
fn is_wrong(entry: &Entry) -> bool {
    let refused = entry.status.is_some_and(|status| !BUSY.contains(&status));
    entry.failure() == "wrong content" || (refused && !entry.node.is_empty())
}

/// A request in words: what, when, who answered, what was wrong.
pub fn words(entry: &Entry) -> String {
    let version =
        entry.version.map_or("an unknown version".to_owned(), |version| format!("version {version}"));
    let by = match entry.node.as_str() {
        "" => "no instance".to_owned(),
        node => format!("{node} at {version}"),
    };
    let written =
        entry.written_by.map(|version| format!(", written by version {version}")).unwrap_or_default();
    format!(
        "{} {} at {:.3} s, {by}{written}: {}",
        entry.kind,
        entry.seq,
        entry.scheduled_ms / 1e3,
        entry.reason
    )
}

#[cfg(test)]
mod tests;
