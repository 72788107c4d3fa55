//! What refuses a version is `admit.rs`. Which refused instance stays in rotation: one whose version changed there, that a
//! reconciled window does not admit, or that served while the floor rose above it to what compute releases need. How many
//! others serve is known to the coordinator only, so it stays until the coordinator drains it, unless a contracted schema
//! forbids its version. That holds whether it is verified or not, also under an order to replace it, which has brought it into
//! rotation by then: what answers is not the release that is verified. An agent without a journal that finds an instance in
//! rotation cannot tell whether a former store had admitted it: above the ceiling, it stays until a window is set after the
//! reconciliation. Every other refused instance is disabled by its agent.

use super::timers::Timers;
use crate::config::Service;
use crate::journal::{Journal, Phase, Refusal};
use std::time::Duration;
use tidegate_proto::mutant;
use tokio::time::Instant;

/// Whether it never left rotation, as far as balancers can see. What was refused there before, what the floor has risen
/// above, and what served in this boot of the machine (`boot`) and has answered 200 in each look, is in until it is seen to have
/// left: its agent may have begun a moment ago, and has not seen it in rotation for long. What is back by the word of a former
/// store is in from the first look that shows it: looks are too seldom to see since when.
pub(crate) fn is_still_in(
    service: &Service,
    journal: &Journal,
    boot: &str,
    timers: &Timers,
    refusal: &Refusal,
    now: Instant,
) -> bool {
    let fall = service.fall_time();
    let rise = if is_back_by_former(journal, boot, refusal) { Duration::ZERO } else { service.rise_time() };
    let was_in = match &journal.phase {
        // What a boot has started came into rotation.
        Phase::Serving => journal.admitted_boot.as_deref() == Some(boot) && timers.has_no_gap(),
        // Its agent has just begun, and has no journal of it.
        Phase::Fresh => timers.has_no_gap(),
        Phase::Refused { stays, .. } => stays.is_some(),
        _ => false,
    };
    match refusal.overtaken || was_in {
        true => !timers.has_left(now, fall),
        false => timers.is_still_in(now, rise, fall),
    }
}

/// Whether a former store admitted the version in this boot of the machine, and its agent has acknowledged no window since this
/// store was reconciled: whatever came back until then did so by the window of the former one.
fn is_back_by_former(journal: &Journal, boot: &str, refusal: &Refusal) -> bool {
    let admitted = journal.admitted.as_ref();
    let is_of_former = admitted.is_some_and(|a| a.version == refusal.version && !a.revision.exists());
    is_of_former && journal.window.is_none() && journal.admitted_boot.as_deref() == Some(boot)
}

/// Whether an instance stays in rotation although its version is refused. `boot`: of the machine, now; `still_in`: see
/// [`is_still_in`].
pub(crate) fn stays(journal: &Journal, boot: &str, refusal: &Refusal, still_in: bool) -> bool {
    // What was admitted by a former store, and not by this one since.
    let former = journal.admitted.as_ref().is_some_and(|admitted| !admitted.revision.exists());
    let is_another = journal.admitted.as_ref().is_some_and(|a| a.version != refusal.version);
    let is_unadmitted = former || is_another;
    let stays_unverified = is_unadmitted && !mutant::is("changed-while-verified-is-disabled");
    // Only a former store may have admitted it: its agent has admitted nothing since its journal began. Below the floor, what
    // it needs may be gone.
    let is_found = journal.admitted.is_none() && refusal.above;
    let served = match &journal.phase {
        // No window was set since the store was reconciled, and the plan may have lacked this instance.
        Phase::Fresh => is_found && refusal.window <= journal.witness.reconciled,
        Phase::Serving => is_unadmitted || refusal.overtaken,
        // The coordinator counts it as in rotation, whichever order brought it there.
        Phase::Verifying => stays_unverified,
        // A drain may have failed, too: that order takes it out.
        Phase::Failed { hidden: false, .. } => stays_unverified && journal.is_let_in(),
        Phase::Refused { stays, .. } => stays.as_deref() == Some(boot),
        _ => false,
    };
    // A reconciled window does not say what was contracted: nothing was above the floor that was obeyed.
    let above_floor = journal.witness.floor.is_none_or(|floor| floor <= refusal.version);
    let by_former = former && above_floor || is_found;
    let borne = refusal.bears || by_former || mutant::is("contracted-is-not-asked-of-what-serves");
    served && still_in && borne && !mutant::is("changed-version-is-disabled-at-once")
}

#[cfg(test)]
mod tests {
    use super::super::tests::story::{Story, order, release, replace, version};
    use super::*;
    use crate::directive::act::Act;
    use crate::directive::seen::{Probed, Url};
    use crate::journal::Admitted;
    use tidegate_proto::Revision;
    use tidegate_proto::record::directive::Disposition;

    fn refusal(bears: bool, overtaken: bool) -> Refusal {
        let reason = "below the floor".to_owned();
        Refusal { version: version(1), window: Revision(7), reason, bears, overtaken, above: false }
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
    }

    /// The order replaces version 2 with the release that runs, as a rollback does: nothing is started.
    #[test]
    fn version_changed_while_its_replacement_is_verified_stays() {
        let mut story = put_back_under(replace(2));
        let stays =
            |story: &Story, bears, still_in| stays(&story.journal, "boot", &refusal(bears, false), still_in);
        assert!(stays(&story, true, true), "how many others serve is not known to it");
        assert!(!stays(&story, true, false), "it comes into rotation");
        assert!(!stays(&story, false, true), "below a contracted schema");
        story.enter(Phase::failed("draining", "requests in flight", false));
        assert!(!stays(&story, true, true), "an order takes it out");
    }

    fn still_in(story: &Story) -> bool {
        let Story { service, journal, timers, seen } = story;
        is_still_in(service, journal, "boot", timers, &refusal(true, false), seen.now)
    }

    /// Its agent was away when its version changed, and has looked once since.
    #[test]
    fn version_changed_while_its_agent_was_away_stays() {
        for (boot, url, expected) in [
            (Some("boot"), Url::Good, true),
            (Some("boot"), Url::Unavailable, false),
            (Some("an earlier boot"), Url::Good, false),
            (None, Url::Good, false),
        ] {
            let mut story = put_back_under(Disposition::Serve { returning: false });
            story.enter(Phase::Serving);
            story.journal.admitted_boot = boot.map(str::to_owned);
            story.timers = Timers::new(story.seen.now, false);
            story.seen.url = url;
            story.pass(0);
            let stays = stays(&story.journal, "boot", &refusal(true, false), still_in(&story));
            assert_eq!(stays, expected, "admitted in {boot:?}, its health URL: {url:?}");
        }
    }

    /// Its agent was restarted, and asks for it again: the window has moved, say.
    #[test]
    fn staying_instance_stays_after_a_restart_of_its_agent() {
        let staying = Phase::Refused { reason: "below the floor".to_owned(), stays: Some("boot".to_owned()) };
        for (phase, expected) in [(staying, true), (Phase::Verifying, false)] {
            let mut story = put_back_under(Disposition::Serve { returning: false });
            story.enter(phase.clone());
            story.timers = Timers::new(story.seen.now, false);
            story.pass(0);
            assert_eq!(still_in(&story), expected, "{phase:?}");
            story.seen.url = Url::NoListener;
            story.pass(0).pass(10);
            assert!(!still_in(&story), "{phase:?}: it has left rotation");
        }
    }

    /// Its store and its journal are lost, and it was not in the plan by which a person reconciled the store at revision 6.
    fn found() -> Story {
        let mut story = Story::serving();
        story.journal = Journal::default();
        story.journal.reconcile(Revision(6));
        story.timers = Timers::new(story.seen.now, false);
        story
    }

    fn is_left(story: &Story, window: i64, above: bool) -> bool {
        let refusal = Refusal { window: Revision(window), above, ..refusal(false, false) };
        stays(&story.journal, "boot", &refusal, still_in(story))
    }

    #[test]
    fn instance_found_above_a_reconciled_window_stays() {
        let mut story = found();
        story.pass(0);
        assert!(is_left(&story, 6, true), "how many others serve is not known to it");
        assert!(is_left(&story, 5, true), "the reconciliation left the window as it was");
        assert!(!is_left(&story, 6, false), "what it needs may be contracted");
        assert!(!is_left(&story, 7, true), "the window was set later, as by an upgrade");
        let mut hidden = found();
        assert!(!is_left(hidden.disabled(), 6, true), "it is out of rotation");
        let mut refuses = found();
        refuses.seen.url = Url::Unavailable;
        assert!(!is_left(refuses.pass(0), 6, true), "it comes into rotation");
        story.enter(Phase::Refused { reason: "above".to_owned(), stays: Some("boot".to_owned()) });
        assert!(is_left(&story, 7, true), "it is asked for again");
        story.journal = Journal::default();
        assert!(!is_left(&story, 6, true), "no person has reconciled the store");
    }

    /// Its store was lost while it hung, and it was not in the plan by which a person reconciled the store at revision 6. By
    /// then it answers again.
    fn back() -> Story {
        let mut story = Story::serving();
        story.journal.admitted_boot = Some("boot".to_owned());
        story.seen.url = Url::Other;
        story.pass(1).pass(60);
        story.journal.reconcile(Revision(6));
        assert!(!is_left(&story, 6, true), "it has left rotation");
        story.seen.url = Url::Good;
        story.pass(1);
        story
    }

    #[test]
    fn instance_back_before_its_store_is_reconciled_stays() {
        let mut story = back();
        for phase in [Phase::Serving, Phase::Verifying, Phase::failed("verifying", "not healthy", false)] {
            story.enter(phase.clone());
            assert!(is_left(&story, 6, true), "{phase:?}: balancers may have seen it before its agent");
        }
        let others: [(&str, fn(&mut Story)); 4] = [
            ("it is hidden", |story| {
                story.disabled();
            }),
            ("its agent knew the window before", |story| {
                story.window(2, 2, 6);
            }),
            ("the machine was booted", |story| {
                story.journal.admitted_boot = Some("an earlier boot".to_owned());
            }),
            ("the former store admitted another version", |story| {
                story.journal.admitted.as_mut().unwrap().version = version(2);
            }),
        ];
        for (why, other) in others {
            let mut story = back();
            other(&mut story);
            assert!(!is_left(&story, 6, true), "{why}");
        }
    }

    /// A later window admits it, as that of a rollback does, on each node in the same moment.
    #[test]
    fn staying_instance_serves_once_its_version_is_admitted() {
        let mut story = put_back_under(replace(2));
        story.window(1, 2, 8);
        let admitted_as = |story: &mut Story, number: i64| {
            let release = Some(release(number).tag);
            let admitted =
                Admitted { version: version(number), release: release.clone(), revision: Revision(9) };
            (story.journal.admitted, story.journal.release) = (Some(admitted), release);
            story.seen.probe = Probed::Version(version(number));
        };
        let staying = Phase::Refused { reason: "below the floor".to_owned(), stays: Some("boot".to_owned()) };
        for (number, next) in [(1, Phase::Serving), (2, Phase::Verifying)] {
            story.enter(staying.clone());
            admitted_as(&mut story, number);
            assert_eq!(story.act(), Act::Enter(next), "version {number}: only the coordinator takes it out");
        }
        admitted_as(&mut story, 1);
        story.disabled().enter(Phase::refused("below the floor"));
        assert_eq!(story.act(), Act::Enter(Phase::Draining), "it is out already");
    }
}
