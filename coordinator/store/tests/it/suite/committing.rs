//! Conditional writes, their limits, and what becomes of them when no answer comes.

use crate::proxy::Line;
use crate::world::{World, budget, budget_key, event, event_key, eventually, term};
use tidegate_proto::key::Kind;
use tidegate_proto::record::leader::Term;
use tidegate_proto::record::{Timestamp, budget::Budget};
use tidegate_proto::{Commit, Key, Precondition, Revision, Value};
use tidegate_store::{CommitError, InvalidCommit, Store};

async fn taken(store: &Store, name: &str) -> Option<(u32, Revision)> {
    let entry = store.get(&budget_key(name)).await.unwrap()?;
    match entry.value {
        Ok(Value::Budget(record)) => Some((record.body.taken, entry.mod_revision)),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn a_commit_is_all_or_nothing_and_names_what_was_broken(world: &World) {
    let store = world.store().await;
    let first = Commit::new()
        .when(Precondition::At(budget_key("a"), Revision::ABSENT))
        .put(budget_key("a"), budget(1))
        .put(budget_key("b"), budget(1));
    let made = store.commit(&first).await.unwrap().revision;
    assert_eq!(taken(&store, "b").await, Some((1, made)));

    let holds = Precondition::CreatedAt(budget_key("b"), made);
    let broken = Precondition::At(budget_key("a"), Revision::ABSENT);
    let second = Commit::new()
        .when(holds.clone())
        .when(broken.clone())
        .put(budget_key("a"), budget(2))
        .delete(budget_key("b"));
    let refused = store.commit(&second).await.unwrap_err();
    assert_eq!(refused, CommitError::Conflict { at: made, broken: vec![broken] });
    assert!(refused.retryable());
    assert_eq!(taken(&store, "a").await, Some((1, made)));

    let third = Commit::new()
        .when(Precondition::At(budget_key("a"), made))
        .when(holds)
        .put(budget_key("a"), budget(3))
        .delete(budget_key("b"));
    let changed = store.commit(&third).await.unwrap().revision;
    assert_eq!(changed, Revision(made.0 + 1));
    assert_eq!((taken(&store, "a").await, taken(&store, "b").await), (Some((3, changed)), None));
    // Conditions alone are a question.
    let asked = store.commit(&Commit::new().when(Precondition::At(budget_key("a"), changed))).await.unwrap();
    assert_eq!(asked.revision, changed);
}

pub(crate) async fn a_put_in_the_kind_refuses_and_a_removal_does_not(world: &World) {
    let store = world.store().await;
    let none_after = |revision| {
        Commit::new()
            .when(Precondition::NonePutAfter(Kind::Event, revision))
            .when(Precondition::NonePutAfterWithin(Kind::Event, "fleet".into(), revision))
            .put(budget_key("gate"), budget(0))
    };
    let read_at = store.commit(&Commit::new().put(event_key(0), event("first"))).await.unwrap().revision;
    store.commit(&none_after(read_at)).await.unwrap();
    let later = store.commit(&Commit::new().put(event_key(1), event("new"))).await.unwrap().revision;
    let refused = store.commit(&none_after(read_at)).await.unwrap_err();
    assert_eq!(refused, CommitError::Conflict { at: later, broken: vec![] });
    store.commit(&Commit::new().delete(event_key(0))).await.unwrap();
    store.commit(&none_after(later)).await.unwrap();
    // A kind of a single key.
    let vacant =
        Commit::new().when(Precondition::NonePutAfter(Kind::Leader, later)).put(budget_key("x"), budget(0));
    store.commit(&vacant).await.unwrap();
}

pub(crate) async fn a_new_key_of_the_kind_refuses_and_a_further_put_does_not(world: &World) {
    let store = world.store().await;
    let none_created_after = |revision| {
        let kind = Precondition::NoneCreatedAfter(Kind::Event, revision);
        let owned = Precondition::NoneCreatedAfterWithin(Kind::Event, "fleet".into(), revision);
        [kind, owned].map(|when| Commit::new().when(when).put(budget_key("gate"), budget(0)))
    };
    let read_at = store.commit(&Commit::new().put(event_key(0), event("first"))).await.unwrap().revision;
    store.commit(&Commit::new().put(event_key(0), event("changed"))).await.unwrap();
    for commit in none_created_after(read_at) {
        store.commit(&commit).await.unwrap();
    }
    let later = store.commit(&Commit::new().put(event_key(1), event("new"))).await.unwrap().revision;
    for commit in none_created_after(read_at) {
        let refused = store.commit(&commit).await.unwrap_err();
        assert_eq!(refused, CommitError::Conflict { at: later, broken: vec![] });
    }
    // What was removed is a new key when it is put again.
    store.commit(&Commit::new().delete(event_key(0))).await.unwrap();
    for commit in none_created_after(later) {
        store.commit(&commit).await.unwrap();
    }
    let again = store.commit(&Commit::new().put(event_key(0), event("again"))).await.unwrap().revision;
    for commit in none_created_after(later) {
        let refused = store.commit(&commit).await.unwrap_err();
        assert_eq!(refused, CommitError::Conflict { at: again, broken: vec![] });
    }
}

pub(crate) async fn what_breaks_a_limit_is_refused_before_it_is_sent(world: &World) {
    let store = world.store().await;
    let puts = |count: u32| {
        (0..count).fold(Commit::new(), |commit, n| commit.put(budget_key(&format!("s{n}")), budget(n)))
    };
    let text = |bytes: usize| event("x".repeat(bytes));
    let misplaced = Commit::new().put(budget_key("a"), Value::from(text(1)));
    let cases = [
        (Commit::new(), "neither"),
        (puts(129), "129 writes, at most 128"),
        (puts(1).put(budget_key("s0"), budget(2)), "writes budget/s0 twice"),
        (puts(1).delete(budget_key("s0")), "writes budget/s0 twice"),
        (misplaced, "puts a record of events under budget/a"),
        (Commit::new().put(event_key(0), text(1_048_577)), "at most 1048576 are allowed"),
        ((0..3).fold(Commit::new(), |c, n| c.put(event_key(n), text(500_000))), "split it"),
    ];
    for (commit, expected) in cases {
        let error = store.commit(&commit).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error} does not say {expected:?}");
        assert!(matches!(error, CommitError::Invalid(_)) && !error.retryable(), "{error:?}");
    }
    let when = (0..129).map(|n| Precondition::At(event_key(n), Revision::ABSENT)).collect();
    let error = store.commit(&Commit { when, writes: vec![] }).await.unwrap_err();
    assert_eq!(error, InvalidCommit::TooMany { what: "preconditions", found: 129 }.into());
    assert_eq!(store.list(&tidegate_store::Scope::All).await.unwrap().entries, [], "something was written");
    // At the limits it goes through.
    let full = puts(128);
    let when = full
        .writes
        .iter()
        .enumerate()
        .map(|(n, _)| Precondition::At(budget_key(&format!("s{n}")), Revision::ABSENT));
    store.commit(&Commit { when: when.collect(), ..full }).await.unwrap();
    let large = Commit::new().put(event_key(0), text(1_048_000)).put(event_key(1), text(200_000));
    store.commit(&large).await.unwrap();
}

/// A commit as a leader makes it: a change, its event, and a term for a witness.
fn change(name: &str) -> Commit {
    Commit::new().when(Precondition::At(budget_key(name), Revision::ABSENT)).put(budget_key(name), budget(7))
}

pub(crate) async fn commit_with_lost_answer_is_read_back_and_never_resent(world: &World) {
    let direct = world.store().await;
    let (store, proxy) = world.over_proxy().await;
    let unconditional = Commit::new().put(budget_key("c"), budget(7));
    let with_event = Commit::new().put(budget_key("d"), budget(7)).put(event_key(9), event("d"));
    let term_record = Term { address: "a:1".into(), at: Timestamp(0) };
    let with_term = Commit::new().put(budget_key("e"), budget(7)).put(Key::Term(term("e")), term_record);
    let removal = Commit::new().delete(budget_key("a"));
    let cases = [("a", change("a")), ("c", unconditional), ("d", with_event), ("e", with_term)];
    for (name, commit) in cases {
        let made = lose_the_answer(&direct, &store, &proxy, &commit, name, true).await;
        assert_eq!(
            taken(&direct, name).await,
            Some((7, made)),
            "{name} is there once, at the revision of the answer"
        );
        let entry = direct.get(&budget_key(name)).await.unwrap().unwrap();
        assert_eq!(entry.create_revision, entry.mod_revision, "{name} was written twice");
    }
    lose_the_answer(&direct, &store, &proxy, &removal, "a", false).await;
    assert_eq!(taken(&direct, "a").await, None);
}

async fn lose_the_answer(
    direct: &Store,
    store: &Store,
    proxy: &crate::proxy::Proxy,
    commit: &Commit,
    name: &str,
    there: bool,
) -> Revision {
    proxy.set(Line::DeafToAnswers);
    let cut = async {
        eventually("the commit", async || taken(direct, name).await, |found| found.is_some() == there).await;
        proxy.set(Line::Open);
        proxy.cut();
    };
    let (made, ()) = tokio::join!(store.commit(commit), cut);
    made.unwrap_or_else(|error| panic!("{name}: {error:?}")).revision
}

pub(crate) async fn a_commit_that_never_arrived_is_read_back_as_not_applied(world: &World) {
    let direct = world.store().await;
    let (store, proxy) = world.over_proxy().await;
    let former = direct.commit(&Commit::new().put(budget_key("b"), budget(7))).await.unwrap().revision;
    // The same bytes were there before; that is no proof.
    let same_again =
        Commit::new().when(Precondition::At(budget_key("b"), former)).put(budget_key("b"), budget(7));
    let removal = Commit::new().delete(budget_key("b"));
    store.get(&budget_key("b")).await.unwrap();
    for commit in [change("a"), same_again, removal] {
        proxy.set(Line::DeafToRequests);
        let cut = async {
            // Long enough for the request to be under way; it is lost whenever it comes.
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            proxy.cut();
            proxy.set(Line::Open);
        };
        let (refused, ()) = tokio::join!(store.commit(&commit), cut);
        assert!(matches!(refused, Err(CommitError::NotApplied { .. })), "{refused:?}");
    }
    assert_eq!(taken(&direct, "a").await, None);
    assert_eq!(taken(&direct, "b").await, Some((7, former)));
}

pub(crate) async fn a_commit_overwritten_since_is_found_in_the_history(world: &World) {
    let direct = world.store().await;
    let (store, proxy) = world.over_proxy().await;
    proxy.set(Line::DeafToAnswers);
    let overwrite = async {
        let found = eventually("the commit", async || taken(&direct, "a").await, Option::is_some).await;
        for taken in 100..103 {
            let other = Budget { term: term("other"), taken };
            direct.commit(&Commit::new().put(budget_key("a"), other)).await.unwrap();
        }
        proxy.set(Line::Open);
        proxy.cut();
        found
    };
    let commit = change("a");
    let (made, found) = tokio::join!(store.commit(&commit), overwrite);
    assert_eq!(Some(made.unwrap().revision), found.map(|(_, revision)| revision));
    assert_eq!(taken(&direct, "a").await.map(|(taken, _)| taken), Some(102), "it was sent again");
}
