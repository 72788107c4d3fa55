//! What is refused leaves rotation at once, but for what stays there until it is drained (`stays.rs`).

use super::story::{Story, order, release, replace, version};
use crate::config::address::AbsolutePath;
use crate::config::settings::Artifact;
use crate::directive::act::Act;
use crate::directive::identity::note_started;
use crate::directive::seen::{Balancers, Probed, Url};
use crate::directive::stays::stays;
use crate::directive::timers::Timers;
use crate::host::{Alive, HookState, Target};
use crate::journal::{Admitted, Phase, Refusal};
use tidegate_proto::Revision;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Health;

const BOOT: &str = "this boot";

fn refusal(bears: bool) -> Refusal {
    let reason = "below the floor".to_owned();
    Refusal { version: version(1), window: Revision(7), reason, bears, ..Refusal::default() }
}

/// Version 2 was admitted and serves; now version 1 answers.
fn put_back() -> Story {
    let mut story = Story::serving();
    story.journal.admitted = Some(Admitted { version: version(2), release: None, revision: Revision(5) });
    story.window(2, 2, 7);
    story.seen.probe = Probed::Version(version(1));
    story
}

#[test]
fn changed_version_stays_if_not_below_contracted_one() {
    let story = put_back();
    assert!(stays(&story.journal, BOOT, &refusal(true), true));
    assert!(!stays(&story.journal, BOOT, &refusal(true), false), "it comes into rotation");
}

#[test]
fn changed_version_below_the_contracted_one_is_disabled_at_once() {
    assert!(!stays(&put_back().journal, BOOT, &refusal(false), true));
}

#[test]
fn refused_without_a_change_of_version_does_not_stay() {
    let mut story = put_back();
    story.journal.admitted = Some(Admitted { version: version(1), release: None, revision: Revision(5) });
    assert!(!stays(&story.journal, BOOT, &refusal(true), true), "its lease was lost, say");
    for phase in [Phase::Fresh, Phase::refused("below")] {
        let mut story = put_back();
        story.enter(phase.clone());
        assert!(!stays(&story.journal, BOOT, &refusal(true), true), "{phase:?}");
    }
}

#[test]
fn serving_version_stays_under_refusing_reconciled_window() {
    let mut story = put_back();
    story.journal.admitted = Some(Admitted { version: version(1), release: None, revision: Revision(48) });
    story.journal.witness.floor = Some(version(1));
    assert!(!stays(&story.journal, BOOT, &refusal(false), true), "this store admitted it");
    story.journal.reconcile(Revision(4));
    // A reconciled window does not say what was contracted.
    assert!(stays(&story.journal, BOOT, &refusal(false), true), "how many others serve is not known to it");
    assert!(!stays(&story.journal, BOOT, &refusal(false), false), "it comes into rotation");
    story.enter(Phase::Refused { reason: "above the ceiling".to_owned(), stays: Some(BOOT.to_owned()) });
    assert!(stays(&story.journal, BOOT, &refusal(false), true), "it is asked for again");
    story.journal.witness.floor = Some(version(2));
    assert!(!stays(&story.journal, BOOT, &refusal(false), true), "below the floor that was obeyed");
}

/// Refused, and still in rotation.
fn staying() -> Story {
    let mut story = put_back();
    story.journal.refusal = Some(refusal(true));
    story.enter(Phase::Refused { reason: "below the floor".to_owned(), stays: Some(BOOT.to_owned()) });
    story
}

#[test]
fn staying_instance_is_left_alone_until_it_is_drained() {
    let mut story = staying();
    assert_eq!(story.act(), Act::Wait);
    assert!(stays(&story.journal, BOOT, &refusal(true), true), "the window moved, and bears it too");
    assert!(!stays(&story.journal, "another boot", &refusal(true), true));
    story.seen.wanted = Some(order(9, Disposition::Drain));
    assert!(matches!(story.act(), Act::Accept(_, Phase::Draining)), "{:?}", story.act());
}

#[test]
fn staying_instance_that_ends_is_refused_like_any_other() {
    let mut story = staying();
    story.seen.alive = Alive::No;
    assert_eq!(story.act(), Act::Enter(Phase::refused("below the floor")));
    story.enter(Phase::refused("below the floor"));
    story.seen.alive = Alive::Yes;
    assert_eq!(story.act(), Act::Disable);
}

/// `fall` of the story's checks, from the last look on.
fn later(story: &mut Story, url: Url, falls: f64) {
    story.seen.url = url;
    story.seen.now += story.service.fall_time().mul_f64(falls);
    story.timers.take_in(&story.seen);
}

fn still_in(story: &Story) -> bool {
    let (rise, fall) = (story.service.rise_time(), story.service.fall_time());
    story.timers.is_still_in(story.seen.now, rise, fall)
}

#[test]
fn restart_that_no_check_had_time_to_see_leaves_it_in_rotation() {
    for (falls, expected) in [(0.4, true), (1.2, false)] {
        let mut story = put_back();
        later(&mut story, Url::Good, 0.0);
        later(&mut story, Url::Good, 10.0);
        later(&mut story, Url::NoListener, 0.1);
        later(&mut story, Url::Good, falls);
        assert_eq!(still_in(&story), expected, "down for {falls} of the fall time");
    }
}

#[test]
fn silent_or_flapping_instance_is_not_in_rotation() {
    let mut story = put_back();
    story.timers = Timers::new(story.seen.now, false);
    later(&mut story, Url::NoListener, 0.1);
    later(&mut story, Url::Good, 0.1);
    assert!(!still_in(&story), "it was never seen in rotation");
    let mut story = put_back();
    later(&mut story, Url::Good, 10.0);
    for _ in 0..6 {
        later(&mut story, Url::NoListener, 0.05);
        later(&mut story, Url::Good, 0.3);
    }
    assert!(!still_in(&story));
}

#[test]
fn reachable_balancers_decide_whether_instance_is_in_rotation() {
    for down in [false, true] {
        let mut story = put_back();
        story.timers = Timers::new(story.seen.now, true);
        story.seen.balancers = Balancers::Said { up: false, down, sessions: 0, each: Vec::new() };
        later(&mut story, Url::NoListener, 5.0);
        assert_eq!(still_in(&story), !down);
        story.journal.refusal = Some(refusal(true));
        story.enter(Phase::Refused { reason: "below the floor".to_owned(), stays: Some(BOOT.to_owned()) });
        let left = Act::Enter(Phase::refused("below the floor"));
        assert_eq!(story.act(), if down { left } else { Act::Wait });
    }
}

#[test]
fn staying_instance_without_answer_is_refused() {
    let mut story = staying();
    later(&mut story, Url::Good, 1.0);
    later(&mut story, Url::NoListener, 0.1);
    later(&mut story, Url::NoListener, 0.5);
    assert_eq!(story.act(), Act::Wait);
    later(&mut story, Url::NoListener, 0.6);
    assert_eq!(story.act(), Act::Enter(Phase::refused("below the floor")));
}

/// Version 1 was admitted and serves, has to be admitted again, and lies outside the window. It answers nothing any more.
fn hanging() -> Story {
    let mut story = Story::serving();
    story.window(2, 2, 7).seen.readmit = true;
    story.seen.probe = Probed::Late;
    (story.seen.ready, story.seen.health) = (false, Health::Unhealthy);
    later(&mut story, Url::Other, 0.1);
    later(&mut story, Url::Other, 0.5);
    story
}

#[test]
fn hanging_instance_outside_the_window_is_hidden_once_out() {
    let is_refused = |story: &Story| matches!(story.act(), Act::Enter(Phase::Refused { stays: None, .. }));
    let mut story = hanging();
    assert_eq!(story.act(), Act::Wait, "balancers may still send requests to it");
    later(&mut story, Url::Other, 0.6);
    let failed = Phase::failed("verifying", "not healthy", false);
    for phase in [Phase::Serving, Phase::Fresh, Phase::Verifying, failed] {
        let mut story = story.clone();
        story.enter(phase.clone());
        assert!(is_refused(&story), "{phase:?}: {:?}", story.act());
    }
    story.seen.alive = Alive::Unknown;
    assert!(is_refused(&story), "no lock shows whether it runs: {:?}", story.act());
    story.enter(Phase::refused("outside"));
    assert_eq!(story.act(), Act::Disable, "before it comes back");
    story.disabled();
    assert_eq!(story.act(), Act::Wait);
    story.seen.probe = Probed::Version(version(1));
    let asked = Act::AdmitRunning(version(1), Some(release(1).tag));
    assert_eq!(story.act(), asked, "the window may have moved");
    story.seen.readmit = false;
    assert_eq!(story.act(), Act::Enter(Phase::Verifying), "it was admitted");
}

#[test]
fn hanging_instance_is_left_where_nothing_refuses_it() {
    let others: [fn(&mut Story); 5] = [
        |story| story.seen.readmit = false,
        |story| story.seen.store = false,
        |story| story.seen.alive = Alive::Silent,
        |story| story.journal.window = None,
        |story| {
            story.window(1, 2, 7);
        },
    ];
    for (place, other) in others.into_iter().enumerate() {
        let mut story = hanging();
        later(&mut story, Url::Other, 0.6);
        other(&mut story);
        let act = story.act();
        assert!(!matches!(act, Act::Enter(_) | Act::Disable), "case {place}: {act:?}");
    }
}

fn artifact(number: i64) -> Artifact {
    let source = AbsolutePath(format!("/artifacts/{number}").into());
    Artifact { source, sha256: None, version: version(number), max_bytes: 1 }
}

#[test]
fn unsteady_instance_fails_and_stays_in_rotation() {
    let mut story = Story::serving();
    story.seen.ready = false;
    story.seen.health = Health::Unhealthy;
    story.ordered(order(20, Disposition::Serve { returning: false }));
    assert_eq!(story.journal.phase, Phase::Verifying);
    story.pass(3600);
    let Act::Enter(Phase::Failed { hidden, .. }) = story.act() else { panic!("{:?}", story.act()) };
    assert!(!hidden, "it is in rotation, and what takes it out asks for capacity");
    let mut returning = story.clone();
    returning.ordered(order(21, Disposition::Serve { returning: true }));
    returning.pass(3600);
    let Act::Enter(Phase::Failed { hidden, .. }) = returning.act() else { panic!("{:?}", returning.act()) };
    assert!(!hidden, "it is let back, and in rotation");
    story.enter(Phase::Failed { at: "verifying".into(), reason: String::new(), hidden: false });
    assert_eq!(story.act(), Act::Wait);
}

#[test]
fn new_release_with_former_version_is_not_the_former_one() {
    let mut story = Story::serving();
    story.service.artifacts = [1, 2].map(|n| (release(n).tag, artifact(n))).into();
    story.journal.admitted = Some(Admitted { version: version(2), release: None, revision: Revision(5) });
    story.journal.release = Some("pantry-2.0.0".parse().unwrap());
    story.journal.unexposed = true;
    story.window(1, 2, 7);
    story.seen.probe = Probed::Version(version(1));
    story.enter(Phase::Verifying);
    let tag = |act: Act| match act {
        Act::AdmitRunning(_, release) => release.map(|tag| tag.to_string()),
        other => panic!("{other:?}"),
    };
    assert_eq!(tag(story.act()).as_deref(), Some("pantry-2.0.0"), "it was started here and never shown");
    story.journal.unexposed = false;
    story.journal.unidentified = Some("pantry-2.0.0".parse().unwrap());
    let shown = "a person enabled it before the store could be asked";
    assert_eq!(tag(story.act()).as_deref(), Some("pantry-2.0.0"), "{shown}");
    story.journal.unidentified = None;
    assert_eq!(tag(story.act()).as_deref(), Some("pantry-1.0.0"), "a person put it there");
}

/// The agent ended in the start of a release that answers the former version, and a rollback was ordered meanwhile.
#[test]
fn release_in_its_start_is_not_the_former_one() {
    let accepted = |tag: i64, answers: i64| {
        let mut story = Story::serving().by_hooks();
        story.disabled();
        story.seen.probe = Probed::Version(version(answers));
        story.seen.hook = HookState::Ended;
        story.enter(Phase::Starting { target: Target::from(&release(2)) });
        story.seen.wanted = Some(order(9, replace(tag)));
        match story.act() {
            Act::Accept(_, phase) => phase,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(accepted(1, 1), Phase::Draining, "what runs is the new release");
    assert_eq!(accepted(2, 2), Phase::Verifying, "it is what the directive asks for");
}

/// The start of release 2 by a hook, and nothing answers.
fn silent_in_its_start(hook: HookState) -> Story {
    let mut story = Story::serving().by_hooks();
    story.disabled().silent();
    story.seen.hook = hook;
    story.enter(Phase::Starting { target: Target::from(&release(2)) });
    story.journal.unexposed = true;
    story
}

#[test]
fn release_whose_start_ended_unseen_is_what_answers_later() {
    for answers in [1, 2] {
        let mut story = silent_in_its_start(HookState::Ended);
        let Act::Enter(failed) = story.pass(60).act() else { panic!("{:?}", story.act()) };
        assert!(matches!(failed, Phase::Failed { .. }), "{failed:?}");
        note_started(&mut story.journal, &story.seen);
        story.enter(failed);
        (story.seen.alive, story.seen.readmit) = (Alive::Yes, true);
        story.seen.probe = Probed::Version(version(answers));
        assert_eq!(story.act(), Act::AdmitRunning(version(answers), Some(release(2).tag)));
    }
}

#[test]
fn order_in_a_start_that_ended_unseen_keeps_its_release() {
    let mut story = silent_in_its_start(HookState::Ended);
    story.seen.wanted = Some(order(9, replace(1)));
    assert!(matches!(story.act(), Act::Accept(..)), "{:?}", story.act());
    note_started(&mut story.journal, &story.seen);
    assert_eq!(story.journal.release, Some(release(2).tag), "its stop hook is run for what may run");
}

#[test]
fn start_whose_hook_was_not_begun_leaves_the_former_release() {
    let mut story = silent_in_its_start(HookState::NotBegun);
    (story.seen.alive, story.seen.readmit) = (Alive::Unknown, true);
    assert_eq!(story.act(), Act::Enter(Phase::Stopped));
    note_started(&mut story.journal, &story.seen);
    assert_eq!((&story.journal.release, &story.journal.unidentified), (&Some(release(1).tag), &None));
}

/// The start hook of release 2 was begun and has failed: the service may answer later.
fn failed_in_its_start() -> Story {
    let mut story = silent_in_its_start(HookState::Ended);
    story.pass(10).journal.note_started();
    story.enter(Phase::failed("starting", "the start hook failed: exit status: 1", true));
    story
}

#[test]
fn failed_start_is_replaced_by_the_former_release() {
    let serve = order(8, Disposition::Serve { returning: true });
    for orders in [vec![order(9, replace(1))], vec![serve, order(9, replace(1))]] {
        let mut story = failed_in_its_start();
        let recalled = orders.len() > 1;
        for order in orders {
            story.ordered(order);
        }
        if !recalled {
            assert_eq!(story.journal.phase, Phase::Drained { forced: false }, "it was never exposed");
            assert_eq!(story.act(), Act::BeginStop(Some(Target::from(&release(1)))));
            story.enter(Phase::Stopping);
        }
        assert_eq!((&story.journal.phase, story.act()), (&Phase::Stopping, Act::Stop));
        assert_eq!(story.journal.release, Some(release(2).tag), "its stop hook is run for what may run");
        story.enter(Phase::Stopped);
        assert_eq!(story.act(), Act::AdmitTarget(Target::from(&release(1))));
    }
}

#[test]
fn failed_start_that_answers_is_not_started_again() {
    let mut story = failed_in_its_start();
    story.journal.admitted =
        Some(Admitted { version: version(2), release: Some(release(2).tag), revision: Revision(6) });
    (story.seen.alive, story.seen.probe) = (Alive::Yes, Probed::Version(version(2)));
    (story.seen.ready, story.seen.health, story.seen.url) = (true, Health::Healthy, Url::Unavailable);
    story.pass(0).pass(10);
    story.ordered(order(9, Disposition::Serve { returning: true }));
    assert_eq!(story.journal.phase, Phase::Verifying);
    assert_eq!(story.act(), Act::Enable, "what runs goes into rotation");
}

#[test]
fn failed_start_that_answers_later_is_not_the_former_release() {
    for answers in [1, 2] {
        let mut story = failed_in_its_start();
        let admitted =
            Admitted { version: version(answers), release: Some(release(2).tag), revision: Revision(6) };
        story.journal.admitted = Some(admitted);
        story.seen.alive = Alive::Yes;
        story.seen.probe = Probed::Version(version(answers));
        story.ordered(order(9, replace(1)));
        assert_eq!(story.journal.phase, Phase::Draining, "what runs is release 2, and it answers {answers}");
    }
}
