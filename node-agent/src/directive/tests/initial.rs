//! The first release of all, and what runs when the agent has no journal.

use super::super::seen::{DisableFile, Probed, Url};
use super::super::timers::Timers;
use super::story::{Story, order, release, replace, version};
use crate::directive::act::Act;
use crate::host::{Alive, Target};
use crate::journal::{Admitted, Journal, Phase, Refusal};
use tidegate_proto::Revision;

/// Nothing runs and nothing was ever admitted.
fn blank() -> Story {
    let mut story = Story::serving();
    story.journal = Journal::default();
    story.service.initial_release = Some(release(1).tag);
    story.gone();
    story.enter(Phase::Stopped);
    story.seen.file = DisableFile::Own;
    story
}

fn first(act: Act) -> Target {
    match act {
        Act::AdmitTarget(target) => target,
        other => panic!("the first release is not started: {other:?}"),
    }
}

#[test]
fn initial_release_starts_where_nothing_was_admitted() {
    let story = blank();
    assert_eq!(first(story.act()).tag, release(1).tag);
}

#[test]
fn lost_lease_before_start_does_not_prevent_start() {
    let mut story = blank();
    let target = first(story.act());
    let (tag, revision) = (Some(target.tag.clone()), Revision(8));
    story.journal.admitted = Some(Admitted { version: version(1), release: tag, revision });
    story.enter(Phase::Starting { target: target.clone() });
    story.seen.readmit = true;
    assert_eq!(story.act(), Act::Enter(Phase::Stopped), "it is asked again whether it may start");
    story.enter(Phase::Stopped);
    assert_eq!(first(story.act()), target);
}

#[test]
fn adopted_service_without_release_is_not_replaced_by_first() {
    let mut story = blank();
    story.journal.admitted = Some(Admitted { version: version(1), release: None, revision: Revision(8) });
    assert_eq!(story.act(), Act::Wait);
}

#[test]
fn release_on_record_outlives_a_lost_journal() {
    let mut story = Story::serving();
    story.journal = Journal::default();
    story.seen.readmit = true;
    let configured = Some(release(1).tag);
    assert_eq!(story.service.release_of(version(1)), configured);
    let started = release(2).tag;
    for (recorded, admitted) in [
        (None, configured.clone()),
        (Some((version(2), started.clone())), configured),
        (Some((version(1), started.clone())), Some(started.clone())),
    ] {
        story.seen.recorded = recorded;
        assert_eq!(story.act(), Act::AdmitRunning(version(1), admitted));
    }
    story.journal.release = Some(started.clone());
    story.journal.admit(Admitted { version: version(1), release: Some(started), revision: Revision(6) });
    story.seen.readmit = false;
    story.ordered(order(9, replace(1)));
    assert_eq!(story.journal.phase, Phase::Draining, "another release of that version is replaced");
}

#[test]
fn release_after_a_refused_one_is_the_configured_one() {
    let mut story = Story::serving();
    // The journal was lost; the lock names what was started last.
    story.journal = Journal { release: Some(release(2).tag), ..Journal::default() };
    story.seen.readmit = true;
    let [configured, locked] = [1, 2].map(|number| Act::AdmitRunning(version(1), Some(release(number).tag)));
    assert_eq!(story.act(), locked, "it may answer the version before its own");
    let reason = "above the ceiling".to_owned();
    story.journal.refusal =
        Some(Refusal { version: version(2), reason: reason.clone(), ..Refusal::default() });
    story.enter(Phase::refused(reason));
    assert_eq!(story.act(), configured, "a person has started another release since");
}

#[test]
fn release_that_a_second_agent_started_is_on_record() {
    let mut story = Story::serving();
    story.seen.readmit = true;
    let [former, started] = [1, 2].map(|number| release(number).tag);
    for (recorded, admitted) in [(version(2), former.clone()), (version(1), started.clone())] {
        story.seen.recorded = Some((recorded, started.clone()));
        assert_eq!(story.act(), Act::AdmitRunning(version(1), Some(admitted)));
    }
    story.journal.release = Some(started.clone());
    story.seen.recorded = Some((version(1), former));
    let own = Act::AdmitRunning(version(1), Some(started));
    assert_eq!(story.act(), own, "the second agent knew the configuration alone");
}

/// What runs on a new node answers nothing. Its agent has read a window.
fn found_hanging() -> Story {
    let mut story = Story::serving();
    story.journal = Journal::default();
    story.timers = Timers::new(story.seen.now, false);
    story.window(1, 1, 7).seen.readmit = true;
    (story.seen.probe, story.seen.ready, story.seen.url) = (Probed::Late, false, Url::Other);
    story.pass(0);
    story
}

#[test]
fn unadmitted_instance_that_hangs_is_hidden_once_out() {
    let mut story = found_hanging();
    assert_eq!(story.act(), Act::Wait, "balancers may still send requests to it");
    story.pass(60);
    assert_eq!(story.act(), Act::Disable, "before it comes back");
    story.seen.alive = Alive::Unknown;
    assert_eq!(story.act(), Act::Disable, "no lock shows whether it runs");
    story.disabled();
    assert_eq!(story.act(), Act::Wait);
    story.seen.probe = Probed::Version(version(1));
    assert!(matches!(story.act(), Act::AdmitRunning(..)), "{:?}", story.act());
    story.journal.admit(Admitted { version: version(1), release: None, revision: Revision(8) });
    story.seen.readmit = false;
    assert_eq!(story.act(), Act::Enter(Phase::Verifying), "it is shown once it is verified");
}

#[test]
fn unadmitted_instance_that_hangs_may_return_without_a_window() {
    let others: [(&str, fn(&mut Story)); 4] = [
        ("its agent knows no window", |story| {
            (story.journal.window, story.seen.window) = (None, Some(None));
        }),
        ("the store is away", |story| story.seen.store = false),
        ("it was admitted inside the window", |story| {
            let admitted = Admitted { version: version(1), release: None, revision: Revision(8) };
            story.journal.admitted = Some(admitted);
        }),
        ("it answers 200", |story| {
            story.seen.url = Url::Good;
            story.pass(0);
        }),
    ];
    for (why, other) in others {
        let mut story = found_hanging();
        story.pass(60);
        other(&mut story);
        assert_eq!(story.act(), Act::Wait, "{why}");
    }
}
