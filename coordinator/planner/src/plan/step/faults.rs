//! Instances that were verified are watched until the upgrade ends: a fault that lasts is a failure of the new version, in
//! the instance's own wave. One that instances of the old version have at the same time is none: it pauses the upgrade.

use super::super::Draft;
use super::failures;
use crate::fleet::{Instance, Known, ServiceFleet};
use crate::gate::Sample;
use tidegate_proto::mutant;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Step};
use tidegate_proto::record::upgrade::{Pause, Upgrade};

/// Records what failed after it was verified, and weighs it; returns whether it decided anything.
pub(super) fn watch(draft: &mut Draft<'_>) -> bool {
    let Some(service) = draft.service() else { return false };
    let (new, old): (Vec<_>, Vec<_>) = service.faulty().each.partition(|i| runs_the_target(draft, i));
    let exceptions = draft.exceptions();
    let is_exempt = |i: &Instance| exceptions.is_exempt(&i.node);
    let lasts = |i: &&Instance| i.fault().is_some_and(|fault| fault.lasting) && !is_exempt(i);
    let failed: Vec<_> = new.into_iter().filter(lasts).take(failures::AT_ONCE).collect();
    if failed.is_empty() || mutant::is("late-failures-are-not-counted") {
        return weigh(draft, service);
    }
    let recent = failed.iter().all(|i| is_recent(i));
    // What else began with a fault that is not recent is unknown. One that serves well again, after a hiccup, has no
    // cause in common with what fails for good.
    let ails = |i: &Instance| !i.is_in_service() || i.fault().is_some_and(|fault| fault.lasting);
    let alike: Vec<_> = old.into_iter().filter(|i| ails(i) && (is_recent(i) || !recent)).collect();
    let found: Vec<_> = failed
        .into_iter()
        .map(|i| (i, format!("it was verified, and failed afterwards: {}", i.fault_words())))
        .collect();
    match alike.is_empty() {
        false => share(draft, &found, &alike),
        true => match shared_by_most(draft, service) {
            Some(most) => share(draft, &found, &most),
            None => count(draft, found),
        },
    }
    true
}

fn is_recent(instance: &Instance) -> bool {
    instance.fault().is_some_and(|fault| fault.recent)
}

/// Whether the new version is what runs there, or ran there before it failed.
fn runs_the_target(draft: &Draft<'_>, instance: &Instance) -> bool {
    let target = draft.spec().target();
    match instance.known() {
        Known::At(version) => version == target.version,
        Known::Silent | Known::Unknown => {
            instance.directive.as_ref().filter(|d| d.upgrade == *draft.id).is_some_and(|d| {
                d.releases == [target.clone()]
                    || matches!(&d.disposition, Disposition::Replace { release } if *release == target)
            })
        }
    }
}

/// The instances of the old version that should serve and are not healthy, where they are more than half of it: then what
/// fails beside them does not fail because it is new.
pub(super) fn shared_by_most<'a>(draft: &Draft<'_>, service: &'a ServiceFleet) -> Option<Vec<&'a Instance>> {
    let serves = |i: &Instance| {
        i.report.as_ref().is_some_and(|r| r.step == Step::Serving)
            && !i.is_in_maintenance()
            && !i.is_under_order()
    };
    let healthy = |i: &Instance| i.report.as_ref().is_some_and(|r| r.health == Health::Healthy);
    let old = service.instances().filter(|i| serves(i) && !runs_the_target(draft, i));
    let (mut all, mut bad) = (0, Vec::new());
    for instance in old {
        all += 1;
        if !healthy(instance) {
            bad.push(instance);
        }
    }
    (bad.len() * 2 > all).then_some(bad)
}

/// Writes down failures of the new version, each in its own wave.
fn count(draft: &mut Draft<'_>, found: Vec<(&Instance, String)>) {
    let waves = waves_of(draft, &found);
    failures::write(draft, found, waves, false, |_| (), false);
}

/// Writes the failures down so that they do not count, and pauses.
pub(super) fn share(draft: &mut Draft<'_>, found: &[(&Instance, String)], alike: &[&Instance]) {
    let waves = waves_of(draft, found);
    let (new, old) = (names(found.iter().map(|(i, _)| *i)), names(alike.iter().copied()));
    let (from, to) = (draft.spec().from, draft.spec().to);
    let why = format!(
        "instances of version {to} ({new}) and of version {from} ({old}) fail at the same time: a fault that both share, not \
         counted as a failure of version {to}"
    );
    let pause = Pause { who: "coordinator".to_owned(), why, at: draft.moment.wall };
    failures::write(
        draft,
        found.to_vec(),
        waves,
        true,
        move |body: &mut Upgrade| body.paused = Some(pause),
        false,
    );
}

fn names<'a>(instances: impl Iterator<Item = &'a Instance>) -> Sample {
    Sample::counted(instances.map(|instance| &instance.node))
}

fn waves_of(draft: &Draft<'_>, found: &[(&Instance, String)]) -> Vec<u32> {
    found.iter().map(|(instance, _)| failures::wave_of(draft, instance)).collect()
}

/// Where the failures written down so far are more than the budget, does what the spec says.
fn weigh(draft: &mut Draft<'_>, service: &ServiceFleet) -> bool {
    match failures::beyond_budget(draft, service) {
        Some(why) => {
            failures::exceed_budget(draft, why);
            true
        }
        None => false,
    }
}

/// Whether an instance that was verified is not healthy now, so that no other one should be taken out before it is known
/// whether that lasts.
pub(super) fn is_any_in_doubt(draft: &Draft<'_>, service: &ServiceFleet) -> bool {
    let exceptions = draft.exceptions();
    let is_exempt = |i: &Instance| exceptions.is_exempt(&i.node);
    let in_doubt = |i: &Instance| !i.is_in_service() && runs_the_target(draft, i) && !is_exempt(i);
    service.faulty().each.any(in_doubt)
}
