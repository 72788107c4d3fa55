//! What must be so in the instant in which an upgrade passes a version gate or ends, seen from outside.

use super::judge::{Facts, OLD};
use super::misled::lasted_until;
use super::names::Names;
use super::slot::{At, Running, Slot};
use std::collections::BTreeMap;
use tidegate_proto::record::upgrade::{MigrateOrder, PhaseName, Upgrade};

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
            facts.services[service].schema_goes_to(phase, needs, facts.silent.counted());
        }
    }
    let fills_late = upgrade.schema.as_ref().is_some_and(|schema| schema.order == MigrateOrder::AfterRoll);
    let gated = match phase {
        PhaseName::Contract => bound(upgrade, names),
        // The floor is raised as the roll is left.
        PhaseName::Migrate if !fills_late => Vec::new(),
        PhaseName::Migrate | PhaseName::Remove | PhaseName::Completed => {
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
        if phase != PhaseName::Completed {
            nothing_old_runs(facts, slots, names, (service, needs), (phase, now));
        }
    }
    // Remove is entered also beside an instance that has failed within the budget.
    if let (PhaseName::Completed, Some(own)) = (phase, own) {
        let (tag, ms) = (upgrade.spec.release.tag.as_str(), upgrade.spec.health.min_healthy_time.as_millis());
        none_flaps(facts, slots, names, (own, tag, ms), now);
    }
    match (phase, own) {
        (PhaseName::Completed, Some(own)) => {
            all_serve(facts, slots, names, (own, upgrade.spec.to.get()), (12, now));
        }
        (PhaseName::RolledBack, Some(own)) => {
            all_serve(facts, slots, names, (own, upgrade.spec.from.get()), (10, now));
        }
        _ => {}
    }
}

/// Nothing old runs when contract begins, nor can what runs be older than what was said. As the roll is left, nothing
/// old runs of what counts.
fn nothing_old_runs(
    facts: &mut Facts,
    slots: &BTreeMap<At, Slot>,
    names: &Names,
    (service, needs): (usize, u32),
    (phase, now): (PhaseName, u64),
) {
    for (at, slot) in slots.iter().filter(|((of, _), _)| *of == service) {
        let counts = phase == PhaseName::Contract || facts.silent.counts(*at);
        if facts.is_unknown(*at, slot) || !counts {
            continue;
        }
        // What a person put back a moment ago may not be known yet.
        let is_known = |run: &&Running| !run.put_back || run.since + OLD < now;
        let old = slot.alive(now).filter(|run| run.is.version < needs).filter(is_known);
        let Some(run) = old else { continue };
        let name = names.instance(*at);
        facts.breach(now, 1, format!("{phase:?} began while {name} ran version {}", run.is.version));
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
        if facts.is_unknown(*at, slot) || !facts.silent.counts(*at) {
            continue;
        }
        if rule == 10 && slot.alive(now).is_some_and(|run| run.is_put_back_below(version)) {
            continue;
        }
        let name = names.instance(*at);
        let is_taken_for_it = facts.is_taken_for(*at, slot, version);
        let other = slot.alive(now).filter(|run| run.is.version != version && run.since < then);
        if let Some(run) = other.filter(|_| !is_taken_for_it) {
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

/// No instance runs the new release where that is never healthy for as long as the upgrade asks for: none of it can have been
/// verified. Not judged are instances that came with it, and those whose agent lost its journal or was stopped since the release
/// began to run there, and so may have seen no break.
fn none_flaps(
    facts: &mut Facts,
    slots: &BTreeMap<At, Slot>,
    names: &Names,
    (service, tag, ms): (usize, &str, u64),
    now: u64,
) {
    let came_with_it = |slot: &Slot| slot.came_with.as_deref() == Some(tag);
    for (at, slot) in slots.iter().filter(|((of, _), slot)| *of == service && !came_with_it(slot)) {
        let blind = [&facts.journals_lost, &facts.agents_stalled];
        let is_unseen = blind.iter().any(|ended| lasted_until(ended, at.1, slot.release_since));
        if is_unseen || facts.is_unknown(*at, slot) || !facts.silent.counts(*at) {
            continue;
        }
        if slot.alive(now).is_some_and(|run| run.tag == tag && run.is.is_never_healthy_for(ms)) {
            let name = names.instance(*at);
            let text = format!("{name} counts as verified at {tag}, which is never healthy for {ms} ms");
            facts.breach(now, 12, text);
        }
    }
}

/// No drain of a roll is ordered on an old look at the database: it had lacked the new form for a while when the wave began.
/// Whether that is to be looked at: the form may have come since the judge looked last. A paused upgrade orders no drain, and
/// its database is looked at once it goes on: a person retries the instance.
pub(super) fn drains(facts: &mut Facts, names: &Names, at: At, id: &str, now: u64) -> bool {
    let rolls = facts.phases.get(id).is_some_and(|(phase, _)| *phase == PhaseName::Roll);
    let is_roll = rolls && !facts.paused.contains_key(id);
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

#[cfg(test)]
mod tests {
    use super::super::judge::ServiceFacts;
    use super::super::slot::{Behaviour, Running};
    use super::*;
    use crate::simulate::misled::SETTLED;
    use serde_json::json;
    use tidegate_proto::record::upgrade::{Phase, RollbackStep};

    const AT: At = (0, 0);

    fn names() -> Names {
        Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] }
    }

    fn runs(is: Behaviour) -> Slot {
        let running = Running { tag: "pantry-2".to_owned(), is, since: 0, pid: 1, put_back: false };
        Slot { running: Some(running), ..Slot::default() }
    }

    #[test]
    fn drain_that_a_person_retries_in_a_pause_is_of_no_wave() {
        let is_on_an_old_look = |is_paused: bool| {
            let service = ServiceFacts { lacks_since: Some(0), ..ServiceFacts::default() };
            let mut facts = Facts { services: vec![service], ..Facts::default() };
            facts.enters("u0", PhaseName::Roll, 1_000);
            facts.waves.insert("u0".to_owned(), (0, 1_000));
            if is_paused {
                facts.paused.insert("u0".to_owned(), 20_000);
            }
            let is_old = drains(&mut facts, &names(), AT, "u0", OLD + LOOK_HOLDS + 1);
            assert_eq!(facts.services[AT.0].drained_on_lack.len(), usize::from(is_old));
            is_old
        };
        assert!(is_on_an_old_look(false) && !is_on_an_old_look(true));
    }

    /// The rules that are broken where an upgrade to this release ends that asks for so many milliseconds.
    fn broken(slot: Slot, ms: u64, stalled_until: Option<u64>) -> Vec<u8> {
        let mut facts = Facts::default();
        facts.silent.admitted(AT, 0);
        facts.agents_stalled.extend(stalled_until.map(|until| (AT.1, until)));
        let slots = BTreeMap::from([(AT, slot)]);
        none_flaps(&mut facts, &slots, &names(), (0, "pantry-2", ms), 90_000);
        facts.breaches.iter().map(|breach| breach.rule).collect()
    }

    /// What the judge knows once the upgrade of the pantry's schema to version 2 has entered these phases.
    fn after(phases: &[Phase]) -> Facts {
        let digest = "0".repeat(64);
        let spec = json!({
            "service": "pantry", "from": 1, "to": 2, "release": {"tag": "pantry-2", "sha256": digest},
            "schema": {"database": {"from_env": "DB"}, "migrations": "pantry"},
        });
        let schema = json!({
            "id": "s1", "migrations": digest, "order": "before-roll", "old_reads_migrated": true,
        });
        let mut facts = Facts { services: vec![ServiceFacts::default()], ..Facts::default() };
        for phase in phases {
            let upgrade = json!({
                "spec": spec, "digest": digest, "by": "op", "at": 1, "phase": phase, "schema_change": schema,
            });
            let upgrade: Upgrade = serde_json::from_value(upgrade).unwrap();
            judge(&mut facts, &BTreeMap::new(), &names(), &upgrade, 60_000);
        }
        facts
    }

    /// The phases of a rollback that begins in this one.
    fn rolled_back(from: PhaseName) -> [Phase; 2] {
        let because = || "a person asked".to_owned();
        let over = match from {
            PhaseName::Preflight => Phase::Failed { because: because() },
            _ => Phase::RolledBack { because: because() },
        };
        [Phase::RollingBack { from, step: RollbackStep::Undo, because: because() }, over]
    }

    /// The store was restored to preflight after the upgrade had expanded the schema. An instance of version 2 that no store has
    /// admitted is in rotation, or another one comes in later.
    #[test]
    fn undo_from_preflight_is_judged_as_that_of_a_rollback() {
        for from in [PhaseName::Preflight, PhaseName::Roll] {
            let mut facts = after(&rolled_back(from));
            assert!(facts.is_late(AT, 2, 60_000) && !facts.is_late(AT, 1, 60_000), "from {from}");
            facts.silent.admitted(AT, 60_000);
            assert!(!facts.is_late(AT, 2, 60_000), "it has not come in since the end");
            facts.came_in(60_000, AT, (2, None), "pantry/n00");
            assert!(facts.is_late(AT, 2, 60_000), "from {from}");
        }
    }

    /// People start the upgrade again while the agent of that instance is still cut off.
    #[test]
    fn undone_form_is_missing_until_it_is_filled_again() {
        let is_late = |again: &[Phase]| {
            let phases = [&rolled_back(PhaseName::Roll)[..], again].concat();
            after(&phases).is_late(AT, 2, 60_000)
        };
        let again = [Phase::Preflight, Phase::Stage, Phase::Expand, Phase::Migrate];
        assert!((0..=again.len()).all(|reached| is_late(&again[..reached])));
        for before in [&again[..3], &again[..]] {
            let again = [before, &[Phase::Roll { wave: 0 }]].concat();
            assert!(!is_late(&again), "{again:?}");
        }
        assert!(!after(&again).is_late(AT, 2, 60_000), "nothing was undone");
    }

    #[test]
    fn rollback_need_not_move_what_was_put_back_below_it() {
        let judged = |put_back: bool, version: u32| {
            let mut facts = Facts::default();
            facts.silent.admitted(AT, 0);
            let mut slot = runs(Behaviour::good(version, 600));
            slot.running.iter_mut().for_each(|run| run.put_back = put_back);
            all_serve(&mut facts, &BTreeMap::from([(AT, slot)]), &names(), (0, 2), (10, 60_000));
            facts.breaches.len()
        };
        assert_eq!(judged(true, 1), 0);
        assert_eq!(judged(false, 1), 1, "an order started it");
        assert_eq!(judged(true, 3), 1, "the rollback moves it");
    }

    #[test]
    fn rollback_may_end_beside_what_is_taken_for_the_former_version() {
        let judged = |says: Option<u32>, journal_lost_until: u64| {
            let mut facts = Facts::default();
            facts.silent.admitted(AT, 0);
            facts.journals_lost.insert(AT.1, journal_lost_until);
            let slot = Slot { release_since: 70_000, ..runs(Behaviour { says, ..Behaviour::good(2, 600) }) };
            all_serve(&mut facts, &BTreeMap::from([(AT, slot)]), &names(), (0, 1), (10, 90_000));
            facts.breaches.len()
        };
        assert_eq!(judged(Some(1), 70_000 - SETTLED), 0, "its journal was lost as it started");
        assert_eq!(judged(Some(1), 70_000 - SETTLED - 1), 1, "its agent has seen it start");
        assert_eq!(judged(None, 70_000), 1, "it says what it is");
    }

    #[test]
    fn release_whose_health_flaps_is_not_verified() {
        let flaps = || runs(Behaviour { health_flaps: Some(4_000), ..Behaviour::good(2, 600) });
        assert_eq!(broken(flaps(), 4_000, None), [12]);
        assert_eq!(broken(flaps(), 3_999, None), Vec::<u8>::new(), "it may have been healthy for so long");
        assert_eq!(broken(runs(Behaviour::good(2, 600)), 4_000, None), Vec::<u8>::new());
        let joined = |tag: &str| Slot { came_with: Some(tag.to_owned()), ..flaps() };
        assert_eq!(broken(joined("pantry-2"), 4_000, None), Vec::<u8>::new(), "no order started it");
        assert_eq!(broken(joined("pantry-1"), 4_000, None), [12], "an order started it");
    }

    #[test]
    fn agent_stopped_long_before_a_release_sees_its_breaks() {
        let broken_by = |stalled_until| {
            let is = Behaviour { health_flaps: Some(4_000), ..Behaviour::good(2, 600) };
            broken(Slot { release_since: 70_000, ..runs(is) }, 4_000, Some(stalled_until))
        };
        assert_eq!(broken_by(70_000 - SETTLED - 1), [12]);
        assert_eq!(broken_by(70_000 - SETTLED), Vec::<u8>::new(), "a hook may have been under way");
        assert_eq!(broken_by(u64::MAX), Vec::<u8>::new(), "it is stopped");
    }
}
