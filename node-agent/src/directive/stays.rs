//! What refuses a version is `admit.rs`. Which refused instance stays in rotation: one whose version changed there, that a
//! reconciled window does not admit, or that served while the floor rose above it to what compute releases need. How many
//! others serve is known to the coordinator only, so it stays until the coordinator drains it, unless a contracted schema
//! forbids its version. Every other refused instance is disabled by its agent.

use crate::journal::{Journal, Phase, Refusal};
use tidegate_proto::mutant;

/// Whether an instance stays in rotation although its version is refused. `boot`: of the machine, now; `still_in`: whether
/// it never left rotation, as far as balancers can see.
pub(crate) fn stays(journal: &Journal, boot: &str, refusal: &Refusal, still_in: bool) -> bool {
    // What was admitted by a former store, and not by this one since.
    let former = journal.admitted.as_ref().is_some_and(|admitted| !admitted.revision.exists());
    let served = match &journal.phase {
        Phase::Serving => {
            let is_another = journal.admitted.as_ref().is_some_and(|a| a.version != refusal.version);
            former || is_another || refusal.overtaken
        }
        Phase::Refused { stays, .. } => stays.as_deref() == Some(boot),
        _ => false,
    };
    // A reconciled window does not say what was contracted: nothing was above the floor that was obeyed.
    let above_floor = journal.witness.floor.is_none_or(|floor| floor <= refusal.version);
    let borne =
        refusal.bears || former && above_floor || mutant::is("contracted-is-not-asked-of-what-serves");
    served && still_in && borne && !mutant::is("changed-version-is-disabled-at-once")
}

#[cfg(test)]
mod tests {
    use super::super::tests::story::{Story, version};
    use super::*;
    use tidegate_proto::Revision;

    #[test]
    fn serving_instance_below_a_risen_watched_floor_stays() {
        let refusal = |bears, overtaken| {
            let reason = "below the floor".to_owned();
            Refusal { version: version(1), window: Revision(7), reason, bears, overtaken }
        };
        let mut story = Story::serving();
        assert!(stays(&story.journal, "boot", &refusal(true, true), true));
        assert!(!stays(&story.journal, "boot", &refusal(true, true), false), "it has left rotation");
        assert!(!stays(&story.journal, "boot", &refusal(false, true), true), "below a contracted schema");
        assert!(!stays(&story.journal, "boot", &refusal(true, false), true), "an upgrade set the floor");
        story.enter(Phase::Verifying);
        assert!(!stays(&story.journal, "boot", &refusal(true, true), true), "it comes into rotation");
    }
}
