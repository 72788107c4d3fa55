//! The reason that is reported for an instance that stays out.

use super::super::seen::{DisableFile, Probed};
use super::super::standstill::{Standstill, standstill};
use super::story::{Story, order, release, replace, version};
use crate::directive::act::Act;
use crate::host::{Alive, HookState, Target};
use crate::journal::{Journal, Phase};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Rotation;

fn of(story: &Story) -> Option<Standstill> {
    standstill(&story.service, &story.journal, &story.seen)
}

/// Nothing runs.
fn stopped() -> Story {
    let mut story = Story::serving();
    story.gone();
    story.enter(Phase::Stopped);
    story
}

#[test]
fn serving_and_starting_instances_have_no_standstill() {
    assert_eq!(of(&Story::serving()), None);
    let mut story = stopped();
    assert_eq!(of(&story), None);
    story.seen.store = false;
    assert_eq!(of(&story), Some(Standstill::StoreAway));
}

/// The agent was restarted after the start was admitted, and before it was begun.
#[test]
fn admitted_start_that_waits_for_the_store_says_so() {
    let mut story = Story::serving().by_hooks();
    story.disabled().silent();
    story.enter(Phase::Starting { target: Target::from(&release(2)) });
    (story.seen.readmit, story.seen.store) = (true, false);
    for (alive, hook) in [
        (Alive::Silent, HookState::NotBegun),
        (Alive::Silent, HookState::EarlierBoot),
        (Alive::Yes, HookState::NotBegun),
    ] {
        (story.seen.alive, story.seen.hook) = (alive, hook);
        assert_eq!((story.act(), of(&story)), (Act::Wait, Some(Standstill::StoreAway)), "{hook:?}");
    }
    for hook in [HookState::Runs, HookState::Ended] {
        (story.seen.alive, story.seen.hook) = (Alive::Silent, hook);
        assert_eq!((story.act(), of(&story)), (Act::Wait, None), "{hook:?}: it was begun");
    }
    (story.seen.store, story.seen.hook) = (true, HookState::Runs);
    assert_eq!(of(&story), None);
}

#[test]
fn without_a_release_that_belongs_there_it_says_so_and_waits() {
    let mut story = stopped();
    story.seen.file = DisableFile::Own;
    story.journal = Journal { phase: Phase::Stopped, ..Journal::default() };
    story.service.initial_release = None;
    assert_eq!((story.act(), of(&story)), (Act::Wait, Some(Standstill::NoTarget)));
    story.service.driver = None;
    assert_eq!((story.act(), of(&story)), (Act::Wait, Some(Standstill::NoDriver)));
}

/// The driver was taken out of the configuration while the agent was down.
#[test]
fn stop_or_start_without_a_driver_is_not_begun() {
    let serve = Disposition::Serve { returning: true };
    for (disposition, next) in [(replace(2), Phase::Draining), (serve, Phase::Fresh)] {
        let mut story = Story::serving().by_hooks();
        story.disabled().ordered(order(9, disposition));
        story.enter(Phase::Stopping);
        assert_eq!(story.act(), Act::Stop);
        story.service.driver = None;
        assert_eq!(story.act(), Act::Enter(next), "nothing can stop it");
    }
    let mut story = Story::serving().by_hooks();
    story.disabled().silent();
    story.service.start_without_store = true;
    let target = Target::from(&release(1));
    story.enter(Phase::Starting { target: target.clone() });
    (story.seen.store, story.seen.readmit) = (false, true);
    assert_eq!(story.act(), Act::Start(target));
    story.service.driver = None;
    assert_eq!(story.act(), Act::Enter(Phase::Stopped));
    story.enter(Phase::Stopped);
    assert_eq!((story.act(), of(&story)), (Act::Wait, Some(Standstill::NoDriver)));
}

/// Its journal was lost while nothing ran. An upgrade replaces before its wave only what is out of rotation by evidence.
#[test]
fn instance_with_nothing_to_start_is_hidden_until_admitted() {
    let mut story = Story::serving();
    story.journal = Journal::default();
    story.service.initial_release = None;
    let mut by_hooks = story.clone().by_hooks();
    assert_eq!(by_hooks.silent().act(), Act::Wait, "its own supervisor may start it");
    story.gone();
    story.seen.store = false;
    assert_eq!(story.act(), Act::Wait, "another agent may manage it");
    story.seen.store = true;
    assert_eq!(story.act(), Act::Disable);
    story.seen.file = DisableFile::Own;
    story.pass(0);
    assert_eq!((story.act(), of(&story)), (Act::Wait, Some(Standstill::NoTarget)));
    assert_eq!(story.timers.rotation(&story.seen, &story.service), Rotation::Out);
    // Something else starts it.
    (story.seen.alive, story.seen.probe) = (Alive::Yes, Probed::Version(version(1)));
    assert!(matches!(story.act(), Act::AdmitRunning(running, _) if running == version(1)));
}

#[test]
fn unknown_version_is_reported_with_probe_result() {
    let mut story = Story::serving();
    story.enter(Phase::Fresh);
    story.seen.probe = Probed::Failed("404 Not Found".to_owned());
    for alive in [Alive::Yes, Alive::Unknown] {
        story.seen.alive = alive;
        let text = of(&story).unwrap().to_string();
        assert!(
            text.contains("404 Not Found") && text.contains(&story.service.ready_url.to_string()),
            "{text}"
        );
        assert_eq!(story.act(), Act::Wait);
    }
}

#[test]
fn instance_ordered_to_stop_is_no_standstill() {
    let mut story = Story::serving();
    story.ordered(order(2, replace(2)));
    story.ordered(order(3, Disposition::Stop));
    story.gone();
    story.enter(Phase::Stopped);
    story.seen.store = false;
    assert_eq!(of(&story), None);
}
