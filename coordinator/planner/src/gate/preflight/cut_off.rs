//! A hop that was cut off: the store was lost with the upgrade's record, and reconciling left the window [from, to]. The
//! same upgrade goes on from there: instances at `to` that run its release are done. Where there is none, nothing had
//! reached `to`, or a person set that window: the upgrade begins as any other.

use super::finding::{Finding, blocker, ended_by, has_form, installed, named_by, once_over, warning};
use crate::fleet::{Fleet, Instance, Known, ServiceFleet};
use crate::gate::Sample;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::spec::Spec;
use tidegate_proto::{Digest, ReleaseTag, mutant};

/// Whether the service is between `from` and `to`, and no record of an upgrade says why. Which upgrade is active is not
/// asked here.
pub(super) fn is_cut_off(service: &ServiceFleet, spec: &Spec) -> bool {
    service.window().is_some_and(|window| window.floor == spec.from && window.ceiling == spec.to)
}

/// Whether instances of such a hop run `to` already. Only then the window has to admit `to` before the roll.
pub(crate) fn has_begun(service: &ServiceFleet, spec: &Spec) -> bool {
    let begun = service.above(spec.from).count > 0 || mutant::is("window-set-by-hand-is-kept");
    is_cut_off(service, spec) && begun
}

/// What is said of the instances that run `to` already.
pub(super) fn findings(fleet: &Fleet, service: &ServiceFleet, spec: &Spec) -> Vec<Finding> {
    let ahead = || service.instances().filter(|instance| instance.known() == Known::At(spec.to));
    let count = ahead().count();
    if count == 0 {
        return Vec::new();
    }
    let (name, to) = (service.name(), spec.to);
    if count == service.len() {
        let (form, otherwise) = match has_form(spec, to) {
            Some(form) => {
                let former = ended_by(name, &format!("a release of version {}", spec.from));
                (format!("where {form}, "), format!("; otherwise {former}"))
            }
            None => (String::new(), String::new()),
        };
        return vec![blocker(format!(
            "every instance of {name} runs `to` ({to}) already, so that nothing is left to roll and the release before it is \
             not known: {form}`tidegate fleet window {name} --floor {to} --ceiling {to} --why …` ends the hop{}{otherwise}",
            once_over(fleet, name)
        ))];
    }
    let is_unnamed = |i: &&Instance| i.report.as_ref().is_some_and(|report| report.release.is_none());
    let unnamed = Sample::counted(ahead().filter(is_unnamed).map(|i| &i.node));
    if !unnamed.is_empty() {
        return vec![blocker(format!(
            "{name}: at `to` ({to}), and which release runs is not known on {unnamed}; an upgrade that was cut off goes on \
             with the release that it had: {}",
            named_by(name, to)
        ))];
    }
    let others: Vec<&Instance> = ahead().filter(|instance| !runs_release(instance, spec)).collect();
    if !others.is_empty() {
        return vec![blocker(format!(
            "{name}: at `to` ({to}), but not running the release {}, on {}: an upgrade that was cut off goes on with the \
             release that it had: {}",
            spec.release.tag,
            Sample::counted(others.iter().map(|instance| &instance.node)),
            ended_with(ahead(), spec)
        ))];
    }
    let unexpanded = match &spec.schema {
        Some(_) => format!(
            "; where the database lacks what version {to} uses, first {}",
            ended_by(name, "the release of `from`")
        ),
        None => String::new(),
    };
    vec![warning(format!(
        "{name}: {count} of {} instances run {} already: this goes on with an upgrade that was cut off\
         {unexpanded}",
        service.len(),
        spec.release.tag
    ))]
}

/// With which release the hop goes on: the one that runs at `to`; of several, a person chooses. An instance whose agent names
/// no digest may run any build of that release which others name.
fn ended_with<'a>(ahead: impl Iterator<Item = &'a Instance>, spec: &Spec) -> String {
    let mut running: BTreeMap<&ReleaseTag, BTreeSet<Digest>> = BTreeMap::new();
    for report in ahead.filter_map(|instance| instance.report.as_ref()) {
        if let Some(tag) = &report.release {
            running.entry(tag).or_default().extend(report.release_digest);
        }
    }
    let named = running.into_iter().flat_map(|(tag, digests)| match digests.len() {
        0 => vec![tag.to_string()],
        1 if *tag != spec.release.tag => vec![tag.to_string()],
        _ => digests.iter().map(|digest| format!("{tag} (sha256 {digest})")).collect(),
    });
    match &named.collect::<Vec<_>>()[..] {
        [only] => format!("start it with {only}"),
        several => format!(
            "of {} choose one. On each instance at `to` ({}) that runs another one, {}; then start the upgrade with it",
            several.join(", "),
            spec.to,
            installed(&spec.service, "that release")
        ),
    }
}

fn runs_release(instance: &Instance, spec: &Spec) -> bool {
    let report = instance.report.as_ref();
    report.is_some_and(|report| {
        report.release.as_ref() == Some(&spec.release.tag)
            && report.release_digest.is_none_or(|digest| digest == spec.release.sha256)
    })
}
