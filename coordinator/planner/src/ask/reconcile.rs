//! Reconcile a store that was restored from a backup, or is blank. First a plan: every witness, its claim, what runs
//! where, and what would change for whom. Then a person applies just that plan.
//!
//! # Invariants
//! * A claim of one node alone is applied only where a person includes it.
//! * No floor is left below one that was applied, nor below what the database of a refused start has contracted, whether an
//!   agent claims anything or not.
//! * An instance that is out of rotation, or refused and hidden by its agent, and whose claim is not applied raises no
//!   ceiling. Nor does one whose agent obeyed a lower ceiling than what it runs, and had another version admitted, or
//!   hides it and did not have it admitted after that window was set.
//! * An instance that its agent has refused and leaves in rotation gets room also where no claim of its service is applied,
//!   while nothing acts on the store.
//! * The ceiling of a window that the former store had replaced by a later one is not kept for versions that do not run,
//!   unless an upgrade of the service moves instances inside it.
//! * Every instance that is not disregarded runs a known version inside the new window, so that no instance is refused
//!   because of it. One that is out of rotation, and that a person includes, may run an unknown version: it is taken out
//!   already, counts as unknown, and is admitted before it comes back.
//! * No instance of the plan is forgotten with its report.

mod ceiling;
mod disregarded;
mod listed;
mod proposal;
mod propose;
mod refused;

pub use proposal::{Choices, Fate, Proposal, Runs, WindowChange, Witness};

use super::{Asker, Refusal, demand_why, with_event};
use crate::fleet::Fleet;
use crate::gate::store::unreconciled;
use crate::moment::Moment;
use propose::Planned;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::{Kind, Subject};
use tidegate_proto::record::window::{BY_RECONCILIATION, Window};
use tidegate_proto::{Digest, Key, Revision, UpgradeId};

/// What a window is set by where a person reconciled it.
fn reconciliation() -> UpgradeId {
    BY_RECONCILIATION.parse().expect("a plain word is a name")
}

/// Whether anything but what makes things safer may be granted on this store.
///
/// # Errors
/// A refusal that names what contradicts it.
pub fn reconciled(fleet: &Fleet, moment: &Moment) -> Result<(), Refusal> {
    match unreconciled(fleet, &moment.schemas) {
        None => Ok(()),
        Some(reason) => Err(Refusal::state(format!(
            "{reason}. When you know what happened since: `tidegate fleet reconcile` shows the plan"
        ))),
    }
}

/// What reconciling would do now.
///
/// # Errors
/// Refused while agents have time left to report, where nothing contradicts the store, and for choices that name no
/// instance.
pub fn propose(fleet: &Fleet, moment: &Moment, choices: &Choices) -> Result<Proposal, Refusal> {
    Planned::of(fleet, moment, choices).map(|planned| planned.proposal)
}

/// Reconciles the store by the plan of this hash.
///
/// # Errors
/// Refused without a reason, where what the plan was computed from has changed, and where an instance that was not
/// disregarded runs an unknown version or one outside the new window, or needs another window changed than one transaction
/// can. An included one that is out of rotation may run an unknown version.
pub fn reconcile(
    fleet: &Fleet,
    moment: &Moment,
    choices: &Choices,
    hash: Digest,
    asker: &Asker,
) -> Result<Commit, Refusal> {
    demand_why(asker, "reconciling the store")?;
    let Planned { proposal, body } = Planned::of(fleet, moment, choices)?;
    let found = proposal.hash();
    if found != hash {
        return Err(Refusal::state(format!(
            "the plan {hash} is out of date, because what it was computed from has changed: the plan is {found} now. Look at it with `tidegate fleet reconcile` and apply that, with the same --disregard and --include"
        )));
    }
    let refusals: Vec<String> = proposal.refusals().collect();
    if !refusals.is_empty() {
        let more = refusals.len().saturating_sub(NAMED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        return Err(Refusal::state(format!(
            "the plan cannot be applied: {}{more}. Bring these instances back, start a version there that the new window admits, decommission them, or name each with --disregard",
            refusals.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join("; ")
        )));
    }
    let changes = proposal.nothing_acts
        || !proposal.databases.is_empty()
        || !choices.disregard.is_empty()
        || !fleet.counts_on()
        || proposal.witnesses.iter().any(|witness| witness.fate != Fate::Quarantined);
    if !changes {
        let lacks = |witness: &Witness| Some(format!("{}: {}", witness.instance, witness.lacks.as_ref()?));
        let named: Vec<String> = proposal.witnesses.iter().filter_map(lacks).take(NAMED).collect();
        return Err(Refusal::state(format!(
            "the plan changes nothing, because it applies no claim: {}. Name the instance with --include or --disregard, or decommission it",
            named.join("; ")
        )));
    }
    let known = fleet.reconciliation();
    let mut body = body;
    (body.who, body.why, body.at) = (asker.who.clone(), asker.why.clone(), moment.wall);
    let commit = with_event(moment, Subject::Fleet, asker, &was(fleet, &proposal), &becomes(&proposal, hash))
        .when(Precondition::At(Key::Reconciliation, known.map_or(Revision::ABSENT, |known| known.at)));
    // What runs where, and each window, is still what the plan shows.
    let commit = [Kind::Report, Kind::Inventory, Kind::Decommission, Kind::Window]
        .into_iter()
        .fold(commit, |commit, kind| commit.when(Precondition::NonePutAfter(kind, fleet.revision())));
    let commit = proposal.windows.iter().fold(commit, |commit, change| set_window(fleet, commit, change));
    Ok(match known {
        Some(known) => commit.put(Key::Reconciliation, known.record.with(body)),
        None => commit.put(Key::Reconciliation, body),
    })
}

/// How many instances a text names.
const NAMED: usize = 10;

fn set_window(fleet: &Fleet, commit: Commit, change: &WindowChange) -> Commit {
    let Some((floor, ceiling)) = change.then.filter(|_| change.changes()) else { return commit };
    let key = Key::Window(change.service.clone());
    // What was contracted is not known of a store that lost records: the window itself is the bound.
    let body = Window { floor, ceiling, set_by: reconciliation(), contracted: None };
    match fleet.service(&change.service).and_then(|service| service.window()) {
        Some(now) => commit.put(key, now.record.with(body)),
        None => commit.put(key, body),
    }
}

/// What was said against the store, for the history.
fn was(fleet: &Fleet, proposal: &Proposal) -> String {
    let mut said: Vec<String> = Vec::new();
    said.extend(
        proposal.fall.map(|(seen, found)| format!("a coordinator saw revision {seen}, then {found}")),
    );
    said.extend(
        proposal
            .databases
            .iter()
            .map(|(id, term, _)| format!("the database of upgrade {id} obeyed term {term}")),
    );
    let uncounted = "the reconciliation record names a revision that no store can have given";
    said.extend((!fleet.counts_on()).then(|| uncounted.to_owned()));
    let others = said.len();
    said.extend(proposal.witnesses.iter().map(|witness| format!("{} {}", witness.instance, witness.says)));
    let more = (proposal.witnesses.len() + others).saturating_sub(NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    said.truncate(NAMED);
    format!("{}{more}", said.join("; "))
}

fn becomes(proposal: &Proposal, hash: Digest) -> String {
    let names = |what: &str, of: &std::collections::BTreeSet<tidegate_proto::InstanceId>| {
        let named: Vec<String> = of.iter().take(NAMED).map(ToString::to_string).collect();
        let more = of.len().saturating_sub(NAMED);
        match (named.is_empty(), more) {
            (true, _) => String::new(),
            (false, 0) => format!("; {what} {}", named.join(", ")),
            (false, more) => format!("; {what} {} and {more} more", named.join(", ")),
        }
    };
    format!(
        "reconciled by plan {hash}{}{}",
        names("disregarded", &proposal.choices.disregard),
        names("included", &proposal.choices.include)
    )
}
