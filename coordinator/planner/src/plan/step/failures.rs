//! Failures are recorded before anything follows from them: an instance that failed is left alone until a person retries
//! it, so that no instance is taken out and returned again and again.

use super::super::Draft;
use super::faults;
use super::moving::UnderWay;
use crate::fleet::{Exceptions, Instance, ServiceFleet};
use crate::gate::Sample;
use crate::gate::person::rollback::no_rollback;
use crate::upgrade::phase::Refused;
use crate::upgrade::rollback_path;
use std::collections::BTreeMap;
use tidegate_proto::commit::Commit;
use tidegate_proto::mutant;
use tidegate_proto::record::upgrade::{Failure, Pause, Upgrade};
use tidegate_proto::spec::Then;

/// On which way an instance failed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Failed {
    /// To the new version.
    Moving,
    /// In the rollback.
    Returning,
}

/// Whether it failed in the rollback, and was not retried since.
pub(super) fn has_failed_returning(exceptions: Exceptions<'_>, instance: &Instance) -> bool {
    exceptions.failure(&instance.node).is_some_and(|failure| failure.returning)
}

/// Records failures that are not yet recorded; returns whether there were any.
pub(super) fn record(draft: &mut Draft<'_>, under_way: &UnderWay<'_>, on: Failed) -> bool {
    let exceptions = draft.exceptions();
    let is_known = |instance: &Instance| match on {
        Failed::Moving => exceptions.has_failed(&instance.node),
        Failed::Returning => has_failed_returning(exceptions, instance),
    };
    let fresh = under_way.out.failed.iter().filter(|(instance, _)| !is_known(instance));
    let fresh: Vec<_> = fresh.take(AT_ONCE).cloned().collect();
    if fresh.is_empty() {
        return false;
    }
    let stays: Vec<_> = fresh.iter().filter(|(instance, _)| instance.has_not_left()).cloned().collect();
    if let (Failed::Moving, Some(first)) = (on, stays.first().cloned()) {
        // What else failed is written down, and weighed, once it goes on.
        not_left(draft, stays, first, on);
        return true;
    }
    if let (Failed::Moving, Some(service)) = (on, draft.service()) {
        let of_health = |(i, _): &(&Instance, String)| i.has_failed_verifying();
        let shared: Vec<_> = fresh.iter().filter(|found| of_health(found)).cloned().collect();
        let alike = if shared.is_empty() { None } else { faults::shared_by_most(draft, service) };
        if let Some(alike) = alike {
            faults::share(draft, &shared, &alike);
            return true;
        }
    }
    let waves = waves_of(draft, &fresh, on);
    let returning = matches!(on, Failed::Returning);
    write(draft, fresh, waves, false, |_| (), returning);
    true
}

fn waves_of(draft: &Draft<'_>, found: &[(&Instance, String)], on: Failed) -> Vec<u32> {
    let exceptions = draft.exceptions();
    let wave = |i: &Instance| match on {
        Failed::Moving => wave_of(draft, i),
        Failed::Returning => exceptions.failure(&i.node).map_or(0, |failure| failure.wave),
    };
    found.iter().map(|(instance, _)| wave(instance)).collect()
}

/// The wave in which a failure counts: that of the instance, also where it was moved before its wave. One that joined later
/// belongs to the last.
pub(super) fn wave_of(draft: &Draft<'_>, instance: &Instance) -> u32 {
    let last = last_wave(draft.upgrade);
    instance.wave.map_or(last, |wave| wave.min(last))
}

/// An instance whose drain changed nothing says that this node, and likely every other, is configured wrongly: that is no
/// failure of the new version, and the next drain would fail alike. A pause, and a person.
fn not_left(
    draft: &mut Draft<'_>,
    stays: Vec<(&Instance, String)>,
    (instance, reason): (&Instance, String),
    on: Failed,
) {
    let (node, id) = (&instance.node, draft.id);
    let why = format!(
        "the drain of {node} changed nothing, so it was not stopped: {reason}. Fix disable_file, health_url or the balancer's \
         check there and on nodes that are configured alike (`tidegate-agent check`), then `tidegate upgrade retry {id} {node} \
         --why …` and `tidegate upgrade resume {id}`"
    );
    let pause = Pause { who: "coordinator".to_owned(), why, at: draft.moment.wall };
    let waves = waves_of(draft, &stays, on);
    write(draft, stays, waves, true, move |body: &mut Upgrade| body.paused = Some(pause), false);
}

/// How many failures are written down in one commit, at most.
pub(super) const AT_ONCE: usize = 100;

/// Plans that these failures are written down, each in its wave.
pub(super) fn write(
    draft: &mut Draft<'_>,
    found: Vec<(&Instance, String)>,
    waves: Vec<u32>,
    accepted: bool,
    more: impl FnOnce(&mut Upgrade),
    returning: bool,
) {
    let (exceptions, resumed) = (draft.exceptions(), draft.upgrade.resumed);
    let named = found.iter().take(Sample::NAMED).map(|(i, why)| format!("{}: {why}", i.node));
    let because = named.collect::<Vec<_>>().join("; ");
    let what = format!("{} failed", Sample::counted(found.iter().map(|(i, _)| &i.node)));
    let mut in_one_list = BTreeMap::new();
    let commit = found.into_iter().zip(waves).fold(Commit::new(), |commit, ((i, reason), wave)| {
        let failure = Failure { wave, reason, accepted, returning, resumed };
        if mutant::is("failure-list-is-not-paged") {
            in_one_list.insert(i.node.clone(), failure);
            return commit;
        }
        exceptions.rewrite(commit, draft.id, &i.node, |exception| exception.failure = Some(failure))
    });
    let more = |body: &mut Upgrade| {
        body.failed.extend(in_one_list);
        more(body);
    };
    let to = format!("{}, {what}", draft.upgrade.phase.name());
    draft.rewrite(commit, more, what, &to, &because);
}

/// The last wave of an upgrade.
pub(super) fn last_wave(upgrade: &tidegate_proto::record::upgrade::Upgrade) -> u32 {
    upgrade.waves.as_ref().map_or(0, |division| (division.sizes.len() as u32).saturating_sub(1))
}

/// Why the failures that were recorded are more than the spec allows, if they are.
pub(super) fn beyond_budget(draft: &Draft<'_>, service: &ServiceFleet) -> Option<String> {
    let exceptions = draft.exceptions();
    let counted: Vec<_> = exceptions.failures().filter(|(_, failure)| exceptions.counts(failure)).collect();
    let budget = &draft.spec().failures;
    let tolerated = budget.tolerate.rounded_down(service.len());
    let mut in_wave: BTreeMap<u32, u32> = BTreeMap::new();
    counted.iter().for_each(|(_, failure)| *in_wave.entry(failure.wave).or_default() += 1);
    let too_many = |failure: &Failure| {
        counted.len() > tolerated || in_wave.get(&failure.wave).is_some_and(|n| *n > budget.per_wave)
    };
    let (node, failure) = counted.iter().rev().find(|(_, failure)| too_many(failure))?;
    Some(format!(
        "{node} failed in wave {} ({}); {} failed in all, {tolerated} are tolerated, {} a wave",
        failure.wave + 1,
        failure.reason,
        counted.len(),
        budget.per_wave
    ))
}

/// The failure budget is exceeded: does what the spec says; pauses where a rollback is not possible.
pub(super) fn exceed_budget(draft: &mut Draft<'_>, why: String) {
    match (draft.spec().failures.then, rollback_path(&draft.view(), &why)) {
        (Then::Rollback, Ok(_)) => super::rollback::begin_rollback(draft, why),
        // The database is looked at, and decides.
        (Then::Rollback, Err(refused @ Refused::Unseen(_))) => draft.wait(no_rollback(&refused)),
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
