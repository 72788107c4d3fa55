//! Directives that presume that the instance is out of rotation: they cost no capacity budget, so they must take nothing out
//! of rotation.
//!
//! # Invariants
//! * If the instance is in rotation before its stop has begun, the directive is declined: the instance continues without it,
//!   and the report says so under the directive's generation.
//! * A declined directive stays declined. The coordinator writes another one.

use super::seen::{DisableFile, Seen};
use crate::journal::{Journal, Order, Phase};
use tidegate_proto::mutant;

/// Whether a directive that is read now presumes that the instance is out of rotation, and it is not.
pub(crate) fn fails(order: &Order, journal: &Journal, seen: &Seen) -> bool {
    let begun = journal.phase == Phase::Stopping;
    let presumed = order.directive.presumes_out && !mutant::is("presumption-is-not-asked");
    presumed && !begun && is_shown(journal, seen)
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
