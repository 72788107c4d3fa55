//! What is verified: healthy and in rotation without a break, at the version that was started.

use super::story::{Story, order, release, replace, version};
use crate::directive::act::Act;
use crate::directive::identity::{note_admitted, note_doubt, note_started};
use crate::directive::seen::{Balancers, DisableFile, Probed, Url};
use crate::directive::timers::Timers;
use crate::host::{Alive, HookState, Target};
use crate::journal::{Admitted, Phase};
use tidegate_proto::Revision;
use tidegate_proto::record::directive::Disposition;

#[test]
fn verified_means_healthy_without_a_break_and_back() {
    let mut story = Story::serving();
    story.ordered(order(9, replace(2))).disabled();
    story.journal.admitted =
        Some(Admitted { version: version(2), release: Some(release(2).tag), revision: Revision(6) });
    story.seen.probe = Probed::Version(version(2));
    story.seen.ready = false;
    story.pass(0);
    story.enter(Phase::Verifying);
    assert_eq!(story.act(), Act::Wait, "not healthy yet, and so not shown");
    story.seen.ready = true;
    story.pass(1);
    assert_eq!(story.act(), Act::Enable);
    story.seen.file = DisableFile::Absent;
    story.seen.url = Url::Good;
    story.pass(1);
    story.pass(13);
    assert_eq!(story.act(), Act::Wait, "in rotation after 4 s, healthy there for 9 s of 10");
    story.seen.ready = false;
    story.pass(1);
    story.seen.ready = true;
    story.pass(1).pass(13);
    assert_eq!(story.act(), Act::Wait, "the break starts it again");
    story.pass(1);
    assert_eq!(story.act(), Act::Enter(Phase::Serving));
}

/// Version 2 was started and shown; so many balancers that can be asked say UP.
fn shown(balancers: bool) -> Story {
    let mut story = Story::serving();
    story.ordered(order(9, replace(2))).disabled();
    let admitted = Admitted { version: version(2), release: Some(release(2).tag), revision: Revision(6) };
    story.journal.admitted = Some(admitted);
    story.seen.probe = Probed::Version(version(2));
    story.timers = Timers::new(story.seen.now, balancers);
    story.enter(Phase::Verifying);
    story.seen.file = DisableFile::Absent;
    story.seen.url = Url::Good;
    if balancers {
        story.seen.balancers = said(true);
    }
    story.pass(0);
    story
}

fn said(up: bool) -> Balancers {
    Balancers::Said { up, down: !up, sessions: 0, each: Vec::new() }
}

#[test]
fn flapping_readiness_health_url_or_balancer_is_never_verified() {
    let flaps: [fn(&mut Story, bool); 3] = [
        |story, good| story.seen.ready = good,
        |story, good| story.seen.url = if good { Url::Good } else { Url::Unavailable },
        |story, good| story.seen.balancers = said(good),
    ];
    for (n, flap) in flaps.iter().enumerate() {
        let mut story = shown(true);
        for second in 1..300 {
            flap(&mut story, second % 6 != 0);
            story.pass(1);
            assert_eq!(story.act(), Act::Wait, "{n}: in second {second}");
        }
        story.pass(1);
        let Act::Enter(Phase::Failed { reason, .. }) = story.act() else { panic!("{n}: {:?}", story.act()) };
        assert!(reason.contains("10 s without a break"), "{reason}");
    }
}

#[test]
fn returned_instance_stays_in_rotation_at_its_deadline() {
    for ready in [true, false] {
        let mut story = shown(true);
        story.ordered(order(10, Disposition::Serve { returning: true }));
        story.enter(Phase::Verifying);
        for second in 1..300 {
            story.seen.ready = second % 6 != 0;
            story.pass(1);
        }
        story.seen.ready = ready;
        story.pass(1);
        let Act::Enter(Phase::Failed { hidden, .. }) = story.act() else { panic!("{:?}", story.act()) };
        assert!(!hidden, "ready: {ready}; how many others serve is not known to it");
        story.enter(Phase::Failed { at: "verifying".into(), reason: String::new(), hidden });
        assert_eq!(story.act(), Act::Wait);
    }
}

/// No upgrade is active that would order it again.
#[test]
fn failed_hidden_instance_is_verified_again_once_healthy() {
    let serve = || Disposition::Serve { returning: true };
    for (asked, at, returns) in [
        (serve(), "verifying", true),
        (serve(), "starting", true),
        (Disposition::Drain, "verifying", false),
        (replace(1), "verifying", false),
    ] {
        let mut story = Story::serving();
        story.ordered(order(9, asked.clone())).disabled();
        story.seen.ready = false;
        story.enter(Phase::failed(at, "not healthy", true));
        let mut masked = story.clone();
        assert_eq!(story.pass(60).act(), Act::Wait, "{asked:?}, {at}: it is not ready");
        story.seen.ready = true;
        story.pass(0);
        assert_eq!(story.pass(9).act(), Act::Wait, "{asked:?}, {at}: healthy for 9 s of 10");
        story.seen.ready = false;
        story.pass(1).seen.ready = true;
        story.pass(0);
        assert_eq!(story.pass(9).act(), Act::Wait, "{asked:?}, {at}: the break starts it again");
        let next = if returns { Act::Enter(Phase::Verifying) } else { Act::Wait };
        assert_eq!(story.pass(1).act(), next, "{asked:?}, {at}");
        masked.seen.masked = true;
        assert_eq!(masked.pass(9).act(), Act::Wait, "{asked:?}, {at}: not at once again");
        assert_eq!(masked.pass(1).act(), next, "{asked:?}, {at}: only its file says that it is not ready");
    }
}

/// Version 2 was started and not verified. A retry finds it running and shows it again without another start.
fn shown_by_a_retry() -> Story {
    let mut story = shown(true);
    story.journal.release = Some(release(2).tag);
    story.enter(Phase::failed("verifying", "not healthy", true));
    story.disabled().ordered(order(10, replace(2)));
    assert_eq!(story.act(), Act::Enable);
    story.seen.file = DisableFile::Absent;
    story.seen.url = Url::Good;
    story.pass(0);
    story
}

#[test]
fn started_instance_is_disabled_at_its_deadline() {
    for mut story in [shown(true), shown_by_a_retry()] {
        for second in 1..300 {
            story.seen.ready = second % 6 != 0;
            story.pass(1);
        }
        story.seen.ready = false;
        story.pass(1);
        let Act::Enter(Phase::Failed { hidden, .. }) = story.act() else { panic!("{:?}", story.act()) };
        assert!(hidden, "a release that is not verified leaves rotation");
    }
}

#[test]
fn what_was_good_before_a_retry_counts_for_nothing() {
    let mut story = shown(true);
    story.ordered(order(10, Disposition::Serve { returning: true }));
    story.enter(Phase::failed("verifying", "healthy, but not without a break", false));
    story.pass(60).ordered(order(11, Disposition::Serve { returning: true }));
    story.pass(0);
    assert_eq!(story.act(), Act::Wait, "a failed instance is looked at too seldom to see each break");
    story.pass(9);
    assert_eq!(story.act(), Act::Wait);
    story.pass(1);
    assert_eq!(story.act(), Act::Enter(Phase::Serving));
}

#[test]
fn short_single_dip_does_not_restart_the_healthy_time() {
    let mut story = shown(true);
    story.pass(5);
    story.seen.ready = false;
    story.pass_ms(200);
    assert_eq!(story.act(), Act::Wait);
    story.seen.ready = true;
    story.pass_ms(200).pass(4);
    assert_eq!(story.act(), Act::Wait);
    story.pass(1);
    assert_eq!(story.act(), Act::Enter(Phase::Serving));
}

#[test]
fn unhealthy_or_other_version_fails_disabled() {
    let verifying = || {
        let mut story = Story::serving();
        story.ordered(order(9, replace(2))).disabled();
        let admitted = Admitted { version: version(2), release: None, revision: Revision(6) };
        story.journal.admitted = Some(admitted);
        story.seen.probe = Probed::Version(version(2));
        story.enter(Phase::Verifying);
        story
    };
    let failed =
        |act: Act| matches!(act, Act::Enter(Phase::Failed { at, hidden: true, .. }) if at == "verifying");
    let mut late = verifying();
    late.seen.ready = false;
    late.pass(300);
    assert!(failed(late.act()));
    let mut other = verifying();
    other.seen.probe = Probed::Version(version(3));
    other.journal.admitted = Some(Admitted { version: version(3), release: None, revision: Revision(7) });
    assert!(failed(other.pass(0).act()));
    let mut dead = verifying();
    assert!(failed(dead.gone().act()));
    let mut kept = verifying();
    kept.seen.file = DisableFile::Foreign;
    assert_eq!(kept.pass(3000).act(), Act::Wait, "maintenance is no failure");
    (kept.seen.file, kept.seen.url) = (DisableFile::Absent, Url::Good);
    assert_eq!(kept.pass(1).act(), Act::Wait, "nor is its end");
    let mut unready = kept.clone();
    assert_eq!(kept.pass(20).act(), Act::Enter(Phase::Serving));
    unready.seen.ready = false;
    assert!(failed(unready.pass(300).act()), "its time has begun again");
}

/// The start hook of release 1, in place of release 2, has ended, and nothing had answered when the machine was booted. What
/// the machine has started answers version 1, as release 2 does too.
fn booted_after_its_start() -> Story {
    let mut story = Story::serving().by_hooks();
    story.journal.release = Some(release(2).tag);
    story.disabled().ordered(order(9, replace(1)));
    story.enter(Phase::Starting { target: Target::from(&release(1)) });
    story.journal.note_started();
    story.journal.unexposed = true;
    story.seen.hook = HookState::EarlierBoot;
    story.enter(Phase::Verifying);
    story
}

#[test]
fn started_release_is_in_doubt_after_a_boot() {
    let mut story = booted_after_its_start();
    story.seen.readmit = true;
    assert_eq!(story.act(), Act::AdmitRunning(version(1), Some(release(1).tag)));
    note_admitted(&mut story.journal, Some(release(1).tag), &story.seen);
    story.seen.store = false;
    assert_eq!(story.act(), Act::Wait, "only the store shows that no other agent manages it");
    (story.seen.store, story.seen.readmit) = (true, false);
    assert_eq!(story.act(), Act::Enter(Phase::Draining), "it is stopped, and release 1 is started again");
    let mut admitted_before = story.clone();
    admitted_before.seen.hook = HookState::Ended;
    note_admitted(&mut admitted_before.journal, Some(release(1).tag), &admitted_before.seen);
    admitted_before.seen.hook = HookState::EarlierBoot;
    assert_eq!(admitted_before.act(), Act::Enable, "it had answered before the boot");
    let others: [fn(&mut Story); 2] =
        [|story| story.seen.hook = HookState::Ended, |story| story.journal.unexposed = false];
    for (place, other) in others.into_iter().enumerate() {
        let mut story = story.clone();
        other(&mut story);
        assert_eq!(story.act(), Act::Enable, "case {place}: no boot, or it was shown since its start");
    }
    story.ordered(order(10, Disposition::Serve { returning: true }));
    assert_eq!(story.act(), Act::Enable, "no order starts another release");
}

#[test]
fn unanswering_release_after_a_boot_fails_at_its_deadline() {
    let mut story = booted_after_its_start();
    story.silent();
    assert_eq!(story.act(), Act::Wait, "its machine may be starting it");
    let Act::Enter(Phase::Failed { at, .. }) = story.pass(3600).act() else { panic!("{:?}", story.act()) };
    assert_eq!(at, "verifying");
}

/// The status hook denies that the service runs.
#[test]
fn denial_after_a_boot_fails_it_only_at_its_deadline() {
    let failed =
        |act: Act| matches!(act, Act::Enter(Phase::Failed { at, hidden: true, .. }) if at == "verifying");
    let mut story = booted_after_its_start();
    story.silent().seen.gone = true;
    assert_eq!(story.pass(5).act(), Act::Wait, "its machine may be starting it");
    let mut same_boot = story.clone();
    same_boot.seen.hook = HookState::Ended;
    assert!(failed(same_boot.act()), "it ended by itself after its start");
    let mut ended_again = story.clone();
    ended_again.seen.alive = Alive::Unknown;
    ended_again.pass(1).seen.alive = Alive::Silent;
    assert!(failed(ended_again.pass(1).act()), "it had come up after the boot");
    assert!(failed(story.pass(3600).act()));
}

/// With the `process` driver: nothing but the agent starts it again.
#[test]
fn process_that_ended_with_its_machine_is_started_again() {
    let mut story = Story::serving();
    story.disabled().ordered(order(9, replace(2)));
    story.journal.release = Some(release(2).tag);
    story.enter(Phase::Verifying);
    story.gone();
    let Act::Enter(Phase::Failed { at, .. }) = story.act() else { panic!("{:?}", story.act()) };
    assert_eq!(at, "verifying", "no boot: it ended by itself");
    story.seen.booted = true;
    assert_eq!(story.act(), Act::Enter(Phase::Stopped));
    story.enter(Phase::Stopped);
    assert_eq!(story.act(), Act::AdmitTarget(Target::from(&release(2))));
}

/// It was not verified, and stayed in rotation or hidden. Then its process ends, or its machine is booted.
#[test]
fn process_that_ended_after_a_failed_verification_is_started() {
    let serve = || Disposition::Serve { returning: true };
    for (asked, is_started) in [(serve(), true), (Disposition::Drain, false), (replace(1), false)] {
        for hidden in [false, true] {
            let mut story = Story::serving();
            story.ordered(order(9, asked.clone()));
            if hidden {
                story.disabled();
            }
            story.enter(Phase::failed("verifying", "not healthy", hidden));
            story.gone();
            let expected = if is_started { Act::Enter(Phase::Stopped) } else { Act::Wait };
            assert_eq!(story.act(), expected, "{asked:?}, hidden: {hidden}");
        }
    }
    let mut again = Story::serving();
    again.ordered(order(9, serve())).gone();
    again.enter(Phase::failed("verifying", "not healthy", false));
    again.timers.crashed(again.seen.now);
    assert_eq!(again.act(), Act::Wait, "it has ended a moment ago");
    again.pass(1);
    assert_eq!(again.act(), Act::Enter(Phase::Stopped));
}

#[test]
fn failed_start_before_a_boot_is_replaced_by_its_retry() {
    for (hook, expected) in [(HookState::EarlierBoot, Phase::Draining), (HookState::Ended, Phase::Verifying)]
    {
        let mut story = booted_after_its_start();
        story.seen.hook = hook;
        story.enter(Phase::refused("above the ceiling"));
        assert_eq!(story.act(), Act::Enter(expected.clone()), "{hook:?}: the window moved");
        story.enter(Phase::failed("starting", "the start hook failed: exit status: 1", true));
        story.ordered(order(10, replace(1)));
        assert_eq!(story.journal.phase, expected, "{hook:?}: what answers may be release 2");
    }
}

#[test]
fn doubt_after_a_boot_outlasts_a_failed_stop_hook() {
    let mut story = booted_after_its_start();
    assert!(note_doubt(&mut story.journal, &story.seen));
    assert!(!note_doubt(&mut story.journal, &story.seen), "it is journalled already");
    // The stop hook, which was begun in this boot, takes the place of the start hook.
    story.seen.hook = HookState::NotBegun;
    story.enter(Phase::failed("stopping", "the stop hook failed: exit status: 1", true));
    story.ordered(order(10, replace(1)));
    assert_eq!(story.journal.phase, Phase::Draining, "what answers may be release 2");
    story.journal.enter(Phase::Stopped);
    assert!(!story.journal.in_doubt, "a confirmed stop ends it");
}

/// The machine was booted during the start of release 2. What it has started answers version 1, as release 2 does too.
#[test]
fn start_cut_off_by_a_boot_is_in_doubt_until_stopped() {
    let mut story = Story::serving().by_hooks();
    story.disabled().ordered(order(9, replace(2)));
    story.enter(Phase::Starting { target: Target::from(&release(2)) });
    story.seen.hook = HookState::EarlierBoot;
    assert_eq!(story.act(), Act::Enter(Phase::Stopping));
    note_started(&mut story.journal, &story.seen);
    story.seen.hook = HookState::NotBegun;
    story.enter(Phase::failed("stopping", "the stop hook failed: exit status: 1", true));
    story.ordered(order(10, replace(1)));
    assert_eq!(story.journal.phase, Phase::Draining, "what answers may be release 2");
}
