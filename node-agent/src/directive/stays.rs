//! What refuses a version is `admit.rs`. Which refused instance stays in rotation: one whose version changed there, or that a reconciled window does not
//! admit. How many others serve is known to the coordinator only, so it stays until the coordinator drains it, unless a
//! contracted schema forbids its version. Every other refused instance is disabled by its agent.

use crate::journal::{Journal, Phase, Refusal};
use tidegate_proto::mutant;

/// Whether an instance stays in rotation although its version is refused. `boot`: of the machine, now; `still_in`: whether
/// it never left rotation, as far as balancers can see.
pub(crate) fn stays(journal: &Journal, boot: &str, refusal: &Refusal, still_in: bool) -> bool {
    // What was admitted by a former store, and not by this one since.
    let former = journal.admitted.as_ref().is_some_and(|admitted| !admitted.revision.exists());
    let changed_there = match &journal.phase {
        Phase::Serving => former || journal.admitted.as_ref().is_some_and(|a| a.version != refusal.version),
        Phase::Refused { stays, .. } => stays.as_deref() == Some(boot),
        _ => false,
    };
    // A reconciled window does not say what was contracted: nothing was above the floor that was obeyed.
    let above_floor = journal.witness.floor.is_none_or(|floor| floor <= refusal.version);
    let borne =
        refusal.bears || former && above_floor || mutant::is("contracted-is-not-asked-of-what-serves");
    changed_there && still_in && borne && !mutant::is("changed-version-is-disabled-at-once")
}
