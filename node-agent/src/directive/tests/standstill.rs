//! What is told of an instance that stays out.

use super::super::seen::Probed;
use super::super::standstill::{Standstill, standstill};
use super::story::{Story, order, replace};
use crate::directive::act::Act;
use crate::host::Alive;
use crate::journal::{Journal, Phase};
use tidegate_proto::record::directive::Disposition;

fn told(story: &Story) -> Option<Standstill> {
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
fn what_serves_and_what_is_about_to_start_stand_still_for_nothing() {
    assert_eq!(told(&Story::serving()), None);
    let mut story = stopped();
    assert_eq!(told(&story), None);
    story.seen.store = false;
    assert_eq!(told(&story), Some(Standstill::StoreAway));
}

#[test]
fn without_a_release_that_belongs_there_it_says_so_and_waits() {
    let mut story = stopped();
    story.seen.file = super::super::seen::DisableFile::Own;
    story.journal = Journal { phase: Phase::Stopped, ..Journal::default() };
    story.service.initial_release = None;
    assert_eq!((story.act(), told(&story)), (Act::Wait, Some(Standstill::NoTarget)));
    story.service.driver = None;
    assert_eq!((story.act(), told(&story)), (Act::Wait, Some(Standstill::NoDriver)));
}

#[test]
fn what_answers_without_a_version_is_named_with_what_the_probe_found() {
    let mut story = Story::serving();
    story.enter(Phase::Fresh);
    story.seen.probe = Probed::Failed("404 Not Found".to_owned());
    for alive in [Alive::Yes, Alive::Unknown] {
        story.seen.alive = alive;
        let text = told(&story).unwrap().to_string();
        assert!(
            text.contains("404 Not Found") && text.contains(&story.service.ready_url.to_string()),
            "{text}"
        );
        assert_eq!(story.act(), Act::Wait);
    }
}

#[test]
fn what_was_told_to_stop_is_where_it_should_be() {
    let mut story = Story::serving();
    story.ordered(order(2, replace(2)));
    story.ordered(order(3, Disposition::Stop));
    story.gone();
    story.enter(Phase::Stopped);
    story.seen.store = false;
    assert_eq!(told(&story), None);
}
