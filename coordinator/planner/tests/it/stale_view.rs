//! Views that may be old, because the watch of the leader hangs while its writes reach the store: no instance is taken out by
//! one.

use crate::hiccups::{being_taken_out, commits, disposition};
use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::gate::StoreGate;
use tidegate_planner::gate::store::stale::{OLDEST_VIEW_MS, taken_of};
use tidegate_planner::{Action, Reason, ViewAge, plan};
use tidegate_proto::commit::{Commit, Precondition, Write};
use tidegate_proto::key::Subject;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Step;
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, ServiceName, Value};

fn age(age_ms: u64, shown_after_ms: u64) -> ViewAge {
    ViewAge { age_ms, shown_after_ms }
}

fn takes_out(commits: &[Commit]) -> bool {
    commits.iter().any(|commit| taken_of(commit).is_some())
}

/// Whether it fails once the budget of those that it takes out was written again.
pub(crate) fn compares_budget(commit: &Commit) -> bool {
    taken_of(commit).is_none_or(|service| {
        let is_budget =
            |when: &Precondition| matches!(when, Precondition::At(Key::Budget(of), _) if of == service);
        commit.when.iter().any(is_budget)
    })
}

/// Whether it only writes a budget again, and uses nothing of it.
fn confirms(commit: &Commit) -> bool {
    matches!(&commit.writes[..], [Write::Put(Key::Budget(_), Value::Budget(budget))] if budget.body.taken == 0)
}

/// An upgrade that takes an instance out in its next turn.
fn about_to_drain() -> World {
    let mut world = World::at_version_1(4);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.until("it takes one out next", |world| takes_out(&commits(world)));
    world
}

#[test]
fn old_view_is_confirmed_before_one_is_taken_out() {
    let mut world = about_to_drain();
    for (age_ms, is_old) in
        [(0, false), (OLDEST_VIEW_MS, false), (OLDEST_VIEW_MS + 1, true), (u64::MAX, true)]
    {
        world.view = age(age_ms, 0);
        let commits = commits(&world);
        assert_eq!(takes_out(&commits), !is_old, "{age_ms} ms");
        assert_eq!(
            commits.iter().filter(|commit| confirms(commit)).count(),
            usize::from(is_old),
            "{age_ms} ms"
        );
    }
    let confirmation = commits(&world).into_iter().find(confirms).unwrap();
    assert!(world.store.commit(&confirmation));
    assert!(!world.store.commit(&confirmation), "another decision about the capacity came first");
    world.view = age(0, 0);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// Of a drained one that is stopped next, and of one that is let back.
#[test]
fn old_view_stops_nothing_and_lets_back() {
    let mut world = being_taken_out(&Step::Drained { forced: false });
    world.view = age(OLDEST_VIEW_MS + 1, 0);
    let commits_of_old = commits(&world);
    assert!(!takes_out(&commits_of_old) && commits_of_old.iter().any(confirms), "{commits_of_old:?}");
    world.set_unready(&node(0), true);
    world.set_unready(&node(2), false);
    world.turn();
    let now = disposition(&world, 2);
    assert!(matches!(now, Some(Disposition::Serve { .. })), "{now:?}");
}

#[test]
fn old_view_moves_no_upgrade_on() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    let moves = |world: &World| {
        let phase = world.phase();
        let next = |write: &Write| match write {
            Write::Put(Key::Upgrade(_), Value::Upgrade(next)) => next.body.phase != phase,
            _ => false,
        };
        commits(world).iter().any(|commit| commit.writes.iter().any(next))
    };
    for phase in 0..20 {
        if world.phase() == Phase::Completed {
            return;
        }
        world.until("it moves on next", moves);
        world.view = age(OLDEST_VIEW_MS + 1, 0);
        assert!(!moves(&world) && commits(&world).iter().any(confirms), "move {phase}");
        world.view = age(0, 0);
        world.turn();
    }
    panic!("it is in {:?} after 20 moves", world.phase());
}

/// The commit may still be on its way, and would be carried out by what was seen when it was sent.
#[test]
fn budget_is_written_after_a_commit_without_an_answer() {
    let mut world = about_to_drain();
    let sent = commits(&world);
    world.unanswered = [service()].into();
    let next = commits(&world);
    assert!(!takes_out(&next) && confirms(&next[0]), "{next:?}");
    assert!(world.store.commit(&next[0]));
    assert!(
        sent.iter().filter(|commit| takes_out(&[(*commit).clone()])).all(|late| !world.store.commit(late))
    );
    world.unanswered.clear();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn budget_of_each_unanswered_service_is_written() {
    let mut world = about_to_drain();
    let other: ServiceName = "bakery".parse().unwrap();
    world.unanswered = [service(), other.clone()].into();
    let planned = plan(world.store.fleet(), &world.moment());
    let confirmations = planned.actions.into_iter().filter_map(|action| match action {
        Action::Commit(planned) if confirms(&planned.commit) => Some(planned),
        _ => None,
    });
    let confirmed: Vec<(Subject, Key)> = confirmations
        .map(|planned| {
            let [Write::Put(key, _)] = &planned.commit.writes[..] else { unreachable!("it confirms") };
            (planned.subject, key.clone())
        })
        .collect();
    let expected =
        [(Subject::Fleet, Key::Budget(other)), (Subject::Upgrade(upgrade_id()), Key::Budget(service()))];
    assert_eq!(confirmed, expected, "one that fails holds up no other");
}

#[test]
fn what_rests_on_a_recent_view_is_marked() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    for _ in 0..200 {
        for action in plan(world.store.fleet(), &world.moment()).actions {
            let Action::Commit(planned) = action else { continue };
            let moves = planned.commit.writes.iter().any(|write| match write {
                Write::Put(Key::Upgrade(_), Value::Upgrade(next)) => next.body.phase != world.phase(),
                _ => false,
            });
            assert_eq!(
                planned.by_recent_view,
                moves || takes_out(std::slice::from_ref(&planned.commit)),
                "{}",
                planned.what
            );
        }
        world.turn();
        world.agents_step();
    }
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn event_numbers_of_what_is_withheld_are_not_given_twice() {
    let mut world = about_to_drain();
    let planned = |world: &World| plan(world.store.fleet(), &world.moment());
    let recent = planned(&world);
    assert!(recent.events > 0 && recent.withheld.is_empty());
    world.view = age(OLDEST_VIEW_MS + 1, 0);
    let old = planned(&world);
    assert_eq!(old.withheld, [Subject::Upgrade(upgrade_id())].into());
    assert_eq!(old.events, recent.events);
}

#[test]
fn store_that_is_slow_to_show_writes_is_named() {
    let mut world = about_to_drain();
    let late = |world: &World| {
        let mut planned = plan(world.store.fleet(), &world.moment());
        let reasons = planned.waiting.remove(&upgrade_id()).unwrap_or_default();
        reasons.into_iter().find(|reason| matches!(reason, Reason::Store(StoreGate::ShownLate { .. })))
    };
    world.view = age(60_000, 20);
    assert_eq!(late(&world), None, "the next write is shown soon");
    world.view = age(1_200, 1_200);
    let named = late(&world).expect("it is slow");
    let words = "1s 200ms passed until this coordinator saw its own last write in the store, and it takes no step by what it saw more than 1s ago";
    assert!(named.to_string().contains(words), "{named}");
    world.view = age(900, 900);
    assert_eq!(late(&world), None);
}
