//! How far one look goes, and what the status hook says before a start.

use super::story::{Story, order, release, replace};
use crate::directive::act::Act;
use crate::host::{HookState, Target};
use crate::journal::Phase;
use crate::report::observe;
use tidegate_proto::record::directive::Disposition;

fn still_valid(story: &Story, from: &Phase, to: &Phase) -> bool {
    observe::is_look_still_valid(&story.service, from, to, &story.seen)
}

#[test]
fn a_look_stands_for_what_follows_unless_that_asks_for_more() {
    let mut story = Story::serving();
    let (serving, draining, drained) = (Phase::Serving, Phase::Draining, Phase::Drained { forced: false });
    assert!(still_valid(&story, &serving, &draining), "the file is put first, and that asks for nothing");
    story.disabled();
    assert!(!still_valid(&story, &serving, &draining), "what is in flight was not counted");
    assert!(still_valid(&story, &draining, &drained));
    story.silent();
    assert!(!still_valid(&story, &Phase::Stopping, &Phase::Starting { target: Target::from(&release(2)) }));
}

#[test]
fn stop_asks_for_a_look_after_it_was_journalled() {
    let failed = Phase::failed("draining", "2 requests are in flight", false);
    for from in [Phase::Drained { forced: false }, Phase::Fresh, failed, Phase::Stopping] {
        let mut story = Story::serving().by_hooks();
        story.disabled();
        assert!(!still_valid(&story, &from, &Phase::Stopping), "{from:?}: it may have been shown since");
        story.silent();
        assert!(!still_valid(&story, &from, &Phase::Stopping), "{from:?}: it may answer by now");
    }
}

#[test]
fn start_asks_for_a_look_after_it_was_journalled() {
    let starting = Phase::Starting { target: Target::from(&release(1)) };
    let mut by_lock = Story::serving();
    by_lock.disabled().gone();
    assert!(!still_valid(&by_lock, &Phase::Stopped, &starting), "something else may have started it");
    let mut by_hooks = Story::serving().by_hooks();
    by_hooks.disabled().silent();
    assert!(!still_valid(&by_hooks, &Phase::Stopped, &starting), "its own supervisor may have started it");
}

#[test]
fn unasked_balancers_are_asked_before_instance_is_back() {
    let mut story = Story::serving();
    let target = Target::from(&release(2));
    let (starting, verifying) = (Phase::Starting { target }, Phase::Verifying);
    assert!(still_valid(&story, &starting, &verifying));
    let balancer = "[[service.pantry-api.balancer]]\nstats = \"unix:/run/haproxy/admin.sock\"\nbackend = \"pantry\"\nserver = \"n1\"\n";
    story.with_config(balancer);
    assert!(!still_valid(&story, &starting, &verifying) && !still_valid(&story, &Phase::Serving, &verifying));
    assert!(still_valid(&story, &verifying, &Phase::Serving), "they were asked in that look");
}

#[test]
fn status_is_asked_unless_the_agent_stops_or_starts() {
    let starting = Phase::Starting { target: Target::from(&release(2)) };
    let asked = [Phase::Fresh, Phase::Verifying, Phase::Serving, Phase::failed("verifying", "late", true)];
    assert!(asked.iter().all(observe::asks_status));
    assert!(![Phase::Stopping, Phase::Stopped, starting].iter().any(observe::asks_status));
}

/// Its stop hook said yes and did nothing while the service was down, and its own supervisor has started it since. It does not
/// listen.
#[test]
fn nothing_is_started_beside_what_status_says_runs() {
    let target = Target::from(&release(2));
    for disposition in [replace(2), Disposition::Serve { returning: true }] {
        let mut story = Story::serving().by_hooks();
        story.disabled().ordered(order(9, disposition.clone()));
        story.silent().pass(60);
        story.enter(Phase::Starting { target: target.clone() });
        assert_eq!(story.act(), Act::Start(target.clone()), "{disposition:?}");
        story.seen.runs = true;
        assert_eq!(story.act(), Act::Enter(Phase::Stopping), "{disposition:?}");
        story.seen.store = false;
        assert_eq!(story.act(), Act::Wait, "{disposition:?}: another agent may manage it");
        story.seen.store = true;
        story.timers.undone_stops = 2;
        let act = story.act();
        let is_named = matches!(&act, Act::Enter(Phase::Failed { at, reason, hidden: true })
            if at == "stopping" && reason.contains("after each of 3 stops"));
        assert!(is_named, "{disposition:?}: {act:?}");
        story.seen.hook = HookState::Ended;
        assert_eq!(story.act(), Act::Wait, "{disposition:?}: the start hook has started it");
    }
}
