//! The judge. Pure: ledgers, what commands and health URLs answered, and bounds in; for each tag a verdict with its figures
//! out. Failures on a machine that could not keep up say nothing about the service, except where an answer was wrong, a
//! process ended, or an instance is left at another version.

mod check;
mod documented;
mod downtime;
mod ended;
pub(in crate::gate) mod impact;
pub mod orders;
mod processes;
mod requests;

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::gate::file::documented::Documented;
use crate::gate::impact::Impact;
use crate::gate::mixed::{Health, Mixed};
use crate::gate::offline::Offline;
use crate::gate::orders::Ordered;
use crate::gate::upgrade::Upgraded;
use crate::gate::written::{Arrangement, HostBounds, TurningPoint};
use crate::load::entry::Entry;
pub use check::{Check, TagVerdict, Word, worst};
use ended::{back, completed, died, excused, objects, stored, survived};
pub(in crate::gate) use requests::On;
use requests::{RULE_OF_THREE, is_wrong, last_named, unfailed};
pub use requests::{not_sent, words};
use tidegate_proto::GateTag;

/// Fewer reads across versions prove nothing, in each direction.
const ENOUGH_ACROSS: usize = 10;

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
    /// The commands that the documentation of the upgrade has; absent: the gate file does not say.
    pub documented: Option<&'a Documented>,
    /// The two pools; absent: not tried.
    pub impact: Option<&'a Impact>,
    /// When the machine is too slow for a verdict.
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
    let overloaded = up.host.overloaded(&evidence.bounds);
    let overloaded = overloaded.as_deref();
    let mut checks = vec![completed("the upgrade completes", up, overloaded)];
    checks.extend(
        evidence
            .documented
            .map(|documented| documented::as_documented(documented, &up.steps, up.ended.word == "completed")),
    );
    if let Some(Offline { started, survival, host }) = evidence.offline {
        let overloaded = host.overloaded(&evidence.bounds);
        let started = started.clone().map(|()| "it became ready".to_owned());
        checks.push(excused(
            "the target starts with the base's configuration",
            started,
            overloaded.as_deref(),
        ));
        checks.extend(survival.iter().map(|one| survived(one, overloaded.as_deref())));
    }
    if let Some(left_out) = up.ended.left_out.first() {
        let found = format!("{} did not: {left_out}", up.ended.left_out.len());
        checks.push(Check::new("every event of the plan happens", Word::Inconclusive, found));
    }
    if let Some(certificate) = &up.certificate {
        let found = certificate.clone().map(|digest| format!("it verifies without the store: {digest}"));
        checks.push(Check::of("contract ran on a certificate that is true", found));
    }
    checks.extend(stored("what was stored is there after the upgrade", up, overloaded));
    checks.extend(up.survival.iter().map(|one| survived(one, overloaded)));
    for (point, up) in evidence.rollbacks {
        let (point, overloaded) = (point.word(), up.host.overloaded(&evidence.bounds));
        let overloaded = overloaded.as_deref();
        checks.push(back(&format!("a rollback from {point} ends where it began"), up, overloaded));
        let stored_then = format!("what was stored is there after a rollback from {point}");
        checks.extend(stored(&stored_then, up, overloaded));
    }
    checks
}

fn rolling(evidence: &Evidence<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    for mixed in evidence.mixed {
        let Arrangement { base, target } = mixed.arrangement;
        let name = format!("{base} at the base beside {target} at the target");
        let on = On { host: &mixed.host, bounds: &evidence.bounds };
        let mut check = unfailed(&format!("{name}: every request"), &mixed.entries, on);
        check.found.push_str(&by_version(&mixed.entries));
        check.found.push_str(&died(&mixed.deaths));
        checks.push(check);
        if !mixed.beside.is_empty() {
            checks.push(unfailed(&format!("{name}: every request to a companion"), &mixed.beside, on));
        }
        checks.push(across(&format!("{name}: each reads what the other wrote"), &mixed.entries));
        checks.extend(processes::memory(
            &format!("{name}: the target keeps no memory for each request"),
            mixed,
        ));
    }
    let up = evidence.upgraded;
    let overloaded = up.host.overloaded(&evidence.bounds);
    checks.push(completed("every instance is upgraded while the others serve", up, overloaded.as_deref()));
    checks.extend(processes::one_at_a_time(up));
    checks.extend(orders::in_each_order(evidence.orders, &evidence.bounds));
    checks
}

/// How many each version answered: a fault of one is seen among its own only.
fn by_version(entries: &[Entry]) -> String {
    let mut counts = BTreeMap::<u32, (usize, usize)>::new();
    for entry in entries.iter().filter(|entry| entry.is_sent()) {
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
    let entries: Vec<&Entry> = entries.iter().filter(|entry| entry.is_sent()).collect();
    let mut versions: Vec<u32> = entries.iter().filter_map(|entry| entry.version).collect();
    versions.sort_unstable();
    versions.dedup();
    let read = |through: u32, written: u32| {
        let is = |e: &&Entry| e.version == Some(through) && e.written_by == Some(written);
        let (good, bad): (Vec<&Entry>, Vec<&Entry>) =
            entries.iter().copied().filter(is).partition(|e| e.is_ok());
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

#[cfg(test)]
mod tests;
