//! Failures are written down before anything follows from them: who failed is left alone until a person retries it, so
//! that nobody is taken out and let back in without an end.

use super::super::Draft;
use super::faults;
use super::walk::UnderWay;
use crate::fleet::{Instance, Known, ServiceFleet};
use crate::reason::{Reason, Sample};
use crate::upgrade::way_back;
use tidegate_proto::commit::Commit;
use tidegate_proto::record::upgrade::{Failure, Pause, Upgrade};
use tidegate_proto::spec::Then;
use tidegate_proto::{NodeId, ServiceVersion};

/// On which way an instance failed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Failed {
    /// In this wave.
    In(u32),
    /// On the way back.
    Returning,
}

/// Whether it failed on the way back, and nobody has retried it since.
pub(super) fn has_failed_returning(upgrade: &Upgrade, instance: &Instance) -> bool {
    upgrade.failed.get(&instance.node).is_some_and(|failure| failure.returning)
}

/// Writes down failures that are not yet written down; tells whether there were any.
pub(super) fn record(draft: &mut Draft<'_>, under_way: &UnderWay<'_>, on: Failed) -> bool {
    let upgrade = draft.upgrade;
    let is_known = |instance: &Instance| match on {
        Failed::In(_) => upgrade.failed.contains_key(&instance.node),
        Failed::Returning => has_failed_returning(upgrade, instance),
    };
    let fresh: Vec<_> =
        under_way.failed.iter().filter(|(instance, _)| !is_known(instance)).cloned().collect();
    if fresh.is_empty() {
        return false;
    }
    if let (Failed::In(_), Some(service)) = (on, draft.service()) {
        let of_health = |(i, _): &(&Instance, String)| i.has_failed_verifying();
        let shared: Vec<_> = fresh.iter().filter(|found| of_health(found)).cloned().collect();
        let alike = if shared.is_empty() { None } else { faults::shared_by_most(draft, service) };
        if let Some(alike) = alike {
            faults::share(draft, service, &shared, &alike);
            return true;
        }
    }
    let wave = |i: &Instance| match on {
        Failed::In(wave) => wave,
        Failed::Returning => upgrade.failed.get(&i.node).map_or(0, |failure| failure.wave),
    };
    let waves = fresh.iter().map(|(instance, _)| wave(instance)).collect();
    let returning = matches!(on, Failed::Returning);
    write(draft, fresh, waves, false, |_| (), returning);
    true
}

/// Plans that these failures are written down, each in its wave.
pub(super) fn write(
    draft: &mut Draft<'_>,
    found: Vec<(&Instance, String)>,
    waves: Vec<u32>,
    accepted: bool,
    more: impl FnOnce(&mut Upgrade),
    returning: bool,
) {
    let failures: Vec<(NodeId, Failure)> = (found.into_iter().zip(waves))
        .map(|((i, reason), wave)| (i.node.clone(), Failure { wave, reason, accepted, returning }))
        .collect();
    let because = failures.iter().map(|(node, f)| format!("{node}: {}", f.reason)).collect::<Vec<_>>();
    let names = failures.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>();
    let (what, because) = (format!("{} failed", names.join(", ")), because.join("; "));
    let change = move |body: &mut Upgrade| {
        body.failed.extend(failures);
        more(body);
    };
    let to = format!("{}, {what}", draft.upgrade.phase.name());
    draft.rewrite(Commit::new(), change, what, &to, &because);
}

/// Whether it is seen at another version.
pub(super) fn is_elsewhere(service: &ServiceFleet, node: &NodeId, version: ServiceVersion) -> bool {
    let instance = service.get(node).filter(|instance| instance.counts());
    instance.is_some_and(|i| matches!(i.known(), Known::At(known) if known != version))
}

/// Says of those that are not where they should be because they failed, or because a person skipped them, that this
/// is why.
pub(super) fn tell_excused(draft: &mut Draft<'_>, is_missing: impl Fn(&NodeId) -> bool) {
    let upgrade = draft.upgrade;
    let failed = upgrade.failed.iter().filter(|(node, _)| is_missing(node));
    for (node, failure) in failed.take(Sample::NAMED) {
        draft.wait(Reason::Failed { node: node.clone(), why: failure.reason.clone() });
    }
    let skipped = upgrade.skipped.keys().filter(|node| !upgrade.failed.contains_key(*node));
    let skipped = Sample::counted(skipped.filter(|node| is_missing(node)));
    draft.wait_for_any(skipped, |nodes| Reason::Skipped { nodes });
}

/// Says who has failed and was neither retried nor accepted: what a person who finds it paused has to decide about.
pub(super) fn tell_open(draft: &mut Draft<'_>) {
    let open = draft.upgrade.failed.iter().filter(|(_, failure)| !failure.accepted);
    for (node, failure) in open.take(Sample::NAMED) {
        draft.wait(Reason::Failed { node: node.clone(), why: failure.reason.clone() });
    }
}

/// The last wave of an upgrade.
pub(super) fn last_wave(upgrade: &tidegate_proto::record::upgrade::Upgrade) -> u32 {
    upgrade.waves.as_ref().map_or(0, |division| (division.sizes.len() as u32).saturating_sub(1))
}

/// Why the failures that were recorded are more than the spec bears, if they are.
pub(super) fn beyond_budget(draft: &Draft<'_>, service: &ServiceFleet) -> Option<String> {
    let counted: Vec<_> = draft.upgrade.failed.iter().filter(|(_, failure)| !failure.accepted).collect();
    let budget = &draft.spec().failures;
    let tolerated = budget.tolerate.rounded_down(service.len());
    let in_wave = |wave| counted.iter().filter(|(_, f)| f.wave == wave).count();
    let too_many =
        |failure: &Failure| counted.len() > tolerated || in_wave(failure.wave) > budget.per_wave as usize;
    let (node, failure) = counted.iter().rev().find(|(_, failure)| too_many(failure))?;
    Some(format!(
        "{node} failed in wave {} ({}); {} failed in all, {tolerated} are tolerated, {} a wave",
        failure.wave + 1,
        failure.reason,
        counted.len(),
        budget.per_wave
    ))
}

/// Beyond the failure budget: what the spec says follows; where there is no way back, a pause.
pub(super) fn give_up(draft: &mut Draft<'_>, why: String) {
    match (draft.spec().failures.then, way_back(draft.fleet, draft.upgrade, &why)) {
        (Then::Rollback, Ok(_)) => super::retreat::turn_back(draft, why),
        (Then::Rollback, Err(refused)) => pause(draft, format!("{why}; it cannot be rolled back: {refused}")),
        (Then::Pause, _) => pause(draft, why),
    }
}

fn pause(draft: &mut Draft<'_>, why: String) {
    let at = draft.moment.wall;
    let because = why.clone();
    let hold = move |body: &mut tidegate_proto::record::upgrade::Upgrade| {
        body.paused = Some(Pause { who: "coordinator".to_owned(), why, at })
    };
    draft.rewrite(Commit::new(), hold, "pause".to_owned(), "paused", &because);
}
