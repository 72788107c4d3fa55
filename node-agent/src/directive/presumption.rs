//! Directives that must take nothing out of rotation. Those that presume that the instance is out: they cost no capacity
//! budget. And the first one that an agent reads whose journal began after it: the journal before was lost, or the node was
//! installed again. Such an agent cannot distinguish a store from an older copy, in which the directive may be withdrawn since.
//!
//! # Invariants
//! * If the instance is in rotation before its stop has begun, the directive is declined: the instance continues without it,
//!   and the report says so under the directive's generation.
//! * A declined directive stays declined. The coordinator writes another one.

use super::identity::runs_already;
use super::seen::{DisableFile, Seen, Url};
use crate::journal::{Journal, Order, Phase};
use tidegate_proto::mutant;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Health;

/// Whether a directive that is read now must take nothing out of rotation, and the instance is in.
pub(crate) fn fails(order: &Order, journal: &Journal, seen: &Seen) -> bool {
    let begun = journal.phase == Phase::Stopping;
    let presumed = order.directive.presumes_out && !mutant::is("presumption-is-not-asked");
    (presumed || may_be_withdrawn(order, journal, seen)) && !begun && is_shown(journal, seen)
}

/// Whether a directive would take the instance out, and is the first that this agent reads and older than its journal. Before
/// its version is admitted that is not known, and one that answers 200 stays. What is refused leaves rotation in any case.
fn may_be_withdrawn(order: &Order, journal: &Journal, seen: &Seen) -> bool {
    let is_older = match journal.first_admission {
        Some(first) => order.generation < first,
        None => journal.admitted.is_none() && seen.url == Url::Good,
    };
    let stays = match &order.directive.disposition {
        Disposition::Serve { .. } => true,
        Disposition::Replace { release } => {
            seen.health == Health::Healthy && runs_already(release, journal, seen)
        }
        Disposition::Drain | Disposition::Stop => false,
    };
    let is_first = journal.order.is_none() && !mutant::is("order-before-the-journal-is-obeyed");
    is_older && !stays && is_first && journal.refusal.is_none()
}

/// Whether it runs, and no disable-file keeps requests away.
fn is_shown(journal: &Journal, seen: &Seen) -> bool {
    seen.file == DisableFile::Absent && !seen.nothing_runs(&journal.phase)
}

/// The phase in which an instance continues that does not carry out its directive.
pub(crate) fn phase_without(journal: &Journal) -> Phase {
    match &journal.phase {
        Phase::Draining | Phase::Drained { .. } | Phase::Failed { hidden: false, .. } => Phase::Verifying,
        phase => phase.clone(),
    }
}
