//! What may start or be shown while the store is away.

use super::story::{Story, order, release, replace, version};
use crate::directive::act::Act;
use crate::directive::seen::{DisableFile, Probed, Url};
use crate::directive::timers::Timers;
use crate::host::Target;
use crate::journal::{Admitted, Journal, Phase, Refusal};
use tidegate_proto::Revision;
use tidegate_proto::record::directive::Disposition;

/// What may have followed a refusal before the store went away.
const SINCE: [fn(&mut Journal); 3] = [
    |_| {},
    |journal| journal.accept(order(9, Disposition::Serve { returning: true })),
    |journal| journal.reconcile(Revision(9)),
];

/// Version 1 was admitted here last. The store is away, and the agent has begun again.
fn away() -> Story {
    let mut story = Story::serving();
    story.service.start_without_store = true;
    story.disabled();
    (story.seen.store, story.seen.readmit) = (false, true);
    story
}

/// The same, and it was refused since.
fn refused(since: fn(&mut Journal)) -> Story {
    let mut story = away();
    let reason = "below the floor".to_owned();
    story.journal.refusal =
        Some(Refusal { version: version(1), window: Revision(7), reason, ..Refusal::default() });
    since(&mut story.journal);
    story
}

/// It is admitted again.
fn admitted(story: &mut Story) {
    let admitted = story.journal.admitted.clone().unwrap();
    story.journal.admit(admitted);
}

#[test]
fn refused_version_is_not_started_without_the_store() {
    for since in SINCE {
        let mut story = refused(since);
        story.gone();
        story.enter(Phase::Stopped);
        assert_eq!(story.act(), Act::Wait);
        admitted(&mut story);
        assert!(matches!(story.act(), Act::Enter(Phase::Starting { .. })), "{:?}", story.act());
    }
}

#[test]
fn refused_version_is_not_shown_without_the_store() {
    for since in SINCE {
        let mut story = refused(since);
        story.enter(Phase::failed("draining", "2 requests are in flight", false));
        assert_eq!(story.act(), Act::Wait);
        admitted(&mut story);
        assert_eq!(story.act(), Act::Enable);
    }
}

/// Its lease has ended, so that it has to be admitted again before it is shown.
#[test]
fn store_that_is_away_fails_no_verification() {
    let mut story = Story::serving();
    story.ordered(order(9, Disposition::Serve { returning: true })).disabled();
    story.enter(Phase::Verifying);
    (story.seen.store, story.seen.readmit) = (false, true);
    assert_eq!(story.pass(3000).act(), Act::Wait, "it is healthy, and not admitted");
    (story.seen.store, story.seen.readmit) = (true, false);
    assert_eq!(story.pass(1).act(), Act::Enable);
    (story.seen.file, story.seen.url) = (DisableFile::Absent, Url::Good);
    assert_eq!(story.pass(1).act(), Act::Wait, "balancers had no time to see it back");
    assert_eq!(story.pass(20).act(), Act::Enter(Phase::Serving));
}

/// Its order replaces version 2 with the release that runs, as that of a rollback. Then a person puts version 1 back.
#[test]
fn version_changed_while_verified_stays_without_the_store() {
    let mut story = Story::serving();
    let admitted = Admitted { version: version(2), release: Some(release(2).tag), revision: Revision(5) };
    (story.journal.admitted, story.journal.release) = (Some(admitted), Some(release(2).tag));
    (story.seen.probe, story.seen.ready) = (Probed::Version(version(2)), false);
    story.ordered(order(9, replace(2)));
    assert_eq!(story.journal.phase, Phase::Verifying);
    (story.seen.probe, story.seen.store) = (Probed::Version(version(1)), false);
    assert_eq!(story.pass(3000).act(), Act::Wait, "not ready: only an order takes it out");
    story.seen.ready = true;
    assert_eq!(story.pass(60).act(), Act::Wait, "it is not what is verified");
    let (mut back, mut right, mut hidden) = (story.clone(), story.clone(), story);
    back.seen.store = true;
    assert!(matches!(back.act(), Act::AdmitRunning(..)), "{:?}", back.act());
    right.seen.probe = Probed::Version(version(2));
    assert_eq!(right.pass(20).act(), Act::Enter(Phase::Serving), "what was ordered runs again");
    let act = hidden.disabled().act();
    assert!(matches!(act, Act::Enter(Phase::Failed { hidden: true, .. })), "{act:?}");
}

#[test]
fn journalled_start_below_the_floor_waits_for_the_store() {
    let mut story = away();
    story.gone();
    story.enter(Phase::Starting { target: Target::from(&release(1)) });
    assert_eq!(story.act(), Act::Start(Target::from(&release(1))));
    story.journal.witness.floor = Some(version(2));
    assert_eq!(story.act(), Act::Wait);
}

/// An agent that begins looks before the store has answered, which may have a window that leaves this version out.
#[test]
fn nothing_stands_alone_before_the_store_was_asked() {
    let mut shown = away();
    shown.enter(Phase::Verifying);
    let mut started = away();
    started.gone();
    started.enter(Phase::Starting { target: Target::from(&release(1)) });
    let acts = |stories: [&Story; 2]| stories.map(Story::act);
    assert_eq!(acts([&shown, &started]), [Act::Enable, Act::Start(Target::from(&release(1)))]);
    (shown.seen.unasked, started.seen.unasked) = (true, true);
    assert_eq!(acts([&shown, &started]), [Act::Wait, Act::Wait]);
}

/// Version 2 was admitted and did not come up, and a rollback has lowered the window since: the database may lack its form.
#[test]
fn start_above_the_acknowledged_ceiling_waits_for_the_store() {
    let mut story = away();
    let admitted = Admitted { version: version(2), release: Some(release(2).tag), revision: Revision(5) };
    story.journal.admitted = Some(admitted);
    story.gone();
    story.enter(Phase::Starting { target: Target::from(&release(2)) });
    story.window(1, 2, 4);
    assert_eq!(story.act(), Act::Start(Target::from(&release(2))));
    story.window(1, 1, 7);
    assert_eq!(story.act(), Act::Wait);
}

/// Version 1 was admitted and started hidden before its agent acknowledged a window that leaves it out. The store is lost, and
/// a person removes the disable-file.
fn shown_without_the_store() -> Story {
    let mut story = Story::serving();
    story.enter(Phase::Verifying);
    story.window(2, 2, 7).disabled().pass(60);
    (story.seen.store, story.seen.readmit) = (false, true);
    (story.seen.file, story.seen.url) = (DisableFile::Absent, Url::Good);
    story.pass(0);
    story
}

#[test]
fn shown_instance_outside_its_window_is_hidden_without_store() {
    let is_refused = |story: &Story| matches!(story.act(), Act::Enter(Phase::Refused { stays: None, .. }));
    let mut story = shown_without_the_store();
    assert!(is_refused(&story), "{:?}", story.act());
    story.seen.probe = Probed::Late;
    assert!(is_refused(&story), "it does not answer yet: {:?}", story.act());
    story.enter(Phase::refused("outside"));
    assert_eq!(story.act(), Act::Disable);
    let others: [(&str, fn(&mut Story)); 6] = [
        ("it is in rotation", |story| {
            story.pass(60);
        }),
        ("balancers were never seen to take it out", |story| {
            story.timers = Timers::new(story.seen.now, false);
            story.pass(0);
        }),
        ("another version runs", |story| story.seen.probe = Probed::Version(version(3))),
        ("it need not be admitted again", |story| story.seen.readmit = false),
        ("its agent knows of no window", |story| story.journal.window = None),
        ("the window admits it", |story| {
            story.window(1, 2, 7);
        }),
    ];
    for (why, other) in others {
        let mut story = shown_without_the_store();
        other(&mut story);
        let act = story.act();
        assert!(!matches!(act, Act::Enter(Phase::Refused { .. }) | Act::Disable), "{why}: {act:?}");
    }
}

/// A person keeps it in maintenance, and may show it once a plan has left room for its version; or its agent is to show it.
#[test]
fn hidden_instance_outside_its_window_is_refused_without_store() {
    for file in [DisableFile::Foreign, DisableFile::Own] {
        let mut story = shown_without_the_store();
        story.service.start_without_store = true;
        (story.seen.file, story.seen.url) = (file, Url::Unavailable);
        story.pass(60);
        let mut admitted = story.clone();
        admitted.window(1, 2, 7);
        let act = admitted.act();
        assert!(!matches!(act, Act::Enter(Phase::Refused { .. })), "{file:?}, admitted: {act:?}");
        let act = story.act();
        assert!(matches!(act, Act::Enter(Phase::Refused { stays: None, .. })), "{file:?}: {act:?}");
        story.enter(Phase::refused("outside"));
        assert_eq!(story.act(), Act::Wait, "{file:?}");
        (story.seen.file, story.seen.url) = (DisableFile::Absent, Url::Good);
        story.pass(0);
        assert_eq!(story.act(), Act::Disable, "{file:?}: it is shown");
    }
}
