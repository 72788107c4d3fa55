//! What would come into rotation outside the window is admitted again first, and so refused.

use super::story::Story;
use crate::directive::act::Act;
use crate::directive::seen::Url;
use crate::journal::Phase;

/// A person may reconcile a window that leaves out what this store had admitted without one.
#[test]
fn hidden_instance_outside_the_window_is_admitted_again() {
    for phase in [Phase::Verifying, Phase::failed("verifying", "not healthy", false)] {
        let mut story = Story::serving();
        story.window(2, 2, 7);
        assert_eq!(story.act(), Act::Wait, "it serves");
        story.disabled();
        story.enter(phase.clone());
        assert!(matches!(story.act(), Act::AdmitRunning(..)), "{phase:?}");
        story.window(1, 2, 8);
        assert_eq!(story.act(), Act::Enable, "{phase:?}");
    }
}

/// The same, where it was shown before the person did that, and its health URL has not answered 200 yet.
#[test]
fn failing_instance_outside_the_window_is_admitted_again() {
    let outside = |url: Url, seconds: u64| {
        let mut story = Story::serving();
        story.enter(Phase::Verifying);
        story.seen.url = url;
        story.window(2, 2, 7).pass(0).pass(seconds);
        story
    };
    let is_asked = |story: &Story| matches!(story.act(), Act::AdmitRunning(..));
    assert!(is_asked(&outside(Url::Unavailable, 60)));
    assert!(!is_asked(&outside(Url::Good, 60)), "it is in rotation");
    assert!(!is_asked(&outside(Url::Unavailable, 0)), "balancers may not have seen that it fails");
    let mut inside = outside(Url::Unavailable, 60);
    assert!(!is_asked(inside.window(1, 2, 8)), "the window admits it");
}
