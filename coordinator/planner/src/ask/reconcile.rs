//! Reconcile a store that was restored from a backup, or is blank: a person states that it is the one to be obeyed,
//! and what its witnesses had obeyed is written down. No floor is left below what one of them journalled.

use super::{Asker, Refusal, RefusalKind, demand_why, refuse, told};
use crate::fleet::Fleet;
use crate::moment::Moment;
use std::collections::BTreeMap;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, Revision, ServiceName, ServiceVersion, UpgradeId, mutant};

/// What a window is set by where a person reconciled it.
fn reconciliation() -> UpgradeId {
    "reconciliation".parse().expect("a plain word is a name")
}

/// Whether anything but a reconciliation or a pause may be granted on this store.
///
/// # Errors
/// A refusal that names who contradicts it.
pub fn reconciled(fleet: &Fleet, moment: &Moment) -> Result<(), Refusal> {
    match fleet.unreconciled(&moment.schemas) {
        None => Ok(()),
        Some(reason) => refuse(
            RefusalKind::State,
            format!("{reason}. When you know what happened since: `tidegate fleet reconcile --why …`"),
        ),
    }
}

/// Reconciles the store with its witnesses.
///
/// # Errors
/// Refused without a reason, and where nobody contradicts it.
pub fn reconcile(fleet: &Fleet, moment: &Moment, asker: &Asker) -> Result<Commit, Refusal> {
    demand_why(asker, "reconciling the store")?;
    let Some(reason) = fleet.reconcilable(&moment.schemas) else {
        return refuse(RefusalKind::State, "nobody contradicts the store: there is nothing to reconcile");
    };
    let known = fleet.reconciliation();
    let mut body = Reconciliation {
        who: asker.who.clone(),
        why: asker.why.clone(),
        at: moment.wall,
        terms: known.map(|known| known.terms.clone()).unwrap_or_default(),
        revision: known.map_or(Revision::ABSENT, |known| known.revision),
        floors: known.map(|known| known.floors.clone()).unwrap_or_default(),
    };
    let raised = testify(fleet, moment, &mut body);
    let commit = told(moment, Subject::Fleet, asker, &reason.to_string(), "reconciled");
    let commit =
        commit.when(Precondition::At(Key::Reconciliation, known.map_or(Revision::ABSENT, |known| known.at)));
    let commit = raised.into_iter().fold(commit, |commit, (service, highest)| {
        let floor = body.floors[&service];
        window(fleet, commit, service, floor, highest)
    });
    Ok(match known {
        Some(known) => commit.put(Key::Reconciliation, known.record.with(body)),
        None => commit.put(Key::Reconciliation, body),
    })
}

/// Takes in what every witness had obeyed; tells the services whose floor one of them had journalled, with the highest
/// version that any of these runs.
fn testify(
    fleet: &Fleet,
    moment: &Moment,
    body: &mut Reconciliation,
) -> BTreeMap<ServiceName, ServiceVersion> {
    let mut raised = BTreeMap::new();
    for (service, instance, _) in fleet.contradicted_by() {
        let Some(report) = &instance.report else { continue };
        let obeyed = report.obeyed();
        body.terms.extend(obeyed.term.cloned());
        body.revision = body.revision.max(obeyed.revision);
        if let Some(floor) = obeyed.floor {
            let known = body.floors.entry(service.clone()).or_insert(floor);
            *known = (*known).max(floor);
            let runs = report.version.unwrap_or(floor).max(floor);
            let highest = raised.entry(service.clone()).or_insert(runs);
            *highest = (*highest).max(runs);
        }
    }
    if let Some((seen, _)) = fleet.fall() {
        body.revision = body.revision.max(seen);
    }
    for (term, number) in moment.schemas.values().filter_map(|facts| facts.obeyed.as_ref()) {
        if !fleet.acknowledges_term(term) {
            body.terms.insert(term.clone());
            body.revision = body.revision.max(*number);
        }
    }
    raised
}

/// Raises a window to what was journalled, and leaves room for what runs. One that stands there already is compared,
/// and not written.
fn window(
    fleet: &Fleet,
    commit: Commit,
    service: ServiceName,
    floor: ServiceVersion,
    highest: ServiceVersion,
) -> Commit {
    let of = fleet.service(&service);
    let (now, at) = of.map_or((None, Revision::ABSENT), |of| (of.window(), of.window_at()));
    let key = Key::Window(service);
    let commit = commit.when(Precondition::At(key.clone(), at));
    if mutant::is("reconciled-below-a-witness") {
        return commit;
    }
    let body = |ceiling: ServiceVersion| Window { floor, ceiling, set_by: reconciliation() };
    match now {
        Some(now) if now.floor >= floor && now.ceiling >= highest => commit,
        Some(now) => {
            let body = Window { floor: now.floor.max(floor), ..body(now.ceiling.max(highest)) };
            commit.put(key, now.record.with(body))
        }
        None => commit.put(key, body(highest)),
    }
}
