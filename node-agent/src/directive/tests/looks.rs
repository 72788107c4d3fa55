//! How far one look goes.

use super::story::{Story, release};
use crate::host::Target;
use crate::journal::Phase;
use crate::report::observe;

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
