//! What refuses a version is `admit.rs`. Which refused instance stays in rotation: one whose version changed there, that a
//! reconciled window does not admit, or that served while the floor rose above it to what compute releases need. How many
//! others serve is known to the coordinator only, so it stays until the coordinator drains it, unless a contracted schema
//! forbids its version. Verified or not, it is left there while no order takes it out or replaces it. Every other refused
//! instance is disabled by its agent.

use crate::journal::{Journal, Phase, Refusal};
use tidegate_proto::mutant;

/// Whether an instance stays in rotation although its version is refused. `boot`: of the machine, now; `still_in`: whether
/// it never left rotation, as far as balancers can see.
pub(crate) fn stays(journal: &Journal, boot: &str, refusal: &Refusal, still_in: bool) -> bool {
    // What was admitted by a former store, and not by this one since.
    let former = journal.admitted.as_ref().is_some_and(|admitted| !admitted.revision.exists());
    let is_another = journal.admitted.as_ref().is_some_and(|a| a.version != refusal.version);
    let is_unadmitted = former || is_another;
    let served = match &journal.phase {
        Phase::Serving => is_unadmitted || refusal.overtaken,
        // It is verified once more where it serves, or that has failed: no order has taken it out.
        Phase::Verifying | Phase::Failed { hidden: false, .. } => {
            is_unadmitted && journal.is_let_in() && !mutant::is("changed-while-verified-is-disabled")
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
    use super::super::tests::story::{Story, order, release, replace, version};
    use super::*;
    use crate::directive::act::Act;
    use crate::directive::seen::Probed;
    use crate::journal::Admitted;
    use tidegate_proto::Revision;
    use tidegate_proto::record::directive::Disposition;

    fn refusal(bears: bool, overtaken: bool) -> Refusal {
        let reason = "below the floor".to_owned();
        Refusal { version: version(1), window: Revision(7), reason, bears, overtaken }
    }

    #[test]
    fn serving_instance_below_a_risen_watched_floor_stays() {
        let mut story = Story::serving();
        assert!(stays(&story.journal, "boot", &refusal(true, true), true));
        assert!(!stays(&story.journal, "boot", &refusal(true, true), false), "it has left rotation");
        assert!(!stays(&story.journal, "boot", &refusal(false, true), true), "below a contracted schema");
        assert!(!stays(&story.journal, "boot", &refusal(true, false), true), "an upgrade set the floor");
        story.enter(Phase::Verifying);
        assert!(!stays(&story.journal, "boot", &refusal(true, true), true), "it comes into rotation");
    }

    /// Version 2 serves, and is not ready in the look in which this order is accepted. Then version 1 is put back.
    fn put_back_under(disposition: Disposition) -> Story {
        let mut story = Story::serving();
        let admitted = Admitted { version: version(2), release: None, revision: Revision(5) };
        (story.journal.admitted, story.journal.release) = (Some(admitted), Some(release(2).tag));
        (story.seen.probe, story.seen.ready) = (Probed::Version(version(2)), false);
        story.ordered(order(9, disposition));
        assert_eq!(story.journal.phase, Phase::Verifying);
        story.seen.probe = Probed::Version(version(1));
        assert!(matches!(story.act(), Act::AdmitRunning(..)), "{:?}", story.act());
        story
    }

    #[test]
    fn version_changed_while_verified_in_rotation_stays() {
        for returning in [false, true] {
            let mut story = put_back_under(Disposition::Serve { returning });
            for phase in [Phase::Verifying, Phase::failed("verifying", "not healthy", false)] {
                story.enter(phase.clone());
                let stays = |bears, still_in| stays(&story.journal, "boot", &refusal(bears, false), still_in);
                assert!(stays(true, true), "{phase:?}");
                assert!(!stays(true, false), "{phase:?}: it has left rotation");
                assert!(!stays(false, true), "{phase:?}: below a contracted schema");
            }
            story.enter(Phase::failed("verifying", "not healthy", true));
            assert!(!stays(&story.journal, "boot", &refusal(true, false), true), "it is hidden");
        }
        let replaced = put_back_under(replace(2));
        assert!(!stays(&replaced.journal, "boot", &refusal(true, false), true), "an order starts a release");
    }
}
