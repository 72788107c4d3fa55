//! What a drain waits for.

use super::super::seen::{Balancers, DisableFile, InFlight, Probed, Url};
use super::super::timers::Timers;
use super::story::{Story, order, release, replace, version};
use crate::directive::act::Act;
use crate::host::Alive;
use crate::journal::{Phase, Refusal};
use tidegate_proto::record::directive::{Disposition, OnDeadline};
use tidegate_proto::record::report::{NOT_LEFT, Rotation};
use tidegate_proto::{Release, Revision};

#[test]
fn a_drain_waits_for_each_part_of_its_evidence() {
    let mut story = Story::serving();
    story.ordered(order(9, Disposition::Drain));
    assert_eq!(story.journal.phase, Phase::Draining);
    story.seen.store = false;
    assert_eq!(story.act(), Act::Wait, "without the store nothing is taken out");
    story.seen.store = true;
    assert_eq!(story.act(), Act::Disable);
    // The file is there, the URL still answers 200: the check does not look at this file.
    story.seen.file = DisableFile::Own;
    story.seen.in_flight = InFlight::Counted(0);
    story.pass(20);
    assert_eq!(story.act(), Act::Wait);
    story.disabled();
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
        story.seen.said.health = "200 \"OK\"".to_owned();
        story.pass(1).pass(28);
        assert_eq!(story.act(), Act::Wait, "it may take a moment");
        story.pass(3);
        let Act::Enter(Phase::Failed { at, reason, hidden }) = story.act() else {
            panic!("{:?}", story.act())
        };
        assert_eq!((at.as_str(), hidden), (NOT_LEFT, false));
        for word in ["does not heed disable_file", "503", "200 \"OK\""] {
            assert!(reason.contains(word), "{word} is not in {reason}");
        }
        story.enter(Phase::Failed { at, reason, hidden });
        assert_eq!(story.act(), Act::Enable, "it is put back");
    }
}

#[test]
fn deadline_counts_from_the_disable_file_under_this_order() {
    // The store went away, or the disk was slow, before the file was there.
    let mut story = Story::serving();
    story.ordered(order(9, Disposition::Drain));
    story.seen.in_flight = InFlight::Counted(1);
    story.seen.store = false;
    story.pass(3600);
    story.seen.store = true;
    assert_eq!(story.act(), Act::Disable);
    story.disabled().pass(59);
    assert_eq!(story.act(), Act::Wait, "requests in flight have the whole deadline");
    story.pass(1);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: true }));
    // A person's file was there long before.
    let mut story = Story::serving();
    story.disabled();
    story.seen.file = DisableFile::Foreign;
    story.pass(3600);
    story.ordered(order(9, Disposition::Drain));
    story.seen.in_flight = InFlight::Counted(1);
    story.pass(59);
    assert_eq!(story.act(), Act::Wait);
    story.pass(1);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: true }));
}

#[test]
fn deadline_before_settle_time_does_not_blame_disable_file() {
    let mut story = Story::serving();
    let mut drain = order(9, Disposition::Drain);
    drain.directive.drain.deadline = "2s".parse().unwrap();
    story.ordered(drain);
    (story.seen.file, story.seen.url) = (DisableFile::Own, Url::Unavailable);
    story.pass(1).pass(2);
    let Act::Enter(Phase::Failed { at, reason, .. }) = story.act() else { panic!("{:?}", story.act()) };
    assert_eq!(at, "draining");
    assert!(reason.contains("settle time"), "{reason}");
}

#[test]
fn a_balancer_that_is_configured_is_always_asked() {
    let mut story = Story::serving();
    story.timers = Timers::new(story.seen.now, true);
    story.ordered(order(9, Disposition::Drain));
    let says = |up, down, sessions| Balancers::Said { up, down, sessions, each: Vec::new() };
    story.seen.balancers = says(false, true, 0);
    story.pass(0);
    // DOWN before the URL refused is the word of another story: a check that fails for its own reasons.
    story.seen.balancers = says(true, false, 0);
    story.disabled().pass(10);
    assert_eq!(story.act(), Act::Wait);
    story.seen.balancers = Balancers::Unreadable("no socket".to_owned());
    story.pass(1);
    assert_eq!(story.act(), Act::Wait);
    story.seen.balancers = Balancers::NotAsked;
    story.pass(1);
    assert_eq!(
        story.timers.balancer_unreachable(),
        Some("no socket"),
        "it is reported until one has answered"
    );
    story.seen.balancers = says(false, true, 2);
    story.pass(0);
    assert_eq!(story.timers.balancer_unreachable(), None);
    assert_eq!(story.act(), Act::Wait, "sessions are open");
    story.seen.balancers = says(false, true, 0);
    story.pass(0);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: false }));
}

#[test]
fn unknown_counter_is_not_idle_whatever_balancers_report() {
    let mut story = Story::serving();
    story.timers = Timers::new(story.seen.now, true);
    story.ordered(order(9, Disposition::Drain));
    story.seen.in_flight = InFlight::Unknown;
    story.seen.balancers = Balancers::Said { up: false, down: true, sessions: 0, each: Vec::new() };
    story.disabled().pass(10);
    assert_eq!(story.act(), Act::Wait);
    story.seen.in_flight = InFlight::Counted(0);
    story.pass(0);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: false }));
}

#[test]
fn closed_listener_may_still_work_on_requests() {
    for counter in [InFlight::Unknown, InFlight::NotAsked, InFlight::Refused] {
        let mut story = Story::serving().by_hooks();
        story.ordered(order(9, Disposition::Drain)).disabled();
        story.seen.in_flight = InFlight::Counted(1);
        story.pass(6);
        assert_eq!(story.act(), Act::Wait);
        story.seen.in_flight = counter;
        story.silent().pass(10);
        assert_eq!(story.act(), Act::Wait, "it was not seen that nothing is in flight ({counter:?})");
        story.pass(60);
        assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: true }));
    }
    // A port's connections are counted whether a process listens or not.
    let mut story = Story::serving().by_hooks();
    story.ordered(order(9, Disposition::Drain)).disabled();
    story.seen.in_flight = InFlight::Counted(0);
    story.silent().pass(10);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: false }));
}

/// The service crashed after it was exposed: its code is replaced by hooks, and it has a counter that answers over HTTP.
fn crashed(on_deadline: OnDeadline) -> Story {
    let mut story = Story::serving().by_hooks();
    story.timers = Timers::new(story.seen.now, true);
    let mut drain = order(9, replace(2));
    drain.directive.drain.on_deadline = on_deadline;
    story.ordered(drain).disabled().silent();
    story.seen.in_flight = InFlight::Refused;
    story.seen.balancers = Balancers::Said { up: false, down: true, sessions: 0, each: Vec::new() };
    story
}

#[test]
fn nothing_listens_and_no_session_is_evidence_of_idle() {
    let mut story = crashed(OnDeadline::Fail);
    story.pass(10);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: false }));
}

#[test]
fn closed_listener_without_the_rest_is_no_evidence_of_idle() {
    let lacking: [(&str, fn(&mut Story)); 6] = [
        ("sessions", |s| {
            s.seen.balancers = Balancers::Said { up: false, down: true, sessions: 1, each: Vec::new() }
        }),
        ("balancers that can be asked", |s| {
            s.timers = Timers::new(s.seen.now, false);
            s.seen.balancers = Balancers::None;
        }),
        ("a readiness URL that refuses", |s| s.seen.alive = Alive::Unknown),
        ("a health URL that refuses", |s| s.seen.url = Url::Other),
        ("a counter that refuses", |s| s.seen.in_flight = InFlight::Unknown),
        ("a counter", |s| s.seen.in_flight = InFlight::Counted(1)),
    ];
    for (what, lack) in lacking {
        let mut story = crashed(OnDeadline::Fail);
        lack(&mut story);
        story.pass(10);
        assert_eq!(story.act(), Act::Wait, "{what}");
        story.pass(60);
        let Act::Enter(Phase::Failed { at, .. }) = story.act() else { panic!("{what}: {:?}", story.act()) };
        assert_eq!(at, "draining", "{what}");
    }
}

#[test]
fn declared_stop_replaces_the_count_and_nothing_else() {
    let declared = |change: fn(&mut Story)| {
        let mut story = crashed(OnDeadline::Fail);
        story.timers = Timers::new(story.seen.now, false);
        story.seen.balancers = Balancers::None;
        change(&mut story);
        story.pass(0).pass(10);
        assert_eq!(story.act(), Act::Wait, "not declared");
        story.journal.order.as_mut().unwrap().directive.declared_stopped = true;
        story.seen.wanted = story.journal.order.clone();
        story.act()
    };
    let drained = Act::Enter(Phase::Drained { forced: false });
    assert_eq!(declared(|_| ()), drained);
    assert_eq!(declared(|s| s.seen.in_flight = InFlight::Unknown), drained);
    assert_eq!(declared(|s| s.seen.in_flight = InFlight::Counted(3)), Act::Wait, "requests are counted");
    assert_eq!(declared(|s| s.seen.alive = Alive::Yes), Act::Wait, "it answers");
    assert_eq!(declared(|s| s.seen.url = Url::Other), Act::Wait, "it was not seen to refuse");
    let busy = |s: &mut Story| {
        s.timers = Timers::new(s.seen.now, true);
        s.seen.balancers = Balancers::Said { up: false, down: true, sessions: 2, each: Vec::new() };
    };
    assert_eq!(declared(busy), Act::Wait, "balancers have sessions");
    // Its stop is confirmed as ever (rule 5).
    let mut story = crashed(OnDeadline::Fail);
    story.enter(Phase::Stopping);
    story.journal.order.as_mut().unwrap().directive.declared_stopped = true;
    story.seen.wanted = story.journal.order.clone();
    assert_eq!(story.act(), Act::Stop);
}

#[test]
fn restart_after_a_crash_is_stopped_once_balancers_know() {
    let restarted = |asks_balancers| {
        let mut story = Story::serving().by_hooks();
        story.timers = Timers::new(story.seen.now, asks_balancers);
        story.journal.unexposed = true;
        story.disabled().silent();
        story.enter(Phase::Verifying);
        story
    };
    let drained = Phase::Drained { forced: false };
    for asked in [replace(2), Disposition::Stop] {
        let mut early = restarted(false);
        early.ordered(order(9, asked.clone())).pass(5);
        assert_eq!((&early.journal.phase, early.act()), (&Phase::Draining, Act::Wait), "{asked:?}");
        early.pass(1);
        assert_eq!(early.act(), Act::Enter(drained.clone()), "{asked:?}");
        let mut late = restarted(false);
        late.pass(6).ordered(order(9, asked));
        assert_eq!(late.journal.phase, drained);
    }
    let mut drains = restarted(false);
    drains.ordered(order(9, Disposition::Drain)).pass(6);
    assert_eq!(drains.act(), Act::Enter(drained.clone()), "it may have no counter");
    let mut deregistered = restarted(true);
    deregistered.seen.balancers = Balancers::Said { up: false, down: true, sessions: 0, each: Vec::new() };
    deregistered.pass(0).ordered(order(9, replace(2)));
    assert_eq!(deregistered.journal.phase, drained, "balancers say so");
    let mut listens = restarted(false);
    listens.ordered(order(9, replace(2)));
    (listens.seen.alive, listens.seen.url) = (Alive::Unknown, Url::Unavailable);
    listens.pass(10);
    assert_eq!(listens.act(), Act::Wait, "it may work on requests that came before balancers knew");
    listens.silent();
    assert_eq!(listens.act(), Act::Wait, "it may work on them still");
    listens.pass(60);
    assert_eq!(listens.act(), Act::Enter(Phase::Drained { forced: true }));
}

#[test]
fn instance_without_balancer_is_out_after_settle_time() {
    let mut story = Story::serving();
    story.ordered(order(9, Disposition::Drain)).disabled();
    let rotation = |story: &Story| story.timers.rotation(&story.seen, &story.service);
    story.pass(5);
    assert_eq!(rotation(&story), Rotation::Leaving, "checks of balancers had no time to see it");
    story.pass(1);
    assert_eq!(rotation(&story), Rotation::Out);
    // An ended process answers no request, whatever balancers have seen.
    let mut story = Story::serving();
    story.ordered(order(9, Disposition::Drain)).disabled().gone();
    assert_eq!(rotation(&story), Rotation::Out);
}

/// The coordinator lets it back, because its agent starts nothing under an order to drain.
#[test]
fn drained_service_that_ended_is_started_once_let_back() {
    let mut story = Story::serving().by_hooks();
    story.ordered(order(9, Disposition::Drain)).disabled();
    story.enter(Phase::Drained { forced: false });
    story.silent();
    assert_eq!(story.act(), Act::Wait, "the order says drain");
    let mut late = story.clone();
    let serve = || order(10, Disposition::Serve { returning: true });
    story.ordered(serve());
    assert_eq!((&story.journal.phase, story.act()), (&Phase::Fresh, Act::Wait), "balancers may not know");
    story.pass(6);
    assert_eq!(story.act(), Act::Enter(Phase::Stopping), "silence does not confirm a stop");
    late.pass(6).ordered(serve());
    assert_eq!((&late.journal.phase, late.act()), (&Phase::Stopping, Act::Stop));
    late.enter(Phase::Stopped);
    assert!(matches!(late.act(), Act::AdmitTarget(target) if target.tag == release(1).tag));
}

#[test]
fn drained_instance_whose_file_was_removed_drains_again() {
    let mut story = Story::serving();
    story.ordered(order(9, Disposition::Drain)).disabled();
    story.enter(Phase::Drained { forced: false });
    story.ordered(order(10, replace(2)));
    story.seen.file = DisableFile::Absent;
    assert_eq!(story.act(), Act::Enter(Phase::Draining), "balancers may send requests again");
}

/// Its drain failed and it was let back; then a version answered for a moment that the window does not admit.
#[test]
fn refused_instance_drains_again_once_it_is_admitted() {
    let mut story = Story::serving();
    story.window(1, 2, 7).ordered(order(9, Disposition::Drain)).disabled();
    story.enter(Phase::failed("draining", "the health URL was not seen to answer 503", false));
    assert_eq!(story.act(), Act::Enable);
    (story.seen.file, story.seen.url) = (DisableFile::Absent, Url::Good);
    story.seen.probe = Probed::Version(version(3));
    assert_eq!(story.pass(0).act(), Act::AdmitRunning(version(3), None));
    let reason = "above the ceiling".to_owned();
    story.journal.refusal =
        Some(Refusal { version: version(3), window: Revision(7), reason, ..Refusal::default() });
    story.enter(Phase::refused("above the ceiling"));
    assert_eq!(story.act(), Act::Disable);
    story.seen.probe = Probed::Version(version(1));
    assert_eq!(story.disabled().act(), Act::AdmitRunning(version(1), Some(release(1).tag)));
    story.journal.refusal = None;
    assert_eq!(story.act(), Act::Enter(Phase::Draining), "the coordinator waits for the end of its drain");
    story.enter(Phase::Draining);
    story.seen.in_flight = InFlight::Counted(0);
    story.pass(6);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: false }));
}

#[test]
fn admitted_instance_is_verified_unless_an_order_drains_it() {
    let same_version = Release { tag: release(2).tag, ..release(1) };
    for (disposition, next) in [
        (Disposition::Drain, Phase::Draining),
        (Disposition::Stop, Phase::Draining),
        (Disposition::Serve { returning: true }, Phase::Verifying),
        (replace(1), Phase::Verifying),
        (replace(2), Phase::Draining),
        (Disposition::Replace { release: same_version }, Phase::Draining),
    ] {
        // Fresh: something else started it after it had been stopped.
        for phase in [Phase::refused("above the ceiling"), Phase::Fresh] {
            let mut story = Story::serving();
            story.ordered(order(9, disposition.clone())).disabled();
            story.enter(phase.clone());
            assert_eq!(story.act(), Act::Enter(next.clone()), "{disposition:?}, {phase:?}");
        }
    }
}

/// The window has refused release 2 after release 1 was stopped for it, and something else has started release 1 since.
#[test]
fn nothing_is_drained_for_a_release_outside_the_window() {
    for phase in [Phase::refused("above the ceiling"), Phase::Fresh] {
        let mut story = Story::serving();
        story.disabled().ordered(order(9, replace(2))).window(1, 1, 7);
        story.enter(phase.clone());
        assert_eq!(story.act(), Act::Enter(Phase::Verifying), "{phase:?}");
        story.enter(Phase::Verifying);
        let act = story.act();
        let is_named = |reason: &str| reason.contains("should carry version 2, it answers 1");
        assert!(
            matches!(&act, Act::Enter(Phase::Failed { reason, hidden: true, .. }) if is_named(reason)),
            "{act:?}"
        );
        story.window(1, 2, 8).enter(phase.clone());
        assert_eq!(story.act(), Act::Enter(Phase::Draining), "{phase:?}");
    }
}
