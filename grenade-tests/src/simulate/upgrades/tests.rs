use super::*;
use crate::simulate::draw;
use tidegate_migrations::{Error, Term};

#[test]
fn refusal_by_the_term_of_a_database_is_recognised() {
    let [ours, stored] = [2, 7].map(|revision| Term { revision, id: format!("term-{revision}") });
    let lower = Error::LowerTerm { ours: ours.clone(), stored: stored.clone() };
    assert!(is_refused_by_its_term(&lower.to_string()));
    assert!(is_refused_by_its_term(&Error::RestoredStore { ours, stored }.to_string()));
    let unknown = "the database that the environment variable DB names obeyed term t (number 7), and this store \
                   does not know that term, or gives no higher number";
    assert!(!is_refused_by_its_term(unknown));
}

fn ended(attempt: Current, phase: PhaseName, failed: u32, left: Vec<usize>) -> UpgradeSequence {
    UpgradeSequence {
        left,
        current: None,
        ended: vec![(attempt.plan, phase.word().to_owned())],
        looked_at: 50_000,
        refusals: 0,
        failed: 0,
        over: BTreeMap::from([(attempt.id.clone(), Over { attempt, phase, failed })]),
    }
}

#[test]
fn completed_upgrade_undone_by_a_restore_is_followed_again() {
    let done = Current::new(4, "u4-again".to_owned(), 25_000, None, true);
    let mut sequence = ended(done, PhaseName::Completed, 1, vec![5]);
    let stored = |phase| BTreeMap::from([("u4-again".to_owned(), (phase, 48_000))]);
    assert!(sequence.reopened(&stored(PhaseName::Completed)).is_none());
    assert!(sequence.reopened(&BTreeMap::new()).is_none(), "no store has it");
    let again = sequence.reopened(&stored(PhaseName::RollingBack)).unwrap();
    assert_eq!((again.id.as_str(), again.since), ("u4-again", 25_000));
    assert_eq!(sequence.left, [4, 5]);
    assert_eq!(sequence.failed, 1, "the next attempt gets an id of its own");
    assert!(sequence.reopened(&stored(PhaseName::RollingBack)).is_none(), "it is followed already");
}

#[test]
fn upgrade_after_one_completed_by_hand_is_a_first_attempt() {
    let tried = Current::new(4, "u4-again".to_owned(), 25_000, None, true);
    let mut sequence = ended(tried, PhaseName::RolledBack, 0, vec![4, 5]);
    (sequence.refusals, sequence.failed) = (7, 1);
    sequence.is_done(4, "completed by hand, or its store was lost");
    assert_eq!(sequence.left, [5]);
    assert_eq!((sequence.refusals, sequence.failed), (0, 0), "of the former one");
}

/// The upgrade of the service that changes the schema is given up meanwhile.
#[tokio::test(start_paused = true)]
async fn upgrade_of_a_lost_store_that_has_no_turn_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = World::bare(directory.path()).await;
    world.scenario.services[..2].iter_mut().for_each(|service| service.schema = Some(0));
    world.given_up.insert(0);
    let mut sequence = UpgradeSequence::of(&world, 1);
    let place = sequence.left[0];
    let plan = world.scenario.upgrades[place].clone();
    let current = Current::new(place, format!("u{place}"), 25_000, None, false);
    sequence.has_begun(&mut world, &plan, current.clone());
    assert!(world.testbed.state().facts.services[1].upgrading);
    sequence.start_again(&mut world, current).await;
    assert_eq!(sequence.ended, [(place, "not begun".to_owned())]);
    assert!(!world.testbed.state().facts.services[1].upgrading, "no store has it");
}

#[test]
fn upgrade_that_was_given_up_is_kept_for_later() {
    let is_of_it = |plan: &UpgradePlan| plan.service == 1;
    let shares = |drawn: &Scenario| drawn.sharing(0) == [1] && drawn.upgrades.iter().any(is_of_it);
    let drawn = (1..2_000).map(draw::scenario).find(shares).unwrap();
    let place = drawn.upgrades.iter().position(is_of_it).unwrap();
    let last = Current::new(place, "u1-again3".to_owned(), 55_000, None, true);
    let sequence = ended(last, PhaseName::Failed, 3, vec![place]);
    assert_eq!(sequence.next(&drawn, &BTreeSet::from([1])), None);
    assert_eq!(sequence.next(&drawn, &BTreeSet::from([0])), Some(place), "people of another service");
    assert_eq!(sequence.next(&drawn, &BTreeSet::new()), Some(place));
}

#[test]
fn failed_attempt_undone_by_a_restore_is_followed_again() {
    let attempt = || Current::new(3, "u3".to_owned(), 55_000, None, false);
    let stored = |phase| BTreeMap::from([("u3".to_owned(), (phase, 61_000))]);
    let mut tried = ended(attempt(), PhaseName::RolledBack, 0, vec![3, 4]);
    tried.failed = 1;
    assert!(tried.reopened(&stored(PhaseName::RolledBack)).is_none());
    let again = tried.reopened(&stored(PhaseName::RollingBack)).unwrap();
    assert_eq!((again.id.as_str(), again.is_retry), ("u3", false));
    assert_eq!(tried.left, [3, 4], "it is still to come");
    assert_eq!(tried.failed, 0, "the next attempt gets the id that the copy does not have");
    let mut given_up = ended(attempt(), PhaseName::RolledBack, 3, vec![3]);
    assert!(given_up.reopened(&stored(PhaseName::Roll)).is_some());
    assert_eq!((given_up.left, given_up.failed), (vec![3], 3), "its last attempt stays the last");
}
