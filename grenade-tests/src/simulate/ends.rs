//! What must be so in the instant in which an upgrade passes a version gate or ends, seen from outside.

use super::judge::{Facts, OLD};
use super::names::Names;
use super::slot::{At, Running, Slot};
use std::collections::BTreeMap;
use tidegate_proto::record::upgrade::{PhaseName, Upgrade};

/// The services that a contract binds, each with the version that it needs.
fn bound(upgrade: &Upgrade, names: &Names) -> Vec<(usize, u32)> {
    let shared = upgrade.spec.schema.iter().flat_map(|schema| &schema.shared_with);
    let all = std::iter::once((&upgrade.spec.service, &upgrade.spec.to)).chain(shared);
    all.filter_map(|(service, needs)| Some((names.service(service.as_str())?, needs.get()))).collect()
}

/// Judges the phase that an upgrade entered.
pub(super) fn judge(
    facts: &mut Facts,
    slots: &BTreeMap<At, Slot>,
    names: &Names,
    upgrade: &Upgrade,
    now: u64,
) {
    let phase = upgrade.phase.name();
    let own = names.service(upgrade.spec.service.as_str());
    if upgrade.schema.is_some() {
        for (service, needs) in bound(upgrade, names) {
            facts.services[service].undoing = match phase {
                PhaseName::RollingBack => Some((needs, false)),
                PhaseName::RolledBack => Some((needs, true)),
                _ => None,
            };
        }
    }
    let gated = match phase {
        PhaseName::Contract => bound(upgrade, names),
        PhaseName::Remove | PhaseName::Completed => {
            own.into_iter().map(|own| (own, upgrade.spec.to.get())).collect()
        }
        _ => Vec::new(),
    };
    // While a certificate is made, a report may lapse that it has seen: a return needs an admission.
    let known = if phase == PhaseName::Contract { OLD } else { facts.known_after(now) };
    for (service, needs) in gated {
        for (at, rule) in facts.silent.silent_since(service, now.saturating_sub(known)) {
            let name = names.instance(at);
            facts.breach(now, rule, format!("{phase:?} began while nothing was known of {name}"));
        }
        if phase == PhaseName::Contract {
            nothing_old_runs(facts, slots, names, (service, needs), now);
        }
    }
    match (phase, own) {
        (PhaseName::Completed, Some(own)) => {
            all_serve(facts, slots, names, (own, upgrade.spec.to.get()), (12, now));
        }
        (PhaseName::RolledBack, Some(own)) => {
            if upgrade.schema.is_some() {
                for (service, needs) in bound(upgrade, names) {
                    facts.services[service].undone = Some((needs, facts.silent.admissions()));
                }
            }
            all_serve(facts, slots, names, (own, upgrade.spec.from.get()), (10, now));
        }
        _ => {}
    }
}

/// Nothing old runs when contract begins, nor can what runs be older than what was said.
fn nothing_old_runs(
    facts: &mut Facts,
    slots: &BTreeMap<At, Slot>,
    names: &Names,
    (service, needs): (usize, u32),
    now: u64,
) {
    for (at, slot) in slots.iter().filter(|((of, _), _)| *of == service) {
        if facts.byzantine.contains(&at.1) {
            continue;
        }
        // What a person put back a moment ago may not be known yet.
        let is_known = |run: &&Running| !run.put_back || run.since + OLD < now;
        let old = slot.alive(now).filter(|run| run.is.version < needs).filter(is_known);
        let Some(run) = old else { continue };
        let name = names.instance(*at);
        facts.breach(now, 1, format!("contract began while {name} ran version {}", run.is.version));
    }
}

/// Every instance that counts runs the version and is in rotation; what changed a moment ago may not be known yet.
fn all_serve(
    facts: &mut Facts,
    slots: &BTreeMap<At, Slot>,
    names: &Names,
    (service, version): (usize, u32),
    (rule, now): (u8, u64),
) {
    let then = now.saturating_sub(OLD);
    for (at, slot) in slots.iter().filter(|((of, _), _)| *of == service) {
        if facts.byzantine.contains(&at.1) || !facts.silent.counts(*at) {
            continue;
        }
        // A rollback from preflight moves nothing, and below `from` only a person has put something.
        let is_older = |run: &Running| run.put_back && run.is.version < version;
        if rule == 10 && slot.alive(now).is_some_and(is_older) {
            continue;
        }
        let name = names.instance(*at);
        let other = slot.alive(now).filter(|run| run.is.version != version && run.since < then);
        if let Some(run) = other {
            facts.breach(
                now,
                rule,
                format!("the upgrade ended at version {version}, and {name} runs {}", run.tag),
            );
        }
        if let Some((since, cause)) = slot.out.as_ref().filter(|(since, _)| *since < then) {
            let text = format!("the upgrade ended, and {name} is out since {since}: {cause:?}");
            facts.breach(now, rule, text);
        }
    }
}

/// No drain of a roll is ordered on an old look at the database: it had lacked the new form for a while when the wave began.
/// Whether that is to be looked at: the form may have come since the judge looked last.
pub(super) fn drains(facts: &mut Facts, names: &Names, at: At, id: &str, now: u64) -> bool {
    let is_roll = facts.phases.get(id).is_some_and(|(phase, _)| *phase == PhaseName::Roll);
    let (Some(since), Some((_, began))) = (facts.services[at.0].lacks_since, facts.waves.get(id)) else {
        return false;
    };
    let is_old = since + OLD < *began || since + LOOK_HOLDS + OLD < now;
    if is_roll && is_old {
        let text = format!(
            "{} was drained for {id}, whose database lacks the new form since {since}",
            names.instance(at)
        );
        facts.services[at.0].drained_on_lack.push((now, text));
    }
    is_roll && is_old
}

/// How long a look at the database holds in a roll, in milliseconds.
const LOOK_HOLDS: u64 = 60_000;
