//! What was drained and did not refuse all the time since.

use super::story::{Story, order, replace};
use crate::directive::act::Act;
use crate::directive::seen::{Balancers, InFlight, Url};
use crate::directive::timers::Timers;
use crate::host::{Alive, HookState};
use crate::journal::Phase;
use std::time::Duration;
use tidegate_proto::record::directive::Disposition;

const DRAINED: Phase = Phase::Drained { forced: false };

/// What each balancer says.
fn says(up: bool) -> Balancers {
    Balancers::Said { up, down: !up, sessions: 0, each: Vec::new() }
}

/// Nothing listened when it was drained; then its own supervisor has started it, and it answers 503 beside the disable-file.
fn started_since_its_drain(asks_balancer: bool) -> Story {
    let mut story = Story::serving().by_hooks();
    story.timers = Timers::new(story.seen.now, asks_balancer);
    if asks_balancer {
        story.seen.balancers = says(false);
    }
    story.ordered(order(9, Disposition::Drain)).disabled().silent();
    story.enter(DRAINED);
    story.ordered(order(10, replace(2)));
    if asks_balancer {
        story.seen.balancers = Balancers::NotAsked;
    }
    (story.seen.alive, story.seen.url) = (Alive::Yes, Url::Unavailable);
    story.seen.in_flight = InFlight::Counted(0);
    story
}

/// Its health check may have heeded the file only after a while, and balancers may have taken it in before.
#[test]
fn drained_service_that_was_started_again_is_drained_again() {
    let mut story = started_since_its_drain(false);
    story.pass(60);
    assert_eq!(story.act(), Act::Enter(Phase::Draining));
    story.enter(Phase::Draining);
    assert_eq!(story.pass(5).act(), Act::Wait, "balancers had no time to see that it refuses");
    assert_eq!(story.pass(1).act(), Act::Enter(DRAINED));
    story.enter(DRAINED);
    assert!(matches!(story.pass(60).act(), Act::BeginStop(_)), "it has refused since");

    let mut asked = started_since_its_drain(true);
    asked.pass(60).enter(Phase::Draining);
    assert!(!asked.timers.is_deregistered(), "no balancer was asked since");
    assert_eq!(asked.act(), Act::Wait);
    asked.seen.balancers = says(true);
    assert_eq!(asked.pass(10).act(), Act::Wait, "a balancer sends it requests");
    asked.seen.balancers = says(false);
    assert_eq!(asked.pass(1).act(), Act::Enter(DRAINED));
}

/// Its supervisor may have started it again while its agent was away.
#[test]
fn drained_before_an_agent_restart_is_drained_again() {
    let restarted = || {
        let mut story = Story::serving().by_hooks();
        story.ordered(order(9, Disposition::Drain)).disabled();
        story.enter(DRAINED);
        story.timers = Timers::new(story.seen.now, false);
        story.seen.in_flight = InFlight::Counted(0);
        story
    };
    let mut refuses = restarted();
    assert_eq!(refuses.pass(0).act(), Act::Wait, "nothing stops it");
    refuses.ordered(order(10, replace(2)));
    assert_eq!(refuses.act(), Act::Enter(Phase::Draining), "balancers may send it requests");
    refuses.enter(Phase::Draining);
    assert_eq!(refuses.pass(5).act(), Act::Wait, "they had no time to see that it refuses");
    assert_eq!(refuses.pass(1).act(), Act::Enter(DRAINED));
    refuses.enter(DRAINED);
    assert!(matches!(refuses.pass(60).act(), Act::BeginStop(_)), "it has refused since");

    let mut started = restarted();
    started.silent().pass(60);
    (started.seen.alive, started.seen.url) = (Alive::Yes, Url::Unavailable);
    started.pass(0).ordered(order(10, replace(2)));
    assert_eq!(started.act(), Act::Enter(Phase::Draining), "it refuses since this look");
    started.enter(Phase::Draining);
    assert_eq!(started.pass(5).act(), Act::Wait);
    assert_eq!(started.pass(1).act(), Act::Enter(DRAINED));
}

/// It refused in the look before its agent was stopped for so many milliseconds, and refuses in the look after that.
fn stopped_for(phase: Phase, ms: u64) -> Story {
    let mut story = Story::serving();
    story.ordered(order(9, Disposition::Drain)).disabled();
    story.seen.in_flight = InFlight::Counted(0);
    story.pass(1).enter(phase);
    story.timers.steady.ends_look(story.seen.now);
    let now = story.seen.now + Duration::from_millis(ms);
    story.timers.begins_look(now, &story.journal.phase, &story.service);
    story.pass_ms(ms);
    story
}

/// Its health check may not have heeded the file in between, and balancers may have taken it in.
#[test]
fn time_in_which_its_agent_did_not_look_drains_nothing() {
    let mut story = stopped_for(Phase::Draining, 120_000);
    assert_eq!(story.act(), Act::Wait, "balancers may send it requests");
    let mut busy = story.clone();
    assert_eq!(story.pass(5).act(), Act::Wait, "they had no time to see that it refuses");
    assert_eq!(story.pass(1).act(), Act::Enter(DRAINED));
    busy.seen.in_flight = InFlight::Counted(1);
    assert_eq!(busy.pass(59).act(), Act::Wait, "requests in flight have the whole deadline");
    assert_eq!(busy.pass(1).act(), Act::Enter(Phase::Drained { forced: true }));

    let mut drained = stopped_for(DRAINED, 120_000);
    assert_eq!(drained.act(), Act::Enter(Phase::Draining), "it may have been in rotation");
    drained.enter(Phase::Draining);
    assert_eq!(drained.pass(5).act(), Act::Wait);
    assert_eq!(drained.pass(1).act(), Act::Enter(DRAINED));
}

#[test]
fn pause_between_two_looks_counts_in_a_drain() {
    for (phase, ms, next) in [(Phase::Draining, 500, Act::Enter(DRAINED)), (DRAINED, 2_000, Act::Wait)] {
        let mut story = stopped_for(phase.clone(), ms);
        assert_eq!(story.pass_ms(5_000 - ms).act(), next, "{phase:?}: it has refused for 6 s");
    }
}

/// It failed, and is hidden and refuses since a minute, in which its agent looked once a second; then it is ordered out.
#[test]
fn rest_before_the_order_to_drain_drops_no_evidence() {
    for (rest, next) in [(1_200, Act::Enter(DRAINED)), (2_500, Act::Wait)] {
        let mut story = Story::serving();
        story.disabled().enter(Phase::failed("verifying", "not healthy", true));
        story.pass(60);
        story.timers.steady.ends_look(story.seen.now);
        story.seen.now += Duration::from_millis(rest);
        story.ordered(order(9, Disposition::Drain));
        assert_eq!(story.journal.phase, Phase::Draining);
        story.seen.in_flight = InFlight::Counted(0);
        let now = story.seen.now + Duration::from_millis(5);
        story.timers.begins_look(now, &story.journal.phase, &story.service);
        assert_eq!(story.pass_ms(5).act(), next, "after a rest of {rest} ms");
    }
}

/// Its agent ended after the stop was journalled, and before it was carried out or while its hook ran. Balancers may send
/// requests to what its supervisor has started again since.
#[test]
fn stopping_before_an_agent_restart_is_drained_again() {
    let restarted = |mut story: Story, asked: Disposition| {
        story.ordered(order(9, Disposition::Drain)).disabled();
        story.ordered(order(10, asked));
        story.enter(Phase::Stopping);
        assert_eq!(story.act(), Act::Stop, "it has refused since its drain");
        story.timers = Timers::new(story.seen.now, false);
        story.seen.in_flight = InFlight::Counted(0);
        story.pass(0);
        story
    };
    let by_hooks = |asked| restarted(Story::serving().by_hooks(), asked);
    let mut story = by_hooks(replace(2));
    assert_eq!(story.act(), Act::Enter(Phase::Draining), "it is not known since when it refuses");
    story.enter(Phase::Draining);
    assert_eq!(story.pass(5).act(), Act::Wait, "balancers had no time to see that it refuses");
    assert_eq!(story.pass(1).act(), Act::Enter(DRAINED));
    story.enter(DRAINED);
    assert!(matches!(story.pass(60).act(), Act::BeginStop(_)), "it has refused since");
    story.enter(Phase::Stopping);
    assert_eq!(story.act(), Act::Stop);

    let mut process = restarted(Story::serving(), replace(2));
    assert_eq!(process.act(), Act::Stop, "the former agent may have asked it to end");
    process.ordered(order(11, replace(1)));
    assert_eq!(
        (process.journal.phase.clone(), process.act()),
        (Phase::Stopping, Act::Stop),
        "it is not shown"
    );

    let mut begun = by_hooks(replace(2));
    begun.seen.hook = HookState::Runs;
    assert_eq!(begun.act(), Act::Wait, "a hook that runs is not taken back");
    begun.seen.hook = HookState::Ended;
    assert_eq!(begun.act(), Act::Enter(Phase::Draining), "it answers after its stop hook");
    begun.silent();
    assert_eq!(begun.act(), Act::Stop, "nothing answers");

    let mut recalled = by_hooks(Disposition::Serve { returning: true });
    assert_eq!(recalled.act(), Act::Enter(Phase::Fresh), "nothing asks for its stop");
    recalled.journal.declined = true;
    recalled.journal.witness.reconciled = recalled.journal.generation();
    assert_eq!(recalled.act(), Act::Stop, "nothing else would stop what a former store has started");
}

#[test]
fn drained_service_that_hung_is_drained_again() {
    let mut story = Story::serving();
    story.ordered(order(9, Disposition::Drain)).disabled();
    story.enter(DRAINED);
    story.pass(60);
    assert_eq!(story.act(), Act::Wait, "it has refused all the time");
    story.seen.url = Url::Other;
    story.pass(1);
    assert_eq!(story.act(), Act::Wait, "it is not seen to answer");
    story.seen.url = Url::Unavailable;
    story.pass(1);
    assert_eq!(story.act(), Act::Enter(Phase::Draining));
}

/// Its health check did not heed the file while a stop hook hung: balancers may send it requests as that is ended.
#[test]
fn unheeded_while_its_stop_hook_hung_is_drained_again() {
    let mut story = Story::serving().by_hooks();
    story.disabled().ordered(order(9, replace(2)));
    story.enter(Phase::Stopping);
    (story.seen.hook, story.seen.url) = (HookState::Runs, Url::Good);
    story.pass(59);
    assert_eq!(story.act(), Act::Wait, "a hook that runs is not taken back");
    story.seen.url = Url::Unavailable;
    story.pass(1);
    assert_eq!(story.act(), Act::EndHook, "it does not end");
    story.seen.hook = HookState::Ended;
    assert_eq!(story.act(), Act::Enter(Phase::Draining), "it has refused for a moment");
}
