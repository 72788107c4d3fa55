//! The core, move by move, without a clock, a socket or a file.

mod drain;
mod drained;
mod initial;
mod looks;
mod masked;
mod never_shown;
mod outside;
mod presumption;
mod reconciled;
mod refusal;
mod standstill;
mod stopping;
mod store_away;
pub(crate) mod story;
mod verify;

use super::act::Act;
use super::seen::{DisableFile, InFlight, Probed, Staging, Url};
use super::timers::backoff;
use crate::host::{Alive, HookState, Target};
use crate::journal::{Journal, Known, Phase, Refusal};
use std::time::Duration;
use story::{Story, order, release, replace, version};
use tidegate_proto::Revision;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Step};
use tidegate_proto::record::window::Window;

#[test]
fn at_rest_there_is_nothing_to_do() {
    assert_eq!(Story::serving().act(), Act::Wait);
}

#[test]
fn a_window_is_journalled_before_anything_else() {
    let mut story = Story::serving();
    story.seen.wanted = Some(order(9, Disposition::Drain));
    let window =
        Window { floor: version(1), ceiling: version(2), set_by: "u1".parse().unwrap(), contracted: None };
    story.seen.window = Some(Some(Known { revision: Revision(7), window }));
    assert!(matches!(story.act(), Act::Acknowledge(known) if known.revision == Revision(7)));
    story.seen.window = None;
    assert!(matches!(story.act(), Act::Accept(..)), "a window that was not read is no window that is gone");
}

#[test]
fn another_version_goes_to_the_inventory_before_the_report() {
    let mut story = Story::serving();
    story.seen.probe = Probed::Version(version(3));
    assert_eq!(story.act(), Act::AdmitRunning(version(3), None));
    story.seen.store = false;
    assert_eq!(story.act(), Act::Wait, "there is no store to ask");
}

#[test]
fn window_is_acknowledged_only_after_readmission() {
    let mut story = Story::serving();
    story.seen.readmit = true;
    let window =
        Window { floor: version(2), ceiling: version(2), set_by: "u1".parse().unwrap(), contracted: None };
    story.seen.window = Some(Some(Known { revision: Revision(7), window }));
    assert!(
        matches!(story.act(), Act::AdmitRunning(..)),
        "a report of this look would say what is not admitted"
    );
}

#[test]
fn refused_version_is_asked_again_when_the_window_moves() {
    let mut story = Story::serving();
    story.window(2, 2, 7);
    story.seen.readmit = true;
    assert!(matches!(story.act(), Act::AdmitRunning(..)));
    let reason = "below".to_owned();
    story.journal.refusal =
        Some(Refusal { version: version(1), window: Revision(7), reason, ..Refusal::default() });
    story.seen.readmit = false;
    story.enter(Phase::refused("below"));
    assert_eq!(story.act(), Act::Disable, "it runs out of rotation");
    story.disabled();
    assert_eq!(story.act(), Act::Wait);
    story.window(1, 2, 8);
    assert!(matches!(story.act(), Act::AdmitRunning(..)));
}

#[test]
fn an_older_directive_is_not_obeyed() {
    let mut story = Story::serving();
    story.ordered(order(9, Disposition::Serve { returning: false }));
    story.seen.wanted = Some(order(8, Disposition::Drain));
    assert_eq!(story.act(), Act::Wait);
    story.seen.wanted = Some(order(9, Disposition::Drain));
    assert_eq!(story.act(), Act::Wait, "nor another one under the same generation");
    story.seen.wanted = None;
    assert_eq!(story.act(), Act::Wait, "nor does its absence say anything");
}

#[test]
fn a_window_that_fell_back_is_noticed_and_not_taken() {
    let mut story = Story::serving();
    story.window(2, 2, 7);
    let older =
        Window { floor: version(1), ceiling: version(1), set_by: "u0".parse().unwrap(), contracted: None };
    for found in [None, Some(Known { revision: Revision(3), window: older })] {
        story.seen.window = Some(found);
        assert!(super::accept::fell_back(&story.journal, story.seen.window.as_ref(), None));
        assert_eq!(story.act(), Act::Wait);
    }
    assert!(
        !super::accept::fell_back(&story.journal, None, None),
        "a window that was not read is no evidence"
    );
}

#[test]
fn unanswering_service_is_stopped_by_hook_before_start() {
    let serve = || order(9, Disposition::Serve { returning: true });
    for phase in
        [Phase::Fresh, Phase::refused("below"), Phase::failed("starting", "the start hook failed", true)]
    {
        let mut story = Story::serving().by_hooks();
        story.disabled().silent().pass(6);
        story.enter(phase.clone());
        story.timers.restart_at = Some(story.seen.now);
        assert_eq!(story.act(), Act::Enter(Phase::Stopping), "{phase:?}");
        story.seen.store = false;
        assert_eq!(story.act(), Act::Wait, "{phase:?}: without the store no stop begins");
        story.seen.store = true;
        story.ordered(order(8, replace(2)));
        assert_eq!(story.journal.phase, Phase::Draining, "{phase:?}");
    }
    let mut story = Story::serving().by_hooks();
    story.disabled().silent().pass(6);
    story.enter(Phase::failed("verifying", "not healthy", true));
    story.ordered(serve());
    assert_eq!(story.journal.phase, Phase::Stopping);
    assert_eq!(story.act(), Act::Stop, "silence does not confirm a stop");
    // The hook has come to its end.
    story.enter(Phase::Stopped);
    assert!(matches!(story.act(), Act::AdmitTarget(target) if target.tag == release(1).tag));
    // A lock that is free confirms it without a hook.
    let mut proven = Story::serving();
    proven.disabled().gone();
    proven.enter(Phase::failed("verifying", "not healthy", true));
    proven.ordered(serve());
    assert_eq!(proven.journal.phase, Phase::Stopped);
}

#[test]
fn silent_service_is_disabled_before_its_stop_hook_runs() {
    let let_back = Phase::failed("draining", "2 requests are in flight", false);
    for phase in [Phase::Fresh, let_back.clone()] {
        let mut story = Story::serving().by_hooks();
        story.silent().pass(6);
        story.enter(phase.clone());
        story.timers.restart_at = Some(story.seen.now);
        assert_eq!(story.act(), Act::Enter(Phase::Stopping), "{phase:?}");
        story.enter(Phase::Stopping);
        assert_eq!(story.act(), Act::Disable, "{phase:?}: its supervisor may start it beside the hook");
        story.seen.file = DisableFile::Own;
        assert_eq!(story.act(), Act::Stop, "{phase:?}");
    }
    let mut recalled = Story::serving().by_hooks();
    recalled.silent().pass(6);
    recalled.enter(let_back);
    recalled.ordered(order(9, Disposition::Serve { returning: true }));
    assert_eq!((&recalled.journal.phase, recalled.act()), (&Phase::Stopping, Act::Disable));
    recalled.seen.file = DisableFile::Foreign;
    assert_eq!(recalled.act(), Act::Stop, "a person's file keeps it out as well");
}

#[test]
fn never_enabled_instance_still_runs_its_stop_hook() {
    let failed = |unexposed| {
        let mut story = Story::serving().by_hooks();
        story.journal.unexposed = unexposed;
        story.disabled().silent().pass(10);
        story.enter(Phase::failed("verifying", "not healthy", true));
        story
    };
    let mut never = failed(true);
    never.ordered(order(9, replace(2)));
    assert_eq!(never.act(), Act::BeginStop(Some(Target::from(&release(2)))));
    let mut shown = failed(false);
    shown.ordered(order(9, replace(2)));
    assert_eq!(shown.journal.phase, Phase::Draining);
    let mut open = failed(true);
    open.seen.file = DisableFile::Absent;
    open.ordered(order(9, replace(2)));
    assert_eq!(open.journal.phase, Phase::Draining);
}

/// It crashed in rotation and was started again hidden, and closes its listener while it is drained.
#[test]
fn repeated_order_goes_on_with_a_drain_that_saw_it_listen() {
    let mut story = Story::serving().by_hooks();
    story.journal.unexposed = true;
    story.disabled().ordered(order(9, replace(2)));
    story.pass(1).silent().pass(6);
    assert_eq!((&story.journal.phase, story.act()), (&Phase::Draining, Act::Wait), "it may work on requests");
    story.ordered(order(10, replace(2))).pass(6);
    assert_eq!((&story.journal.phase, story.act()), (&Phase::Draining, Act::Wait), "it may still");
    story.pass(60);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: true }));
}

#[test]
fn start_hook_with_unseen_end_is_awaited_and_not_repeated() {
    let mut story = Story::serving().by_hooks();
    story.disabled().silent();
    story.enter(Phase::Starting { target: Target::from(&release(2)) });
    assert_eq!(story.act(), Act::Start(Target::from(&release(2))));
    // The agent was ended while the hook ran, and restarted.
    story.seen.readmit = true;
    story.seen.hook = HookState::Runs;
    story.seen.wanted = Some(order(9, replace(3)));
    assert_eq!(story.act(), Act::Wait, "nothing else begins before it has ended");
    story.seen.alive = Alive::Yes;
    assert_eq!(story.act(), Act::Wait, "what it started answers, and it is not through");
    story.pass(60);
    assert_eq!(story.act(), Act::EndHook);
    story.seen.wanted = None;
    story.seen.hook = HookState::Ended;
    assert_eq!(story.act(), Act::Enter(Phase::Verifying), "what answers has done its work");
    story.silent();
    story.enter(Phase::Starting { target: Target::from(&release(2)) });
    assert_eq!(story.act(), Act::Wait, "it may be on its way up");
    story.pass(60);
    assert!(matches!(story.act(), Act::Enter(Phase::Failed { at, .. }) if at == "starting"));
    // Whatever the machine started by itself since is stopped first.
    for phase in [Phase::Stopped, Phase::Starting { target: Target::from(&release(2)) }] {
        story.seen.hook = HookState::EarlierBoot;
        story.enter(phase);
        assert_eq!(story.act(), Act::Enter(Phase::Stopping));
    }
}

#[test]
fn never_listening_program_can_be_replaced() {
    let mut stuck = Story::serving();
    stuck.seen.ready = false;
    stuck.seen.health = Health::Unhealthy;
    stuck.seen.file = DisableFile::Own;
    stuck.seen.url = Url::NoListener;
    stuck.seen.in_flight = InFlight::Counted(0);
    stuck.enter(Phase::failed("verifying", "not healthy", true));
    stuck.ordered(order(9, replace(2)));
    stuck.pass(0).pass(10);
    assert_eq!(stuck.act(), Act::Enter(Phase::Drained { forced: false }));
    let mut wrong = Story::serving();
    wrong.ordered(order(9, Disposition::Drain)).disabled();
    wrong.seen.url = Url::Other;
    wrong.seen.in_flight = InFlight::Counted(0);
    wrong.pass(0).pass(10);
    assert_eq!(wrong.act(), Act::Wait);
}

#[test]
fn undrained_instance_is_enabled_only_where_allowed() {
    let mut story = Story::serving();
    story.disabled();
    story.enter(Phase::failed("draining", "a balancer still sends requests", false));
    assert_eq!(story.act(), Act::Enable);
    story.seen.readmit = true;
    story.seen.store = false;
    assert_eq!(story.act(), Act::Wait, "the agent has begun again, and there is no store to ask");
}

#[test]
fn stop_is_entered_only_drained_staged_and_with_the_store() {
    let mut story = Story::serving();
    story.ordered(order(9, replace(2))).disabled();
    story.seen.staging = Staging::Pending;
    assert_eq!(story.act(), Act::Wait);
    story.seen.staging = Staging::Failed("wrong digest".to_owned());
    assert!(matches!(story.act(), Act::Enter(Phase::Failed { at, .. }) if at == "staging"));
    story.seen.staging = Staging::Ready;
    story.enter(Phase::Drained { forced: false });
    story.seen.store = false;
    assert_eq!(story.act(), Act::Wait);
    story.seen.store = true;
    assert_eq!(story.act(), Act::BeginStop(Some(Target::from(&release(2)))));
    story.seen.url = Url::Good;
    story.pass(0);
    assert_eq!(story.act(), Act::Enter(Phase::Draining), "requests arrive again");
}

#[test]
fn failed_staging_takes_nothing_out() {
    let mut story = Story::serving();
    story.ordered(order(9, replace(2)));
    story.seen.staging = Staging::Failed("no artifact".to_owned());
    let Act::Enter(Phase::Failed { hidden, .. }) = story.act() else { panic!("{:?}", story.act()) };
    assert!(!hidden);
}

#[test]
fn start_follows_a_confirmed_stop_and_an_admission() {
    let mut story = Story::serving();
    story.ordered(order(9, replace(2))).disabled();
    story.enter(Phase::Stopping);
    assert_eq!(story.act(), Act::Stop);
    story.gone();
    assert_eq!(story.act(), Act::Enter(Phase::Stopped));
    story.enter(Phase::Stopped);
    assert_eq!(story.act(), Act::AdmitTarget(Target::from(&release(2))));
    let starting = Phase::Starting { target: Target::from(&release(2)) };
    story.enter(starting.clone());
    assert_eq!(story.act(), Act::Start(Target::from(&release(2))));
    (story.seen.alive, story.seen.hook) = (Alive::Yes, HookState::Ended);
    assert_eq!(story.act(), Act::Enter(Phase::Verifying), "it was started before the agent was killed");
    // Killed before it was started: the window may have moved.
    story.gone().seen.hook = HookState::NotBegun;
    story.seen.readmit = true;
    assert_eq!(story.act(), Act::Enter(Phase::Stopped));
    story.seen.file = DisableFile::Absent;
    assert_eq!(story.act(), Act::Disable, "nothing is started in the open");
}

#[test]
fn without_store_only_admitted_release_starts_if_allowed() {
    let mut story = Story::serving();
    story.disabled().gone();
    story.enter(Phase::Stopped);
    story.seen.store = false;
    assert_eq!(story.act(), Act::Wait);
    story.service.start_without_store = true;
    assert!(matches!(story.act(), Act::Enter(Phase::Starting { .. })));
    story.journal.witness.floor = Some(version(2));
    assert_eq!(story.act(), Act::Wait, "below the floor that was obeyed");
}

#[test]
fn report_never_shows_serving_under_drain_directive() {
    for disposition in [Disposition::Drain, replace(2), Disposition::Stop] {
        let mut story = Story::serving();
        story.ordered(order(9, disposition));
        assert_ne!(story.journal.phase.step(true), Step::Serving);
    }
}

#[test]
fn met_directive_is_satisfied_at_once_others_are_verified() {
    let mut story = Story::serving();
    story.ordered(order(9, replace(1)));
    assert_eq!(story.journal.phase, Phase::Serving);
    let mut story = Story::serving();
    story.disabled();
    story.ordered(order(9, Disposition::Serve { returning: true }));
    assert_eq!(story.journal.phase, Phase::Verifying);
    let mut story = Story::serving();
    story.seen.health = Health::Unhealthy;
    story.ordered(order(9, replace(1)));
    assert_eq!(story.journal.phase, Phase::Draining, "a broken one is started again");
}

#[test]
fn a_service_that_ends_by_itself_is_started_again_ever_later() {
    let mut story = Story::serving();
    story.gone();
    assert_eq!(story.act(), Act::Enter(Phase::Stopped));
    story.timers.crashed(story.seen.now);
    story.enter(Phase::Stopped);
    story.disabled().gone();
    assert_eq!(story.act(), Act::Wait, "not at once");
    story.pass(1);
    assert!(matches!(story.act(), Act::AdmitTarget(target) if target.tag == release(1).tag));
    story.seen.wanted = Some(order(9, Disposition::Stop));
    story.ordered(order(9, Disposition::Stop));
    assert_eq!(story.act(), Act::Wait, "it is to be stopped, and it is");
    assert!(backoff(1) < backoff(2) && backoff(40) == Duration::from_secs(60));
}

#[test]
fn a_drain_of_what_ended_is_reported_as_drained_not_as_stopped() {
    let mut story = Story::serving();
    story.disabled().gone();
    story.enter(Phase::Stopped);
    story.ordered(order(9, Disposition::Drain));
    assert_eq!(story.journal.phase, Phase::Draining);
    story.pass(10);
    assert_eq!(story.act(), Act::Enter(Phase::Drained { forced: false }));
    story.enter(Phase::Drained { forced: false });
    story.ordered(order(10, Disposition::Serve { returning: true }));
    assert_eq!(story.journal.phase, Phase::Stopped, "and a serve starts it again");
}

#[test]
fn nothing_changes_before_store_confirms_ownership() {
    let mut story = Story::serving();
    story.gone();
    story.journal = Journal::default();
    story.seen.store = false;
    assert_eq!(story.act(), Act::Wait);
    story.seen.store = true;
    assert_eq!(story.act(), Act::Enter(Phase::Stopped));
}
