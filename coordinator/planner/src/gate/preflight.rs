//! Preflight: every check, all findings, each blocking or warning; the whole roll against capacity and domains, so
//! that a deadlock is named before the first node is touched. The same for a dry run and for the phase.

mod cut_off;
mod finding;
mod former;
mod schema;
mod unknown;
mod verdict;

pub(crate) use cut_off::has_begun;
use cut_off::is_cut_off;
pub use finding::Finding;
use finding::{blocker, ended_by, has_form, installed, once_over, warning};

use crate::contracted;
use crate::fleet::{Fleet, Instance, Known, NO_DOMAIN, ServiceFleet};
use crate::gate::store::unreconciled;
use crate::gate::{Causes, Sample};
use former::former_release;
use std::collections::BTreeMap;
use tidegate_proto::record::directive::OnDeadline;
use tidegate_proto::record::report::{Rotation, Step};
use tidegate_proto::record::upgrade::{Former, SchemaBinding};
use tidegate_proto::record::window::Window;
use tidegate_proto::spec::{Spec, Strategy};
use tidegate_proto::{NodeId, ServiceName, ServiceVersion, mutant};

/// What a dry run says: first what keeps any upgrade of the service from starting now, then everything that preflight
/// finds, then the verdicts of gate jobs that it waits for.
pub fn preview(fleet: &Fleet, spec: &Spec, schema: Option<&SchemaBinding>) -> Vec<Finding> {
    let contested = unreconciled(fleet, &BTreeMap::new()).map(|reason| {
        blocker(format!(
            "{reason}; what follows rests on records that may be older than what the agents obeyed"
        ))
    });
    let active = fleet.lock(&spec.service).map(|(holder, _)| {
        blocker(format!(
            "upgrade {holder} of {} is active: one at a time; what follows describes a fleet that it is changing",
            spec.service
        ))
    });
    let found = findings(fleet, spec, schema).into_iter().chain(verdict::findings(fleet, spec));
    contested.into_iter().chain(active).chain(found).collect()
}

/// Everything that preflight finds. `schema` is what the database was found to be; none = not found yet.
pub fn findings(fleet: &Fleet, spec: &Spec, schema: Option<&SchemaBinding>) -> Vec<Finding> {
    let mut found: Vec<Finding> = spec.flaws().into_iter().map(|flaw| blocker(flaw.to_string())).collect();
    let Some(service) = fleet.service(&spec.service).filter(|service| !service.is_empty()) else {
        found.push(blocker(format!(
            "{} has no instance: no agent has ever been admitted for it",
            spec.service
        )));
        return found;
    };
    found.extend(versions(fleet, service, spec));
    found.extend(unknown::findings(fleet, service, spec));
    if is_cut_off(service, spec) {
        found.extend(cut_off::findings(fleet, service, spec));
    } else {
        found.extend(hop(fleet, service, spec));
    }
    let forbidden = contracted::forbids(fleet, &spec.service, spec.from);
    found.extend(
        forbidden.map(|forbidden| blocker(format!("`from` ({}) may not run: {forbidden}", spec.from))),
    );
    found.extend(abilities(service, spec));
    found.extend(capacity(service, spec));
    found.extend(outage(service, spec));
    found.extend(domains(service, spec));
    found.extend(schema::sharing(fleet, spec));
    found.extend(schema::rolled_back(fleet, spec));
    found.extend(schema::taken_away(fleet, spec));
    found.extend(schema::unread(fleet, spec));
    found.extend(schema.into_iter().flat_map(|binding| schema::floors(fleet, spec, binding)));
    found
}

fn versions(fleet: &Fleet, service: &ServiceFleet, spec: &Spec) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut any = |sample: Sample, text: &str| {
        if !sample.is_empty() {
            found.push(blocker(format!("{}: {text}: {sample}", service.name())));
        }
    };
    let contradict = fleet.contradicting(service.name());
    any(
        Sample::counted(contradict.iter()),
        "counts as silent because it obeyed what this store does not know (`tidegate fleet reconcile`)",
    );
    let silent = service.silent().sample_but(|node| contradict.contains(node), contradict.len());
    any(silent, "no report from (bring it back, or decommission it)");
    let left = former::replaced_leftovers(service, spec);
    let is_left = |node: &NodeId| left.iter().any(|instance| instance.node == *node);
    let is_refused = |i: &Instance| i.report.as_ref().is_some_and(|r| matches!(r.step, Step::Refused { .. }));
    let refused = service.unknown().each.filter(|i| is_refused(i) && !is_left(&i.node));
    any(
        Sample::counted(refused.map(|i| &i.node)),
        &format!(
            "refused by the window ({}; where no version inside it can serve, admit the one that is there: `tidegate \
             fleet window {} --floor … --ceiling … --why …`{})",
            ended_by(service.name(), "a version inside it"),
            service.name(),
            once_over(fleet, service.name())
        ),
    );
    any(service.below(spec.from).sample(), &below(service, spec));
    match is_cut_off(service, spec) {
        true => {
            let how = ended_by(service.name(), "the release of `from`");
            any(service.above(spec.to).sample(), &format!("above `to` ({}) ({how}) on", spec.to));
        }
        false => any(service.above(spec.from).sample(), &above(fleet, service, spec)),
    }
    let (cordoned, broken): (Vec<_>, Vec<_>) =
        service.instances().filter(|i| !i.is_in_service()).partition(|i| i.cordoned);
    any(
        Sample::counted(cordoned.into_iter().map(|i: &Instance| &i.node)),
        "in maintenance (uncordon it first)",
    );
    let broken: Vec<_> = broken.into_iter().filter(|i| i.known() != Known::Silent).collect();
    if !broken.is_empty() {
        found.push(warning(format!(
            "{}: not in rotation and healthy before the upgrade: {}",
            service.name(),
            Causes::counted(broken.into_iter())
        )));
    }
    found
}

/// What ends that instances are below `from`. Where the hop to `from` has not completed, its upgrade moves them.
fn below(service: &ServiceFleet, spec: &Spec) -> String {
    let (name, from) = (service.name(), spec.from);
    let upgrade = || format!("upgrade {name} to {from} first");
    let how = match service.window() {
        // What the window says is found as well: `hop`.
        Some(window) if window.floor > from => return format!("below `from` ({from}) on"),
        Some(window) if window.floor < from && window.ceiling < ServiceVersion::MAX => upgrade(),
        _ if service.below(from).count == service.len() => upgrade(),
        _ => ended_by(name, "the release of `from`"),
    };
    format!("below `from` ({from}) ({how}) on")
}

/// What ends that instances are above `from`. Where they run `to`, and one of them is in rotation, an upgrade may have been
/// cut off; one that is out of rotation may be a node that joined with the next version.
fn above(fleet: &Fleet, service: &ServiceFleet, spec: &Spec) -> String {
    let (name, from, to) = (service.name(), spec.from, spec.to);
    if service.window().is_some_and(|window| !window.admits(from)) {
        // What the window says is found as well: `hop`.
        return format!("above `from` ({from}) on");
    }
    let in_rotation = |i: &Instance| i.report.as_ref().is_some_and(|r| r.rotation == Rotation::In);
    let is_cut_off = service.window().is_none_or(|window| window.is_open())
        && service.above(to).count == 0
        && service.below(from).count == 0
        && service.above(from).each.any(in_rotation);
    let goes_on = match is_cut_off {
        true => format!(
            "where an upgrade to {to} was cut off: `tidegate fleet window {name} --floor {from} --ceiling {to} --why …`{}, \
             then start it again; otherwise ",
            once_over(fleet, name)
        ),
        false => String::new(),
    };
    format!("above `from` ({from}) ({goes_on}{}) on", ended_by(name, "the release of `from`"))
}

/// One hop: no N → N+1 before (N-1) → N has completed.
fn hop(fleet: &Fleet, service: &ServiceFleet, spec: &Spec) -> Option<Finding> {
    let window = service.window().filter(|window| !window.is_open())?;
    // What only bounds a service from below was committed for another upgrade of a schema that it shares.
    let only_floor = window.floor <= spec.from && window.ceiling == ServiceVersion::MAX;
    let settled = only_floor || (window.floor == spec.from && window.ceiling == spec.from);
    (!settled && !mutant::is("hop-is-not-checked"))
        .then(|| blocker(unsettled(fleet, service.name(), window, spec)))
}

/// Why the window does not allow the hop: the service is at another version, or between two.
fn unsettled(fleet: &Fleet, name: &ServiceName, window: &Window, spec: &Spec) -> String {
    let from = spec.from;
    let form = has_form(spec, from).map(|form| format!(", and {form}")).unwrap_or_default();
    let when = once_over(fleet, name);
    let by_hand =
        format!("{form}: `tidegate fleet window {name} --floor {from} --ceiling {from} --why …`{when}");
    if window.floor == window.ceiling && window.floor == spec.to {
        return format!("{name} is at version {} already: only that version is admitted", spec.to);
    }
    if window.ceiling == ServiceVersion::MAX && window.floor > from {
        return format!(
            "{name} admits nothing below version {floor}, for a schema that it shares or for what releases need: no upgrade from {from} is possible, but one from {floor} or above",
            floor = window.floor
        );
    }
    if window.floor == window.ceiling {
        return format!(
            "{name} is at version {}, not at `from` ({from}): only that version is admitted. If it has to start at {from}, as after a store was reconciled{by_hand}",
            window.floor
        );
    }
    format!(
        "the window of {name} is {window}, not [{from}, {from}]: the hop before this one has not completed. If no upgrade is to complete it, as after a store was reconciled{by_hand}"
    )
}

fn abilities(service: &ServiceFleet, spec: &Spec) -> Vec<Finding> {
    let mut found = Vec::new();
    let lacking = |lacks: &dyn Fn(&Instance) -> bool| {
        Sample::counted(service.instances().filter(|i| i.report.is_some() && lacks(i)).map(|i| &i.node))
    };
    let watchers = lacking(&|i| i.report.as_ref().is_some_and(|r| r.abilities.replace.is_none()));
    if !watchers.is_empty() {
        found.push(blocker(format!("the agent cannot replace code (no driver is configured) on {watchers}")));
    }
    let no_artifact =
        lacking(&|i| i.report.as_ref().is_some_and(|r| !r.abilities.artifacts.contains(&spec.release.tag)));
    if !no_artifact.is_empty() {
        found.push(blocker(format!(
            "the agent's config names no artifact for {} on {no_artifact}",
            spec.release.tag
        )));
    }
    let unjudged = lacking(&|i| i.report.as_ref().is_some_and(|r| r.abilities.ready_by_health));
    if !unjudged.is_empty() {
        found.push(warning(format!(
            "ready_url is health_url on {unjudged}: while the agent's disable-file is there, readiness is not known. The agent \
             shows such an instance as soon as it answers, and hides it again where it is not ready then"
        )));
    }
    found.extend(blind_drains(
        &lacking(&|i| i.report.as_ref().is_some_and(|r| r.abilities.counts_nothing)),
        spec,
    ));
    let unasked = lacking(&|i| !i.asks_balancers());
    let checks = service.instances().filter_map(|i| i.report.as_ref()?.abilities.settle).max();
    if !unasked.is_empty() {
        found.push(warning(format!(
            "no balancer can be asked on {unasked}: a drain there waits for the longer of drain.settle ({}) and the agent's \
             check.interval × check.fall ({}), and the instance is then stopped. A balancer whose checks take longer to see \
             it, such as 4 s × 3, still sends requests: make drain.settle longer than that, or name the balancers in the \
             agent's configuration",
            spec.drain.settle,
            checks.map_or_else(|| "6 s by default".to_owned(), |longest| longest.to_string())
        )));
    }
    match former_release(service, spec) {
        // What `cut_off` finds.
        Err(_) if is_cut_off(service, spec) && service.below(spec.to).count == 0 => {}
        Ok(release) if release.tag == spec.release.tag => found.push(blocker(runs_already(service, spec))),
        Ok(release) => {
            let no_way_back = lacking(&|i| {
                i.report.as_ref().is_some_and(|r| !r.abilities.artifacts.contains(&release.tag))
            });
            if !no_way_back.is_empty() {
                found.push(blocker(format!("the agent's config names no artifact for {}, to which a rollback would return, on {no_way_back}", release.tag)));
            }
            if release.sha256.is_absent() {
                found.push(warning(former::unverified(&release)));
            }
        }
        Err(finding) => found.push(finding),
    }
    found
}

/// Why nothing is left to do where no instance has another release than that of the spec.
fn runs_already(service: &ServiceFleet, spec: &Spec) -> String {
    let (tag, from, to) = (&spec.release.tag, spec.from, spec.to);
    let says_from = |i: &Instance| i.known() == Known::At(from) && i.names_release(tag);
    let nothing = "there is nothing to move to, and nothing to return to";
    match service.instances().any(says_from) {
        true => format!(
            "{tag} runs already, and says version {from} where the spec says {to}: {nothing}. On each node, {}: until then the \
             agent takes a release that answers {from} for {tag}",
            installed(service.name(), &format!("the release of `from` ({from})"))
        ),
        false => format!("no instance reports another release than {tag}: {nothing}"),
    }
}

/// Where nothing counts requests in flight, no drain ends before its deadline.
fn blind_drains(nodes: &Sample, spec: &Spec) -> Option<Finding> {
    if nodes.is_empty() {
        return None;
    }
    let cause = format!(
        "nothing counts requests in flight on {nodes} (the agent's configuration names neither `in_flight` nor a balancer), so that each drain there lasts until drain.deadline ({})",
        spec.drain.deadline
    );
    Some(match spec.drain.on_deadline {
        OnDeadline::Proceed => warning(format!("{cause} and then goes on")),
        OnDeadline::Fail => blocker(format!(
            "{cause} and then fails: configure one of the two, or set drain.on_deadline to proceed"
        )),
    })
}

/// Whether the roll can begin at all with what the spec leaves to take out.
fn capacity(service: &ServiceFleet, spec: &Spec) -> Option<Finding> {
    let whole = service.len();
    let (required, in_service) = (spec.min_in_service.rounded_up(whole), service.in_service());
    if required >= whole {
        return Some(blocker(format!(
            "min_in_service {} of {whole} instances leaves none to take out: lower it",
            spec.min_in_service
        )));
    }
    let broken = whole - in_service;
    let allowed = spec.max_unavailable.rounded_down(whole).max(1);
    (broken > 0 && (broken >= allowed || in_service <= required)).then(|| {
        warning(format!(
            "{in_service} of {whole} instances are in service, {required} must stay and at most {allowed} may be out: no healthy instance is taken out before enough of these are back, and without progress for {} the roll fails: {}",
            spec.health.progress_deadline,
            Causes::of(service.out())
        ))
    })
}

/// Whether the roll may leave nothing in service.
fn outage(service: &ServiceFleet, spec: &Spec) -> Option<Finding> {
    let whole = service.len();
    let allowed = spec.max_unavailable.rounded_down(whole).max(1);
    let required = spec.min_in_service.rounded_up(whole);
    let at_once = spec.strategy == Strategy::Immediate;
    (required == 0 && (whole == 1 || allowed >= whole || at_once)).then(|| {
        warning(format!(
            "min_in_service is 0 and up to {} of {whole} instances are taken out at once: expect an outage while they are replaced",
            allowed.min(whole)
        ))
    })
}

fn domains(service: &ServiceFleet, spec: &Spec) -> Option<Finding> {
    let label = spec.failure_domain.as_deref()?;
    let unlabelled = Sample::counted(
        service.instances().filter(|i| i.label(label).unwrap_or(NO_DOMAIN) == NO_DOMAIN).map(|i| &i.node),
    );
    (!unlabelled.is_empty())
        .then(|| blocker(format!("failure_domain is {label:?}, and there is no such label on {unlabelled}")))
}

/// What a rollback returns to; none while a finding blocks.
pub fn former(fleet: &Fleet, spec: &Spec) -> Option<Former> {
    let service = fleet.service(&spec.service)?;
    let release = former_release(service, spec).ok()?;
    let window = service.window();
    // Before an upgrade that was cut off began, only the old version was admitted.
    let ceiling = |w: &Window| if is_cut_off(service, spec) { spec.from } else { w.ceiling };
    Some(Former {
        release,
        window: window.map(|w| (w.floor, ceiling(w))),
        window_set_by: window.map(|w| w.set_by.clone()),
    })
}
