//! A release that was never shown since its last stop, and is drained.

use super::story::{Story, order, replace, version};
use crate::directive::act::Act;
use crate::directive::seen::{DisableFile, InFlight, Probed, Url};
use crate::journal::{Order, Phase};
use tidegate_proto::record::directive::OnDeadline;
use tidegate_proto::record::report::Health;

/// It has failed its verification. It accepts connections, and answers nothing. A rollback replaces it.
fn never_answers(unexposed: bool, replaces: Order) -> Story {
    let mut story = Story::serving();
    story.journal.unexposed = unexposed;
    story.disabled();
    (story.seen.probe, story.seen.url) = (Probed::Late, Url::Other);
    (story.seen.ready, story.seen.health) = (false, Health::Unhealthy);
    story.pass(0);
    story.enter(Phase::failed("verifying", "not healthy", true));
    story.ordered(replaces);
    assert_eq!(story.journal.phase, Phase::Draining);
    story
}

/// A replacement that fails where its drain reaches the deadline.
fn replaces_or_fails() -> Order {
    let mut replaces = order(9, replace(2));
    replaces.directive.drain.on_deadline = OnDeadline::Fail;
    replaces
}

/// It accepts connections, and answers nothing, so that it is not seen to refuse either.
#[test]
fn failed_release_that_never_answers_is_replaced() {
    for unexposed in [true, false] {
        let mut story = never_answers(unexposed, order(9, replace(2)));
        let mut counted = story.clone();
        counted.seen.in_flight = InFlight::Counted(0);
        let drained = |forced| Act::Enter(Phase::Drained { forced });
        assert_eq!(counted.pass(5).act(), Act::Wait, "balancers had no time to see it");
        let act = counted.pass(1).act();
        assert_eq!(act == drained(false), unexposed, "{act:?}");
        assert_eq!(story.pass(59).act(), Act::Wait, "it may work on requests");
        let act = story.pass(1).act();
        assert_eq!(act == drained(true), unexposed, "{act:?}");
    }
}

#[test]
fn failed_drain_shows_no_release_that_never_answered() {
    for unexposed in [true, false] {
        let mut story = never_answers(unexposed, replaces_or_fails());
        let act = story.pass(60).act();
        let Act::Enter(Phase::Failed { at, reason, hidden }) = act else { panic!("{act:?}") };
        assert_eq!((at.as_str(), hidden), ("draining", unexposed), "{reason}");
        story.enter(Phase::Failed { at, reason, hidden });
        let next = if unexposed { Act::Wait } else { Act::Enable };
        assert_eq!(story.act(), next, "what was in rotation is put back there");
    }
    let mut well = never_answers(true, replaces_or_fails());
    (well.seen.probe, well.seen.url, well.seen.ready) = (Probed::Version(version(1)), Url::Unavailable, true);
    let act = well.pass(0).pass(60).act();
    assert!(matches!(act, Act::Enter(Phase::Failed { hidden: false, .. })), "it is healthy: {act:?}");
}

/// It crashed in rotation before, and balancers had not noticed that when it was started again.
#[test]
fn closed_listener_is_drained_again_after_a_failed_drain() {
    let mut story = never_answers(true, replaces_or_fails());
    story.pass(1).silent();
    let act = story.pass(60).act();
    assert!(matches!(act, Act::Enter(Phase::Failed { hidden: false, .. })), "it may work: {act:?}");
}

#[test]
fn hanging_release_never_shown_leaves_its_agent_reporting() {
    for unexposed in [true, false] {
        let mut story = never_answers(unexposed, replaces_or_fails());
        assert_eq!(story.seen.hangs(&story.journal), !unexposed, "never shown: {unexposed}");
        story.seen.url = Url::Good;
        assert!(story.seen.hangs(&story.journal), "balancers send it requests");
        (story.seen.url, story.seen.file) = (Url::Other, DisableFile::Absent);
        assert!(story.seen.hangs(&story.journal), "its disable-file was removed");
    }
}
