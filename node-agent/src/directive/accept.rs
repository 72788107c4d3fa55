//! Accepting a directive, and the phase that it brings. Generation and phase are journalled together, so that a report
//! never shows one without the other.

use super::identity::runs_already;
use super::presumption;
use super::seen::Seen;
use super::timers::Timers;
use crate::config::Service;
use crate::host::Alive;
use crate::journal::{Journal, Known, Order, Phase};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::record::report::{Health, Rotation};
use tidegate_proto::{NodeId, Revision, ServiceName};

/// What is to be done with the directive that the store has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reading {
    /// It is the one that is being obeyed, or there is none.
    Known,
    Newer(Box<Order>),
    /// It is older than one that was accepted: the store was restored, or is another one.
    Older,
    /// It has the generation that was accepted and says something else: that cannot be.
    Different,
}

/// Whether the store has fallen back behind what this agent has journalled of its window or its directive: it was
/// restored from a backup, or is another one. A window is never taken away, and the revisions of both only rise. A person
/// may have put a window into it since; the older directive still shows the fall. Since a reconciliation directives count
/// from that.
pub(crate) fn fell_back(journal: &Journal, window: Option<&Option<Known>>, wanted: Option<&Order>) -> bool {
    let revision = |known: &Option<Known>| known.as_ref().map_or(Revision::ABSENT, |known| known.revision);
    let has_older_window = window.is_some_and(|window| revision(window) < journal.window_revision());
    has_older_window || wanted.is_some_and(|order| order.generation < journal.accepted_here())
}

/// Whether a person disregarded what this agent obeyed of a later revision than the store had then. The store counts as
/// fallen until a plan includes the instance, also once its records are of later revisions again.
pub(crate) fn is_disregarded(
    journal: &Journal,
    service: &ServiceName,
    node: &NodeId,
    word: Option<&(Revision, Reconciliation)>,
) -> bool {
    word.is_some_and(|(at, word)| word.disregards_later(service, node, *at, journal.claimed()))
}

/// Whether nothing of the store is to be taken in before a person has reconciled it, or included this instance: no
/// directive, no window, and no floor, which reports claim.
pub(crate) fn is_fallen(journal: &Journal, seen: &Seen) -> bool {
    seen.disregarded || fell_back(journal, seen.window.as_ref(), seen.wanted.as_ref())
}

/// The reconciliation from which on this agent may obey the store: a new one, by a person who had before them what it
/// obeyed.
pub(crate) fn reconciled(
    journal: &Journal,
    service: &ServiceName,
    node: &NodeId,
    word: Option<&(Revision, Reconciliation)>,
) -> Option<Revision> {
    let (at, word) = word?;
    (*at != journal.witness.reconciled && word.covers(service, node, journal.obeyed())).then_some(*at)
}

/// Compares the directive that the store has with the one that was accepted.
pub(crate) fn read(journal: &Journal, seen: &Seen) -> Reading {
    let Some(wanted) = &seen.wanted else { return Reading::Known };
    match wanted.generation.cmp(&journal.generation()) {
        std::cmp::Ordering::Greater => Reading::Newer(Box::new(wanted.clone())),
        std::cmp::Ordering::Less => Reading::Older,
        std::cmp::Ordering::Equal if journal.order.as_ref() == Some(wanted) => Reading::Known,
        std::cmp::Ordering::Equal => Reading::Different,
    }
}

/// The phase that an instance goes into with a newer order.
pub(crate) fn phase_for(
    order: &Order,
    service: &Service,
    journal: &Journal,
    seen: &Seen,
    timers: &Timers,
) -> Phase {
    let runs = !seen.nothing_runs(&journal.phase);
    let back = timers.rotation(seen, service) == Rotation::In;
    let unnoticed = timers.is_unnoticed(seen.now, service.fall_time());
    let true_now = runs && seen.health == Health::Healthy && back && seen.ready;
    match &order.directive.disposition {
        // From here on it cannot be recalled before it has ended.
        _ if journal.phase == Phase::Stopping => Phase::Stopping,
        _ if presumption::fails(order, journal, seen) => presumption::phase_without(journal),
        Disposition::Serve { .. } => serve(service, journal, seen, true_now, unnoticed),
        Disposition::Drain => match journal.phase {
            Phase::Drained { .. } => journal.phase.clone(),
            _ => Phase::Draining,
        },
        Disposition::Replace { .. } | Disposition::Stop if !runs => Phase::Stopped,
        // It answers no request and was never sent one: there is nothing to wait for. A drain goes on, and knows what has listened.
        Disposition::Replace { .. } | Disposition::Stop
            if is_untouched(journal, seen) && !unnoticed && journal.phase != Phase::Draining =>
        {
            Phase::Drained { forced: false }
        }
        Disposition::Stop => out_of_rotation(journal),
        Disposition::Replace { release } => {
            let being_verified = journal.phase == Phase::Verifying;
            match runs_already(release, journal, seen) {
                true if true_now && journal.phase == Phase::Serving => Phase::Serving,
                true if seen.health == Health::Healthy || being_verified => Phase::Verifying,
                _ => out_of_rotation(journal),
            }
        }
    }
}

/// Whether it answers no request, and was never shown since its last stop. What it was before that may have left without a
/// drain: then balancers still send requests, to what runs now, until they have noticed.
pub(super) fn is_untouched(journal: &Journal, seen: &Seen) -> bool {
    seen.was_never_shown(journal) && seen.alive == Alive::Silent
}

fn serve(service: &Service, journal: &Journal, seen: &Seen, true_now: bool, unnoticed: bool) -> Phase {
    match &journal.phase {
        Phase::Serving if true_now => Phase::Serving,
        Phase::Starting { .. } | Phase::Refused { .. } | Phase::Fresh => journal.phase.clone(),
        _ if seen.nothing_runs(&journal.phase) => Phase::Stopped,
        // What failed or was drained, and does not answer, is started again, and that begins with its stop hook (`start_again`).
        Phase::Failed { .. } | Phase::Drained { .. }
            if seen.alive == Alive::Silent && service.driver.is_some() =>
        {
            if unnoticed {
                Phase::Fresh
            } else {
                Phase::Stopping
            }
        }
        _ => Phase::Verifying,
    }
}

fn out_of_rotation(journal: &Journal) -> Phase {
    match journal.phase {
        Phase::Drained { .. } => journal.phase.clone(),
        _ => Phase::Draining,
    }
}
