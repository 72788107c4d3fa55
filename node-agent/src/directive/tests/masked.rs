//! Readiness that the disable-file hides, and what is judged once the instance is shown.

use super::story::{Story, order, replace};
use crate::directive::act::Act;
use crate::directive::seen::{DisableFile, Url};
use crate::journal::Phase;
use tidegate_proto::record::directive::Disposition;

/// Version 1 is being verified behind the agent's own file, which is all that its readiness URL says.
fn masked() -> Story {
    let mut story = Story::serving();
    story.ordered(order(9, replace(1)));
    story.seen.ready = false;
    story.seen.masked = true;
    story.disabled();
    story.enter(Phase::Verifying);
    story
}

fn shown(story: &mut Story, ready: bool) {
    story.journal.shown_unjudged = true;
    story.seen.file = DisableFile::Absent;
    story.seen.masked = false;
    story.seen.ready = ready;
    story.seen.url = if ready { Url::Good } else { Url::Unavailable };
    story.pass(0);
}

#[test]
fn masked_instance_is_shown_and_unready_one_is_hidden_again() {
    let mut story = masked();
    assert_eq!(story.act(), Act::Enable);
    shown(&mut story, false);
    assert_eq!(story.act(), Act::Wait, "it has had no time to answer");
    story.pass_ms(499);
    assert_eq!(story.act(), Act::Wait);
    story.pass_ms(1);
    assert_eq!(story.act(), Act::Disable);
    // As the agent notes it.
    story.journal.shown_unjudged = false;
    story.timers.disabled_again(story.seen.now);
    story.seen.masked = true;
    story.disabled();
    assert_eq!(story.act(), Act::Wait, "not at once again");
    story.pass(1);
    assert_eq!(story.act(), Act::Enable);
    story.timers.disabled_again(story.seen.now);
    story.pass(1);
    assert_eq!(story.act(), Act::Wait, "later and later");
    story.seen.said.ready = "503 \"DATABASE DOWN\"".to_owned();
    story.timers.phase_since = story.seen.now - std::time::Duration::from_secs(3600);
    match story.act() {
        Act::Enter(Phase::Failed { at, reason, hidden: true }) => {
            assert_eq!(at, "verifying");
            assert!(reason.contains("2 times") && reason.contains("DATABASE DOWN"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn unready_instance_shown_at_its_deadline_is_hidden() {
    for (ready, hides) in [(false, true), (true, false)] {
        let mut story = masked();
        story.ordered(order(10, Disposition::Serve { returning: true }));
        story.pass(600);
        assert_eq!(story.act(), Act::Enable);
        shown(&mut story, ready);
        story.seen.ready = false;
        story.pass_ms(100);
        let Act::Enter(Phase::Failed { hidden, .. }) = story.act() else { panic!("{:?}", story.act()) };
        assert_eq!(hidden, hides, "ready when it was shown: {ready}");
    }
}

#[test]
fn instance_that_was_ready_when_shown_is_not_hidden_for_a_dip() {
    let mut story = masked();
    shown(&mut story, true);
    story.pass_ms(100);
    story.seen.ready = false;
    story.pass(2);
    assert_eq!(story.act(), Act::Wait);
}

#[test]
fn instance_that_is_not_masked_is_not_shown_before_it_is_ready() {
    let mut story = masked();
    story.seen.masked = false;
    story.pass(5);
    assert_eq!(story.act(), Act::Wait);
}

#[test]
fn ended_hook_service_fails_at_once_with_last_answers() {
    let mut story = Story::serving().by_hooks();
    story.ordered(order(9, replace(1)));
    story.disabled().silent();
    story.enter(Phase::Verifying);
    story.seen.said.ready = "nothing listens at http://127.0.0.1:8080/ready".to_owned();
    assert_eq!(story.act(), Act::Wait, "it may be on its way up");
    story.seen.gone = true;
    match story.act() {
        Act::Enter(Phase::Failed { at, reason, .. }) => {
            assert_eq!(at, "verifying");
            assert!(reason.contains("status hook") && reason.contains("nothing listens at"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}
