//! What the store holds, and whether it can be believed.

mod inclusion;
pub(crate) mod running;
pub mod stale;

pub use inclusion::Inclusion;

use super::description::{Description, RECONCILE, Waits, first};
use super::{Answer, Reason};
use crate::fleet::{Contradiction, Fleet, Instance, Known, Sample};
use crate::moment::{Moment, SchemaFacts};
use crate::upgrade::View;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tidegate_proto::{Commit, Key, NodeId, ServiceName, ServiceVersion, Span, UpgradeId, mutant};

/// A gate on the store itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum StoreGate {
    Unreadable {
        key: String,
        why: String,
    },
    Restored {
        witnesses: Vec<String>,
        count: usize,
    },
    #[strum(serialize = "unsupported-claim")]
    #[serde(rename = "unsupported-claim")]
    Unsupported {
        service: ServiceName,
        node: NodeId,
        claim: String,
    },
    AwaitingReports {
        for_ms: u64,
    },
    ShownLate {
        after_ms: u64,
    },
    FormerStore {
        nodes: Sample,
    },
    Disregarded {
        service: ServiceName,
        nodes: Sample,
        inclusion: Inclusion,
    },
    StoreRefused {
        what: String,
        why: String,
    },
}

impl StoreGate {
    pub(super) fn describe(&self, waits: Waits<'_>) -> Description {
        match self {
            Self::Unreadable { key, why } => {
                Description::new(format!("the record {key} {why}"), restored_by(key))
            }
            Self::Restored { witnesses, count } => {
                let more = match count - witnesses.len() {
                    0 => String::new(),
                    more => format!("; and {more} more witnesses"),
                };
                Description::new(
                    format!(
                        "the store was restored from a backup, or is blank, and no step is taken until a person reconciles it: {}{more}",
                        witnesses.join("; ")
                    ),
                    "a person, who knows what happened since the backup",
                )
                .next_step(Some(RECONCILE.to_owned()))
            }
            Self::Unsupported { service, node, claim } => Description::new(
                format!(
                    "{service}/{node} {claim}; no database and no other node contradicts the store in the same way, so the instance counts as silent and out of rotation, and the floor, remove and contract of {service} are closed"
                ),
                "a person, who includes or disregards the claim, or decommissions the instance",
            )
            .next_step(Some(RECONCILE.to_owned())),
            Self::AwaitingReports { for_ms } => Description::new(
                format!(
                    "this coordinator sees the store for the first time and waits for reports of the agents: {} left",
                    Span::from_millis(for_ms.div_ceil(1000) * 1000)
                ),
                "the coordinator",
            ),
            Self::ShownLate { after_ms } => Description::new(
                format!(
                    "{} passed until this coordinator saw its own last write in the store, and it takes no step by what it saw more than {} ago",
                    Span::from_millis(*after_ms),
                    Span::from_millis(stale::OLDEST_VIEW_MS)
                ),
                "the store, or the network to it; or a person, who looks why it is slow",
            )
            .timeout("none: it is written again in every turn"),
            Self::FormerStore { nodes } => Description::new(
                format!("the store was reconciled, and these agents have not accepted new directives yet: {nodes}"),
                "the agents",
            ),
            Self::Disregarded { service, nodes, inclusion } => Description::new(
                format!(
                    "{service}: the claims of these instances against the store were disregarded, and their agents obey the store only after a plan includes them{}: {nodes}",
                    inclusion.condition()
                ),
                inclusion.owner(),
            )
            .next_step(first(nodes).map(|node| inclusion.next_step(waits, service, node))),
            Self::StoreRefused { what, why } => Description::new(
                format!("the store refused the transaction {what:?}: {why}"),
                "a person who administers the store: limits, permissions, space",
            )
            .timeout("none: it is planned again in every turn"),
        }
    }
}

/// Who restores a record that cannot be read. Only what an agent writes again may be removed: a missing lock, window or
/// upgrade would be taken for one that never was.
fn restored_by(key: &str) -> &'static str {
    match key.parse::<Key>() {
        Ok(Key::Report(..) | Key::Inventory(..) | Key::GroupSignal(..) | Key::TaskResult(..)) => {
            "the agent of that node, which writes the record again; or a person, who removes the key where the agent does not"
        }
        Ok(Key::Evidence(..) | Key::GateVerdict(..)) => "a person or build, who records the verdict again",
        _ => "a person, who restores the previous value of the record, and never removes the key",
    }
}

/// How many witnesses against a restored store are named.
const WITNESSES: usize = 5;

/// Why nothing may act: the database of an upgrade, a coordinator, or the agents of more than one node contradict the
/// store.
pub fn unreconciled(fleet: &Fleet, databases: &BTreeMap<UpgradeId, SchemaFacts>) -> Option<Reason> {
    if mutant::is("restored-store-is-obeyed") || fleet.contradiction(databases) != Contradiction::Supported {
        return None;
    }
    let (witnesses, count) = fleet.contradictions(databases, WITNESSES);
    Some(StoreGate::Restored { witnesses, count }.into())
}

/// Why nothing is decided from this store: a witness contradicts it, or may still do so.
pub fn closed(fleet: &Fleet, moment: &Moment) -> Option<Reason> {
    unreconciled(fleet, &moment.schemas).or_else(|| awaited(moment))
}

/// That agents which may contradict the store have time left to report.
pub(crate) fn awaited(moment: &Moment) -> Option<Reason> {
    let for_ms = moment.report_grace_left_ms;
    (for_ms > 0).then(|| StoreGate::AwaitingReports { for_ms }.into())
}

/// The reasons for which gates of a service are closed because the agent of one node contradicts the store.
pub(crate) fn claims_of_one_node<'a>(
    fleet: &'a Fleet,
    service: &'a ServiceName,
) -> impl Iterator<Item = Reason> + 'a {
    let of_service = fleet.contradicted_by().filter(move |(of, ..)| *of == service);
    of_service.take(WITNESSES).map(|(service, instance, against)| {
        let (service, node, claim) = (service.clone(), instance.node.clone(), against.to_string());
        StoreGate::Unsupported { service, node, claim }.into()
    })
}

/// Open where every instance of a service has accepted the directives of the reconciled store.
pub(crate) fn former_store(fleet: &Fleet, service: &ServiceName) -> Answer {
    let nodes = Sample::counted(fleet.of_a_former_store(service).map(|instance| &instance.node));
    Answer::of_any(nodes, |nodes| StoreGate::FormerStore { nodes })
}

/// Names the instances whose claim a person disregarded; they block nothing by themselves.
pub(crate) fn disregarded(fleet: &Fleet, service: &ServiceName) -> Answer {
    Answer { is_open: true, reasons: named_disregarded(fleet, service, None, |_| true) }
}

/// The same of the service of an upgrade that has left preflight. The store may have been restored to before its rollback,
/// where that can begin and no applied claim has a higher floor than it leads to.
pub(crate) fn disregarded_in_upgrade(view: &View<'_>, rollback_begins: impl FnOnce() -> bool) -> Answer {
    let (fleet, service, from) = (view.fleet, &view.spec().service, view.spec().from);
    if fleet.disregarded_of(service).next().is_none() {
        return Answer::open();
    }
    let applied = fleet.reconciliation().and_then(|by| by.floors.get(service));
    let may_be_lost = applied.is_none_or(|floor| *floor <= from) && rollback_begins();
    let back_to = may_be_lost.then_some(from);
    Answer { is_open: true, reasons: named_disregarded(fleet, service, back_to, |_| true) }
}

/// Names the instances whose version is not known and whose claim a person disregarded: they are admitted only after a plan
/// includes them.
pub(crate) fn unknown_and_disregarded(fleet: &Fleet, service: &ServiceName) -> Vec<Reason> {
    named_disregarded(fleet, service, None, |instance| instance.known() == Known::Unknown)
}

/// The same of those whose version was never seen, and that requests may reach.
pub(crate) fn unseen_and_disregarded(fleet: &Fleet, service: &ServiceName) -> Vec<Reason> {
    named_disregarded(fleet, service, None, Instance::may_serve_unseen)
}

/// Disregarded instances of a service, by whether a plan may include them; `back_to` is the version to which a rollback
/// leads that may have been lost.
fn named_disregarded(
    fleet: &Fleet,
    service: &ServiceName,
    back_to: Option<ServiceVersion>,
    is_named: impl Fn(&Instance) -> bool,
) -> Vec<Reason> {
    let Some(of) = fleet.service(service) else { return Vec::new() };
    let mut found: BTreeMap<Inclusion, Vec<&NodeId>> = BTreeMap::new();
    for instance in fleet.disregarded_of(service).filter(|instance| is_named(instance)) {
        found.entry(Inclusion::of(fleet, of, instance, back_to)).or_default().push(&instance.node);
    }
    let reason = |(inclusion, nodes): (Inclusion, Vec<&NodeId>)| {
        let (service, nodes) = (service.clone(), Sample::of(nodes.iter().copied(), nodes.len()));
        Reason::Store(StoreGate::Disregarded { service, nodes, inclusion })
    };
    found.into_iter().map(reason).collect()
}

/// A record that authorises steps and cannot be read stops them; one of an instance, or of its node, closes that instance's
/// gates.
pub(crate) fn readable(view: &View<'_>) -> Answer {
    const NAMED: usize = 20;
    let service = &view.spec().service;
    let mut answer = Answer::open();
    for (key, why, _) in view.fleet.unreadable() {
        let (ours, stops) = match key {
            Key::Report(s, _) | Key::Inventory(s, _) | Key::Directive(s, _) | Key::Decommission(s, _) => {
                (s == service, false)
            }
            Key::Window(s) | Key::Active(s) | Key::Budget(s) => (s == service, true),
            Key::Waves(id, _) | Key::Exception(id, _) => (id == view.id, true),
            Key::Schema(id) => (view.upgrade.schema.as_ref().is_some_and(|schema| schema.id == *id), true),
            // It is kept out like any cordoned node.
            Key::Maintenance(node) => (view.service().is_some_and(|of| of.get(node).is_some()), false),
            _ => (false, false),
        };
        answer.is_open &= !(ours && stops);
        if ours && answer.reasons.len() < NAMED {
            answer.reasons.push(unreadable(key, why));
        }
    }
    answer
}

/// That a record cannot be read.
pub(crate) fn unreadable(key: &Key, why: &impl ToString) -> Reason {
    StoreGate::Unreadable { key: key.to_string(), why: why.to_string() }.into()
}

/// That a commit would compare a record as another one, because it cannot be read.
pub(crate) fn unreadable_in(fleet: &Fleet, commit: &Commit) -> Option<Reason> {
    let key = fleet.unreadable_in(commit)?;
    fleet.unreadable_at(key).map(|why| unreadable(key, why))
}

/// That the store refused a planned transaction.
pub fn refused(what: String, why: &impl ToString) -> Reason {
    StoreGate::StoreRefused { what, why: why.to_string() }.into()
}
