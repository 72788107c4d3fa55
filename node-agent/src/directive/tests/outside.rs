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

/// The same, where it was shown before the person did that, and its health URL does not answer 200 (yet, or any more).
#[test]
fn failing_instance_outside_the_window_is_admitted_again() {
    let is_asked = |story: &Story| matches!(story.act(), Act::AdmitRunning(..));
    for phase in [Phase::Verifying, Phase::Serving, Phase::failed("verifying", "not healthy", false)] {
        let outside = |url: Url, seconds: u64| {
            let mut story = Story::serving();
            story.enter(phase.clone());
            story.seen.url = url;
            story.window(2, 2, 7).pass(0).pass(seconds);
            story
        };
        assert!(is_asked(&outside(Url::Unavailable, 60)), "{phase:?}");
        assert!(!is_asked(&outside(Url::Good, 60)), "{phase:?}: it is in rotation");
        assert!(!is_asked(&outside(Url::Unavailable, 0)), "{phase:?}: balancers may still send requests");
        let mut inside = outside(Url::Unavailable, 60);
        assert!(!is_asked(inside.window(1, 2, 8)), "{phase:?}: the window admits it");
    }
}
