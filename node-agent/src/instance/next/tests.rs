use super::*;
use crate::directive::tests::story::{Story, order, release, version};
use crate::host::Target;
use crate::journal::{Admitted, Known, Phase};
use tidegate_proto::Revision;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::window::Window;

const OLD: Duration = Duration::from_secs(1);
const NOW: Step = Step::Report(Duration::ZERO);

fn target() -> Target {
    Target::from(&release(2))
}

fn accept() -> Act {
    Act::Accept(Box::new(order(9, Disposition::Drain)), Phase::Draining)
}

fn acknowledge() -> Act {
    let set_by = "u1".parse().unwrap();
    let window = Window { floor: version(1), ceiling: version(2), set_by, contracted: None };
    Act::Acknowledge(Known { revision: Revision(7), window })
}

fn admit(number: i64) -> Act {
    Act::AdmitRunning(version(number), None)
}

/// Each act; the step that comes before it where version 1 was admitted and runs as a process of the agent; the step after
/// it, where the look is the one of the new phase.
fn acts() -> [(Act, Step, Step); 15] {
    use Step::{CarryOut, Look, LookAgain, Retract};
    [
        (Act::Wait, NOW, Look),
        (Act::Stop, NOW, Look),
        (Act::Start(target()), NOW, Look),
        (Act::EndHook, NOW, Look),
        (admit(1), CarryOut, Look),
        (admit(2), Retract, Look),
        (Act::AdmitTarget(target()), CarryOut, Look),
        (Act::Reconcile(Revision(9)), CarryOut, Look),
        (acknowledge(), CarryOut, Look),
        (Act::Disable, CarryOut, Look),
        (Act::Enable, CarryOut, Look),
        (accept(), CarryOut, LookAgain),
        (Act::Enter(Phase::Stopped), CarryOut, LookAgain),
        (Act::Decline(Phase::Verifying), CarryOut, LookAgain),
        (Act::BeginStop(Some(target())), CarryOut, LookAgain),
    ]
}

fn decided(cycle: Cycle, act: &Act, story: &Story, age: Duration) -> Step {
    cycle.decided(act, &story.service, &story.journal, &story.seen, age)
}

fn with_news() -> Cycle {
    let mut cycle = Cycle::default();
    assert_eq!(cycle.rested(true), Step::ReadStore);
    cycle
}

#[test]
fn brief_acts_and_admissions_are_not_preceded_by_a_report() {
    for (act, before, _) in acts() {
        assert_eq!(decided(Cycle::default(), &act, &Story::serving(), OLD), before, "{act:?}");
    }
}

#[test]
fn only_acts_that_change_the_journal_alone_keep_the_look() {
    for (act, _, after) in acts().into_iter().filter(|(act, ..)| *act != Act::Wait) {
        assert_eq!(Cycle::default().carried_out(&act, true, true), after, "{act:?}");
        assert_eq!(
            Cycle::default().carried_out(&act, true, false),
            Step::Look,
            "{act:?}: the phase asks more"
        );
    }
}

#[test]
fn act_that_was_not_done_is_reported_once_before_the_rest() {
    for (act, before, _) in acts() {
        let rest = Step::Rest { report: before != NOW };
        assert_eq!(Cycle::default().carried_out(&act, false, true), rest, "{act:?}");
    }
}

#[test]
fn report_is_delayed_beside_a_hook() {
    let by_hooks = Story::serving().by_hooks();
    for (act, step) in [
        (Act::Stop, Step::Report(BESIDE_A_HOOK)),
        (Act::Start(target()), Step::Report(BESIDE_A_HOOK)),
        (Act::EndHook, NOW),
        (Act::Wait, NOW),
    ] {
        assert_eq!(decided(Cycle::default(), &act, &by_hooks, OLD), step, "{act:?}");
    }
}

#[test]
fn reported_version_is_retracted_before_another_is_admitted() {
    let mut story = Story::serving();
    for (admitted, step) in [(Some(1), Step::Retract), (Some(2), Step::CarryOut), (None, Step::CarryOut)] {
        story.journal.admitted = admitted.map(|number| Admitted {
            version: version(number),
            release: None,
            revision: Revision(5),
        });
        assert_eq!(decided(Cycle::default(), &admit(2), &story, OLD), step, "{admitted:?}");
    }
}

#[test]
fn news_are_answered_by_a_fresh_look_or_by_obeying_while_alive() {
    use Alive::{No, Silent, Unknown, Yes};
    for (act, alive, age, step) in [
        // Any act answers them on a fresh look.
        (Act::Wait, Yes, FRESH / 2, NOW),
        (Act::Stop, No, FRESH / 2, NOW),
        (Act::Wait, Yes, FRESH, Step::Look),
        (Act::Stop, Yes, OLD, Step::Look),
        (Act::Enable, Yes, OLD, Step::Look),
        (admit(2), Yes, OLD, Step::Look),
        // On an old one, what only changes the journal or disables the instance.
        (accept(), Yes, OLD, Step::CarryOut),
        (acknowledge(), Yes, OLD, Step::CarryOut),
        (Act::Disable, Yes, OLD, Step::CarryOut),
        (accept(), No, OLD, Step::Look),
        (accept(), Silent, OLD, Step::Look),
        (Act::Disable, Unknown, OLD, Step::Look),
    ] {
        let mut story = Story::serving();
        story.seen.alive = alive;
        assert_eq!(decided(with_news(), &act, &story, age), step, "{act:?} {alive:?} {age:?}");
        if step == Step::Look {
            let mut cycle = with_news();
            assert_eq!(cycle.looked(), Step::Decide);
            assert_ne!(decided(cycle, &act, &story, age), Step::Look, "{act:?}: looked at for these news");
        }
    }
}

#[test]
fn news_are_answered_until_the_next_whole_look() {
    let mut cycle = with_news();
    assert_eq!(cycle.carried_out(&accept(), true, true), Step::LookAgain);
    assert_eq!(decided(cycle, &Act::Stop, &Story::serving(), OLD), Step::Look);
    cycle.looked();
    assert_eq!(decided(cycle, &Act::Stop, &Story::serving(), OLD), NOW);
}

#[test]
fn one_look_is_followed_by_a_limited_number_of_acts() {
    let enter = Act::Enter(Phase::Verifying);
    let mut cycle = Cycle::default();
    for _ in 1..ACTS_ON_A_LOOK {
        assert_eq!(cycle.carried_out(&enter, true, true), Step::LookAgain);
    }
    assert_eq!(cycle.carried_out(&enter, true, true), Step::Look);
    assert_eq!(cycle.looked(), Step::Decide);
    assert_eq!(cycle.carried_out(&enter, true, true), Step::LookAgain, "counted from the new look");
    // News answered by the look are counted from the rest.
    cycle.rested(true);
    for _ in 1..ACTS_ON_A_LOOK {
        assert_eq!(cycle.carried_out(&enter, true, true), Step::LookAgain);
    }
    assert_eq!(cycle.carried_out(&enter, true, true), Step::Look);
}

#[test]
fn rest_without_news_is_followed_by_a_look() {
    let mut cycle = Cycle::default();
    assert_eq!(cycle.rested(false), Step::Look);
    assert_eq!(decided(cycle, &Act::Wait, &Story::serving(), OLD), NOW);
}
