//! Replacements that cost no budget, because the instance is out of rotation: it may have come back. Directives that are older
//! than the agent's journal.

use super::super::seen::{DisableFile, Probed, Url};
use super::story::{Story, order, release, replace, replace_what_is_out, version};
use crate::directive::act::Act;
use crate::host::{Alive, HookState, Target};
use crate::journal::{Journal, Phase, Refusal};
use tidegate_proto::Revision;
use tidegate_proto::record::directive::Disposition;

/// Out of rotation by a person's disable-file.
fn kept_out() -> Story {
    let mut story = Story::serving();
    story.disabled();
    story.seen.file = DisableFile::Foreign;
    story.pass(0);
    story.enter(Phase::Verifying);
    story
}

/// The person lets it back in.
fn shown(story: &mut Story) -> &mut Story {
    story.seen.file = DisableFile::Absent;
    story.seen.url = Url::Good;
    story.pass(0)
}

#[test]
fn instance_in_rotation_declines_what_presumes_it_out() {
    let mut story = Story::serving();
    story.ordered(replace_what_is_out(9, 2));
    assert!(story.journal.declined);
    assert_eq!(story.journal.phase, Phase::Serving);
    assert_eq!(story.act(), Act::Wait, "it goes on serving");
    assert_eq!(story.journal.generation().0, 9, "and reports that under this generation");
    // Out again later: only another directive takes it on.
    story.disabled();
    story.seen.file = DisableFile::Foreign;
    story.pass(0);
    assert_eq!(story.act(), Act::Enter(Phase::Verifying));
    story.enter(Phase::Verifying);
    story.pass(3000);
    assert_eq!(story.act(), Act::Wait, "its version is not that of the release that it declined");
    story.ordered(replace_what_is_out(10, 2));
    assert_eq!((story.journal.declined, &story.journal.phase), (false, &Phase::Draining));
}

#[test]
fn instance_that_comes_back_before_its_stop_declines() {
    for phase in [Phase::Draining, Phase::Drained { forced: false }] {
        let mut story = kept_out();
        story.ordered(replace_what_is_out(9, 2));
        assert_eq!((story.journal.declined, &story.journal.phase), (false, &Phase::Draining));
        story.enter(phase.clone());
        shown(&mut story);
        assert_eq!(story.act(), Act::Decline(Phase::Verifying), "{phase:?}");
        story.journal.declined = true;
        story.enter(Phase::Verifying);
        for _ in 0..20 {
            story.pass(1);
        }
        assert_eq!(story.act(), Act::Enter(Phase::Serving), "{phase:?}");
        // What the budget allows is obeyed.
        story.enter(Phase::Serving);
        story.ordered(order(10, Disposition::Drain));
        assert_eq!((story.journal.declined, story.act()), (false, Act::Disable), "{phase:?}");
    }
}

#[test]
fn instance_that_is_out_is_replaced_without_budget() {
    let mut story = kept_out();
    story.ordered(replace_what_is_out(9, 2));
    story.enter(Phase::Drained { forced: false });
    assert_eq!(story.act(), Act::BeginStop(Some(Target::from(&release(2)))));
    let mut own = Story::serving();
    own.disabled();
    own.enter(Phase::failed("verifying", "not healthy", true));
    own.ordered(replace_what_is_out(9, 2));
    assert_eq!((own.journal.declined, &own.journal.phase), (false, &Phase::Draining));
    let mut ended = Story::serving();
    ended.gone();
    ended.ordered(replace_what_is_out(9, 2));
    assert_eq!(
        (ended.journal.declined, &ended.journal.phase),
        (false, &Phase::Stopped),
        "no request is served"
    );
}

#[test]
fn unhealthy_instance_in_rotation_declines_what_presumes_it_out() {
    for alive in [Alive::Yes, Alive::Silent, Alive::Unknown] {
        let mut story = Story::serving().by_hooks();
        story.silent();
        story.seen.alive = alive;
        story.enter(Phase::failed("staging", "no artifact", false));
        story.ordered(replace_what_is_out(9, 2));
        assert_eq!((story.journal.declined, &story.journal.phase), (true, &Phase::Verifying), "{alive:?}");
        assert_eq!(story.act(), Act::Wait, "{alive:?}: it may be answered again at once");
    }
}

#[test]
fn stop_that_has_begun_is_not_declined() {
    let mut story = kept_out().by_hooks();
    story.ordered(replace_what_is_out(9, 2));
    story.enter(Phase::Stopping);
    story.seen.hook = HookState::Runs;
    story.pass(1);
    shown(&mut story);
    assert_eq!(story.act(), Act::Disable, "nothing is stopped in rotation");
    story.ordered(replace_what_is_out(10, 3));
    assert_eq!((story.journal.declined, &story.journal.phase), (false, &Phase::Stopping));
    story.disabled();
    assert_eq!(story.act(), Act::Wait, "the hook goes on");
    story.seen.hook = HookState::Ended;
    assert_eq!(story.act(), Act::Enter(Phase::Draining), "it was in rotation meanwhile");
}

#[test]
fn journalled_stop_that_has_not_begun_is_declined() {
    let mut story = kept_out();
    story.ordered(replace_what_is_out(9, 2));
    story.enter(Phase::Stopping);
    shown(&mut story);
    assert_eq!(story.act(), Act::Enter(Phase::Draining), "its agent ended before it stopped it");
    story.enter(Phase::Draining);
    assert_eq!(story.act(), Act::Decline(Phase::Verifying));
}

#[test]
fn replacement_within_the_budget_takes_out_what_came_back() {
    let mut story = kept_out();
    story.ordered(order(9, replace(2)));
    story.enter(Phase::Drained { forced: false });
    shown(&mut story);
    assert_eq!(story.act(), Act::Enter(Phase::Draining));
    story.enter(Phase::Draining);
    assert_eq!(story.act(), Act::Disable);
}

/// Serving, with an agent whose journal began with its admission at revision 5.
fn with_a_new_journal() -> Story {
    let mut story = Story::serving();
    let admitted = story.journal.admitted.take().unwrap();
    story.journal = Journal { release: admitted.release.clone(), ..Journal::default() };
    story.journal.admit(admitted);
    story
}

#[test]
fn directive_before_a_lost_journal_takes_nothing_out() {
    for disposition in [Disposition::Drain, Disposition::Stop, replace(2)] {
        let mut story = with_a_new_journal();
        story.ordered(order(4, disposition.clone()));
        assert_eq!(
            (story.journal.declined, &story.journal.phase),
            (true, &Phase::Fresh),
            "{disposition:?}: the store may be an older copy"
        );
        assert_eq!(story.act(), Act::Enter(Phase::Verifying), "{disposition:?}");
        story.enter(Phase::Verifying);
        story.ordered(order(6, Disposition::Drain));
        assert_eq!(
            (story.journal.declined, &story.journal.phase),
            (false, &Phase::Draining),
            "{disposition:?}: it is newer than the journal"
        );
    }
}

#[test]
fn older_directive_is_obeyed_where_it_takes_nothing_out() {
    let reason = "outside".to_owned();
    let refusal = Refusal { version: version(1), window: Revision(3), reason, ..Refusal::default() };
    let mut hidden = with_a_new_journal();
    hidden.disabled();
    let mut refused = with_a_new_journal();
    refused.journal.refusal = Some(refusal);
    let mut reconciled = with_a_new_journal();
    reconciled.journal.reconcile(Revision(2));
    for (mut story, disposition, phase, why) in [
        (hidden, Disposition::Drain, Phase::Draining, "it is out of rotation"),
        (refused, Disposition::Drain, Phase::Draining, "its agent takes it out in any case"),
        (reconciled, Disposition::Drain, Phase::Draining, "revisions of another store say nothing"),
        (with_a_new_journal(), replace(1), Phase::Verifying, "that release runs"),
    ] {
        story.ordered(order(4, disposition));
        assert_eq!((story.journal.declined, &story.journal.phase), (false, &phase), "{why}");
    }
}

#[test]
fn unadmitted_one_that_answers_200_declines_its_first_drain() {
    for (url, declines) in [(Url::Good, true), (Url::Other, false)] {
        let mut story = Story::serving();
        story.journal = Journal::default();
        (story.seen.probe, story.seen.url) = (Probed::Late, url);
        story.ordered(order(4, Disposition::Drain));
        assert_eq!(story.journal.declined, declines, "{url:?}");
        story.ordered(order(6, Disposition::Drain));
        assert_eq!((story.journal.declined, &story.journal.phase), (false, &Phase::Draining), "{url:?}");
    }
}
