//! When a stop hook runs: not before balancers know that its service does not answer, nor beside another hook, nor for what
//! came into rotation since the stop was journalled.

use super::super::seen::{Balancers, DisableFile, InFlight, Probed, Url};
use super::super::timers::Timers;
use super::story::{Story, order, release, replace, replace_what_is_out, version};
use crate::directive::act::Act;
use crate::directive::identity::note_started;
use crate::host::{Alive, HookState, Target};
use crate::journal::{Order, Phase};
use tidegate_proto::record::directive::Disposition;

/// Being stopped by its hook, under this order.
fn stopping(asked: Order) -> Story {
    let mut story = Story::serving().by_hooks();
    story.disabled().ordered(asked);
    story.enter(Phase::Stopping);
    story
}

/// A person removes the disable-file.
fn shown(story: &mut Story) {
    (story.seen.file, story.seen.url) = (DisableFile::Absent, Url::Good);
    story.pass(0);
}

#[test]
fn running_stop_hook_is_awaited_before_another_one() {
    for hook in [HookState::Runs, HookState::OtherRuns] {
        for file in [DisableFile::Own, DisableFile::Foreign] {
            let mut story = stopping(order(9, replace(2)));
            (story.seen.hook, story.seen.file) = (hook, file);
            story.pass(59);
            assert_eq!(story.act(), Act::Wait, "{hook:?}, {file:?}");
            story.pass(1);
            assert_eq!(story.act(), Act::EndHook, "{hook:?}, {file:?}: it does not end");
            story.seen.hook = HookState::Ended;
            assert_eq!(story.act(), Act::Stop, "{hook:?}, {file:?}: nothing came into rotation meanwhile");
        }
    }
    let mut ended = stopping(order(9, replace(2)));
    ended.seen.hook = HookState::Runs;
    ended.silent();
    assert_eq!(ended.act(), Act::Wait, "silence does not confirm a stop");
    ended.seen.hook = HookState::Ended;
    assert_eq!(ended.act(), Act::Stop, "how the hook ended is not known");
    let mut unhidden = stopping(order(9, replace(2)));
    unhidden.seen.hook = HookState::Runs;
    shown(&mut unhidden);
    unhidden.pass(60);
    assert_eq!(unhidden.act(), Act::EndHook, "the file could not be put");
}

/// The agent ended while the stop hook ran, and its journal is lost: what still answers is admitted, and is hidden.
#[test]
fn running_stop_hook_is_taken_up_without_the_journal() {
    for phase in [Phase::Fresh, Phase::refused("above the ceiling")] {
        let mut story = Story::serving().by_hooks();
        story.disabled().enter(phase.clone());
        for hook in [HookState::NotBegun, HookState::OtherRuns, HookState::Ended] {
            story.seen.hook = hook;
            assert_eq!(story.act(), Act::Enter(Phase::Verifying), "{phase:?}, {hook:?}: nothing stops it");
        }
        story.seen.hook = HookState::Runs;
        story.seen.wanted = Some(order(9, replace(1)));
        story.seen.store = false;
        assert_eq!(story.act(), Act::Wait, "{phase:?}: another agent may manage it");
        story.seen.store = true;
        assert_eq!(story.act(), Act::Enter(Phase::Stopping), "{phase:?}: it is being stopped");
        story.enter(Phase::Stopping);
        story.ordered(order(9, replace(1)));
        assert_eq!((&story.journal.phase, story.act()), (&Phase::Stopping, Act::Wait), "the hook runs");
        story.seen.hook = HookState::Ended;
        assert_eq!(story.act(), Act::Stop, "{phase:?}: how the hook ended is not known");
    }
}

#[test]
fn shown_while_its_stop_hook_ran_is_drained_again() {
    let shown_beside = |asked: Order| {
        let mut story = stopping(asked);
        story.seen.hook = HookState::Runs;
        story.pass(1);
        shown(&mut story);
        assert_eq!(story.act(), Act::Disable, "it is being stopped");
        story.disabled().pass(1);
        assert_eq!(story.act(), Act::Wait);
        story
    };
    let mut killed = shown_beside(order(9, replace(2)));
    // Another order restates the phase.
    killed.ordered(order(10, replace(1)));
    assert_eq!(killed.journal.phase, Phase::Stopping);
    killed.seen.hook = HookState::Ended;
    assert_eq!(killed.act(), Act::Enter(Phase::Draining), "balancers may have sent it requests");
    killed.enter(Phase::Draining);
    assert_eq!(killed.act(), Act::Wait);
    killed.seen.in_flight = InFlight::Counted(0);
    killed.pass(6);
    assert_eq!(killed.act(), Act::Enter(Phase::Drained { forced: false }));
    killed.enter(Phase::Drained { forced: false });
    assert_eq!(killed.act(), Act::BeginStop(Some(Target::from(&release(1)))));
    killed.enter(Phase::Stopping);
    assert_eq!(killed.act(), Act::Stop, "it was drained since");

    let mut stopped = shown_beside(order(9, replace(2)));
    stopped.seen.hook = HookState::Ended;
    stopped.silent();
    assert_eq!(stopped.act(), Act::Stop, "nothing answers");

    let mut presumed_out = shown_beside(replace_what_is_out(9, 2));
    presumed_out.seen.hook = HookState::Ended;
    assert_eq!(presumed_out.act(), Act::Enter(Phase::Draining));
    presumed_out.enter(Phase::Draining);
    assert_eq!(presumed_out.act(), Act::Wait, "it is out, and its agent goes on with the order");

    let mut recalled = shown_beside(order(9, Disposition::Serve { returning: true }));
    recalled.seen.hook = HookState::Ended;
    assert_eq!(recalled.act(), Act::Enter(Phase::Fresh), "nothing asks for its stop");
}

#[test]
fn what_came_in_before_its_stop_hook_ran_is_drained_again() {
    let mut unheeded = stopping(order(9, replace(2)));
    assert_eq!(unheeded.act(), Act::Stop);
    unheeded.seen.url = Url::Good;
    unheeded.pass(0);
    assert_eq!(unheeded.act(), Act::Enter(Phase::Draining), "its health check does not heed the file");
    unheeded.seen.hook = HookState::Runs;
    assert_eq!(unheeded.act(), Act::Wait, "a hook that runs is not taken back");

    let mut enabled = stopping(order(9, replace(2)));
    shown(&mut enabled);
    assert_eq!(enabled.act(), Act::Enter(Phase::Draining), "a person showed it while the agent was away");
    enabled.seen.hook = HookState::OtherRuns;
    assert_eq!(enabled.act(), Act::Enter(Phase::Draining), "its stop hook was not begun");
    enabled.seen.hook = HookState::Runs;
    assert_eq!(enabled.act(), Act::Disable, "a hook that runs is not taken back");
    enabled.seen.hook = HookState::Ended;
    assert_eq!(enabled.act(), Act::Enter(Phase::Draining), "a hook that has ended did not stop it");

    let mut rebooted = stopping(order(9, replace(2)));
    shown(&mut rebooted);
    rebooted.seen.hook = HookState::EarlierBoot;
    assert_eq!(rebooted.act(), Act::Enter(Phase::Draining), "the machine started it in the open");
    rebooted.enter(Phase::Draining);
    assert_eq!(rebooted.act(), Act::Disable);
    rebooted.enter(Phase::Stopping);
    rebooted.silent();
    assert_eq!(rebooted.act(), Act::Disable, "nothing listens");

    let mut presumed_out = stopping(replace_what_is_out(9, 2));
    shown(&mut presumed_out);
    presumed_out.seen.hook = HookState::EarlierBoot;
    assert_eq!(presumed_out.act(), Act::Enter(Phase::Draining));
    presumed_out.enter(Phase::Draining);
    assert_eq!(presumed_out.act(), Act::Decline(Phase::Verifying), "it is in rotation");

    let mut started = stopping(order(9, Disposition::Serve { returning: true }));
    started.seen.url = Url::Good;
    started.pass(0);
    assert_eq!(started.act(), Act::Enter(Phase::Fresh), "nothing asks for its stop");
}

#[test]
fn process_that_came_in_before_its_stop_is_drained_again() {
    let stopping = |asked: Order| {
        let mut story = Story::serving();
        story.disabled().ordered(asked);
        story.enter(Phase::Stopping);
        assert_eq!(story.act(), Act::Stop, "{:?}", story.journal.order);
        story
    };
    let mut shown = stopping(order(9, replace(2)));
    (shown.seen.file, shown.seen.url) = (DisableFile::Absent, Url::Good);
    assert_eq!(shown.pass(0).act(), Act::Enter(Phase::Draining), "a person showed it");
    shown.seen.url = Url::Other;
    assert_eq!(shown.pass(0).act(), Act::Enter(Phase::Draining), "it may still work on requests");
    shown.gone();
    assert_eq!(shown.act(), Act::Enter(Phase::Stopped), "it ended meanwhile");

    let mut unheeded = stopping(order(9, Disposition::Stop));
    unheeded.seen.url = Url::Good;
    assert_eq!(unheeded.pass(0).act(), Act::Enter(Phase::Draining), "its health check ignores the file");

    let mut recalled = stopping(order(9, Disposition::Serve { returning: true }));
    (recalled.seen.file, recalled.seen.url) = (DisableFile::Absent, Url::Good);
    assert_eq!(recalled.pass(0).act(), Act::Enter(Phase::Fresh), "nothing asks for its stop");
}

/// It was in rotation, and has just crashed, in this phase.
fn crashed(phase: &Phase) -> Story {
    let mut story = Story::serving().by_hooks();
    story.silent();
    story.enter(phase.clone());
    story.timers.restart_at = Some(story.seen.now);
    story
}

fn let_back() -> Phase {
    Phase::failed("draining", "2 requests are in flight", false)
}

fn staying() -> Phase {
    Phase::Refused { reason: "above the ceiling".to_owned(), stays: Some("this boot".to_owned()) }
}

#[test]
fn silent_service_is_stopped_once_balancers_know() {
    let (refused, starting) = (Phase::refused("above the ceiling"), Target::from(&release(2)));
    for (phase, next) in
        [(Phase::Fresh, Phase::Stopping), (let_back(), Phase::Stopping), (staying(), refused.clone())]
    {
        let mut story = crashed(&phase);
        story.pass(5);
        assert_eq!(story.act(), Act::Wait, "{phase:?}: what its supervisor starts is sent requests");
        story.pass(1);
        assert_eq!(story.act(), Act::Enter(next), "{phase:?}");
    }
    let mut recalled = crashed(&let_back());
    recalled.ordered(order(9, Disposition::Serve { returning: true }));
    assert_eq!((&recalled.journal.phase, recalled.act()), (&Phase::Fresh, Act::Wait));
    recalled.pass(6);
    assert_eq!(recalled.act(), Act::Enter(Phase::Stopping));

    let open = crashed(&refused);
    assert_eq!(open.act(), Act::Disable, "what its supervisor starts meanwhile is not shown");
    // The machine was booted during a hook.
    for phase in [refused.clone(), Phase::Stopped, Phase::Starting { target: starting }] {
        let mut hidden = crashed(&phase);
        (hidden.seen.file, hidden.seen.hook) = (DisableFile::Own, HookState::EarlierBoot);
        hidden.pass(5);
        assert_eq!(hidden.act(), Act::Wait, "{phase:?}");
        hidden.pass(1);
        assert_eq!(hidden.act(), Act::Enter(Phase::Stopping), "{phase:?}");
    }
    let mut deregistered = crashed(&refused);
    deregistered.timers = Timers::new(deregistered.seen.now, true);
    deregistered.seen.file = DisableFile::Own;
    deregistered.seen.balancers = Balancers::Said { up: false, down: true, sessions: 0, each: Vec::new() };
    deregistered.pass(0);
    assert_eq!(deregistered.act(), Act::Enter(Phase::Stopping), "balancers say so");
}

/// The machine was booted during the start hook of release 1, and has started release 2, which answers version 1.
#[test]
fn start_cut_off_by_a_boot_is_begun_again_with_a_stop() {
    for alive in [Alive::Yes, Alive::Unknown] {
        let mut story = Story::serving().by_hooks();
        story.journal.release = Some(release(2).tag);
        story.disabled().ordered(order(9, replace(1)));
        story.enter(Phase::Starting { target: Target::from(&release(1)) });
        (story.seen.alive, story.seen.hook) = (alive, HookState::EarlierBoot);
        story.seen.store = false;
        assert_eq!(story.act(), Act::Wait, "{alive:?}: another agent may manage it");
        story.seen.store = true;
        assert_eq!(story.act(), Act::Enter(Phase::Stopping), "{alive:?}");
        story.seen.wanted = Some(order(10, replace(1)));
        assert_eq!(story.act(), Act::Enter(Phase::Stopping), "{alive:?}: it is not what is ordered");
        story.enter(Phase::Stopping);
        story.ordered(order(10, replace(1)));
        assert_eq!((&story.journal.phase, story.act()), (&Phase::Stopping, Act::Stop), "{alive:?}");
        shown(&mut story);
        assert_eq!(story.act(), Act::Enter(Phase::Draining), "{alive:?}: the machine started it in the open");
    }
}

/// After the confirmed stop of release 2, which answers version 1, its own supervisor has started it again.
#[test]
fn restarted_before_the_start_hook_is_stopped_again() {
    let mut story = Story::serving().by_hooks();
    story.journal.release = Some(release(2).tag);
    story.disabled().ordered(order(9, replace(1)));
    story.enter(Phase::Starting { target: Target::from(&release(1)) });
    story.seen.store = false;
    assert_eq!(story.act(), Act::Wait, "another agent may manage it");
    story.seen.store = true;
    assert_eq!(story.act(), Act::Enter(Phase::Stopping));
    story.seen.wanted = Some(order(10, replace(1)));
    assert_eq!(story.act(), Act::Enter(Phase::Stopping), "it is not what is ordered");
    note_started(&mut story.journal, &story.seen);
    let known = (&story.journal.release, &story.journal.unidentified);
    assert_eq!(known, (&Some(release(2).tag), &None), "its stop hook is run for what runs");
    story.seen.wanted = None;
    story.journal.release = Some(release(1).tag);
    assert_eq!(story.act(), Act::Enter(Phase::Verifying), "what is to be started ran last");
    story.journal.release = Some(release(2).tag);
    story.seen.hook = HookState::Ended;
    assert_eq!(story.act(), Act::Enter(Phase::Verifying), "the start hook has started it");
}

/// Something else starts release 1 again after each of its stops.
#[test]
fn started_again_after_each_stop_fails_with_a_reason() {
    let serve = Disposition::Serve { returning: true };
    for (disposition, is_stopped_again) in
        [(replace(2), true), (Disposition::Stop, true), (replace(1), false), (serve, false)]
    {
        let mut story = Story::serving().by_hooks();
        story.disabled().ordered(order(9, disposition.clone()));
        for (phase, next) in [
            (Phase::Stopped, Phase::Fresh),
            (Phase::Starting { target: Target::from(&release(2)) }, Phase::Stopping),
        ] {
            story.enter(phase.clone());
            story.timers.undone_stops = 1;
            assert_eq!(story.act(), Act::Enter(next.clone()), "{disposition:?}, {phase:?}");
            story.timers.undone_stops = 2;
            let (act, last) = (story.act(), Act::Enter(next));
            let reason = match &act {
                Act::Enter(Phase::Failed { at, reason, hidden: true }) if at == "stopping" => reason.as_str(),
                _ => "",
            };
            let is_named = reason.contains("after each of 3 stops") && reason.contains("stop hook");
            assert_eq!((is_named, act == last), (is_stopped_again, !is_stopped_again), "{phase:?}: {act:?}");
        }
    }
}

/// After the confirmed stop of release 2, its own supervisor has started it again, and it does not answer yet.
#[test]
fn newer_order_does_not_name_what_was_not_started() {
    for disposition in [Disposition::Serve { returning: true }, Disposition::Drain, replace(1)] {
        let mut story = Story::serving().by_hooks();
        story.journal.release = Some(release(2).tag);
        story.disabled().ordered(order(9, replace(1)));
        story.enter(Phase::Starting { target: Target::from(&release(1)) });
        story.seen.wanted = Some(order(10, disposition.clone()));
        story.seen.alive = Alive::Unknown;
        assert_eq!(story.act(), Act::Enter(Phase::Stopped), "{disposition:?}");
        note_started(&mut story.journal, &story.seen);
        let known = (&story.journal.release, &story.journal.unidentified);
        assert_eq!(known, (&Some(release(2).tag), &None), "{disposition:?}");
        // The machine was booted during the start hook, and has not started the service yet.
        story.silent().seen.hook = HookState::EarlierBoot;
        assert_eq!(story.pass(6).act(), Act::Enter(Phase::Stopping), "{disposition:?}");
    }
}

/// After the confirmed stop of a process, something answers that does not hold its lock.
#[test]
fn foreign_process_is_not_taken_for_what_is_to_be_started() {
    let mut story = Story::serving();
    story.disabled().ordered(order(9, replace(2)));
    story.enter(Phase::Starting { target: Target::from(&release(2)) });
    story.seen.store = false;
    assert_eq!(story.act(), Act::Wait, "another agent may manage it");
    story.seen.store = true;
    assert_eq!(story.act(), Act::Enter(Phase::Stopping));
    story.enter(Phase::Stopped);
    assert_eq!(story.act(), Act::Enter(Phase::Fresh), "its agent cannot stop it, and admits it");
    story.enter(Phase::Fresh);
    assert_eq!(story.act(), Act::Enter(Phase::Draining), "it is not what is to be started");
    story.enter(Phase::Starting { target: Target::from(&release(2)) });
    story.seen.hook = HookState::Ended;
    assert_eq!(story.act(), Act::Enter(Phase::Verifying), "it holds the lock");
}

#[test]
fn nothing_is_started_beside_what_does_not_answer_in_time() {
    let mut story = Story::serving().by_hooks();
    story.disabled().silent();
    story.enter(Phase::Starting { target: Target::from(&release(1)) });
    assert_eq!(story.act(), Act::Start(Target::from(&release(1))));
    story.seen.alive = Alive::Unknown;
    assert_eq!(story.act(), Act::Enter(Phase::Stopped), "its own supervisor may have started it");
    story.enter(Phase::Stopped);
    assert_eq!(story.act(), Act::Wait);
    story.silent();
    assert!(matches!(story.act(), Act::AdmitTarget(target) if target.tag == release(1).tag));
}

#[test]
fn silent_service_that_answers_again_is_not_stopped() {
    let restarted = |phase: &Phase| {
        let mut story = crashed(phase);
        story.pass(5);
        (story.seen.alive, story.seen.probe) = (Alive::Yes, Probed::Version(version(1)));
        story.seen.url = Url::Good;
        story.pass(1);
        story
    };
    for phase in [Phase::Fresh, staying()] {
        assert_eq!(restarted(&phase).act(), Act::Enter(Phase::Verifying), "{phase:?}: it goes on");
    }
    let mut again = restarted(&Phase::Fresh);
    again.silent().pass(5);
    assert_eq!(again.act(), Act::Wait, "it crashed again, and balancers may have seen it answer");
}
