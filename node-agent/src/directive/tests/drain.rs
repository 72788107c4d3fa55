//! What a drain waits for.

use super::super::decide::Act;
use super::super::phase::Phase;
use super::super::seen::{Balancers, DisableFile, InFlight};
use super::super::timers::Timers;
use super::story::{Story, order};
use tidegate_proto::record::directive::{Disposition, OnDeadline};

#[test]
fn a_drain_waits_for_each_part_of_its_evidence() {
    let mut story = Story::serving();
    story.ordered(order(9, Disposition::Drain));
    assert_eq!(story.journal.phase, Phase::Draining);
    story.seen.store = false;
    assert_eq!(story.act(), Act::Wait, "without the store nothing is taken out");
    story.seen.store = true;
    assert_eq!(story.act(), Act::Hide);
    // The file is there, the URL still answers 200: the check does not look at this file.
    story.seen.file = DisableFile::Own;
    story.seen.in_flight = InFlight::Counted(0);
    story.pass(20);
    assert_eq!(story.act(), Act::Wait);
    story.hidden();
    assert_eq!(story.act(), Act::Wait, "the balancers' checks need their time");
    story.pass(5);
    assert_eq!(story.act(), Act::Wait);
    story.pass(1);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: false }));
    story.seen.in_flight = InFlight::Counted(1);
    story.pass(0);
    assert_eq!(story.act(), Act::Wait);
    story.seen.in_flight = InFlight::Unknown;
    story.pass(0);
    assert_eq!(story.act(), Act::Wait, "not counted is not idle");
    story.pass(60);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: true }));
}

#[test]
fn a_deadline_does_not_excuse_a_health_url_that_never_refused() {
    for on_deadline in [OnDeadline::Proceed, OnDeadline::Fail] {
        let mut story = Story::serving();
        let mut drain = order(9, Disposition::Drain);
        drain.directive.drain.on_deadline = on_deadline;
        story.ordered(drain);
        story.seen.file = DisableFile::Own;
        story.pass(61);
        let Act::Enter(Phase::Failed { at, reason, hidden }) = story.act() else {
            panic!("{:?}", story.act())
        };
        assert_eq!((at.as_str(), hidden), ("draining", false));
        assert!(reason.contains("503"), "{reason}");
        story.enter(Phase::Failed { at, reason, hidden });
        assert_eq!(story.act(), Act::Show, "it is put back");
    }
}

#[test]
fn a_balancer_that_is_configured_is_always_asked() {
    let mut story = Story::serving();
    story.timers = Timers::new(story.seen.now, true);
    story.ordered(order(9, Disposition::Drain));
    let says = |up, down, sessions| Balancers::Said { up, down, sessions, words: "words".to_owned() };
    story.seen.balancers = says(false, true, 0);
    story.pass(0);
    // DOWN before the URL refused is the word of another story: a check that fails for its own reasons.
    story.seen.balancers = says(true, false, 0);
    story.hidden().pass(10);
    assert_eq!(story.act(), Act::Wait);
    story.seen.balancers = Balancers::Unreadable("no socket".to_owned());
    story.pass(1);
    assert_eq!(story.act(), Act::Wait);
    story.seen.balancers = says(false, true, 2);
    story.pass(0);
    assert_eq!(story.act(), Act::Wait, "sessions are open");
    story.seen.balancers = says(false, true, 0);
    story.pass(0);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: false }));
}

#[test]
fn what_a_counter_does_not_tell_is_not_idle_whatever_the_balancers_say() {
    let mut story = Story::serving();
    story.timers = Timers::new(story.seen.now, true);
    story.ordered(order(9, Disposition::Drain));
    story.seen.in_flight = InFlight::Unknown;
    story.seen.balancers = Balancers::Said { up: false, down: true, sessions: 0, words: String::new() };
    story.hidden().pass(10);
    assert_eq!(story.act(), Act::Wait);
    story.seen.in_flight = InFlight::Counted(0);
    story.pass(0);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: false }));
}

#[test]
fn who_stopped_listening_may_still_work_on_something() {
    for counter in [InFlight::Unknown, InFlight::NotAsked] {
        let mut story = Story::serving().by_hooks();
        story.ordered(order(9, Disposition::Drain)).hidden();
        story.seen.in_flight = InFlight::Counted(1);
        story.pass(6);
        assert_eq!(story.act(), Act::Wait);
        story.seen.in_flight = counter;
        story.silent().pass(10);
        assert_eq!(story.act(), Act::Wait, "nobody has seen that nothing is in flight ({counter:?})");
        story.pass(60);
        assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: true }));
    }
    // A port's connections are counted whether anybody listens or not.
    let mut story = Story::serving().by_hooks();
    story.ordered(order(9, Disposition::Drain)).hidden();
    story.seen.in_flight = InFlight::Counted(0);
    story.silent().pass(10);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: false }));
}
