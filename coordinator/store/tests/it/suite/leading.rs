//! Leases, and who leads.

use crate::proxy::Line;
use crate::world::{LIMIT, World, budget, budget_key, eventually, term};
use etcd_client::{PutOptions, Txn, TxnOp};
use std::time::Duration;
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::leader::{Leader, Term};
use tidegate_proto::{Commit, Key, Precondition, Value};
use tidegate_store::{CampaignError, CommitError, Leadership, LeaseState, Store};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The shortest that etcd grants.
const TTL: Duration = Duration::from_secs(2);

fn leader_of(name: &str) -> Commit {
    Commit::new().put(Key::Leader, Leader { term: term(name), address: "a:1".into() })
}

pub(crate) async fn campaign(store: &Store, name: &str) -> Leadership {
    let cancel = CancellationToken::new();
    let won = store.campaign(term(name), format!("{name}:1"), TTL, cancel);
    timeout(LIMIT, won).await.expect("the campaign was not won in time").unwrap()
}

async fn no_leader(store: &Store) {
    let look = async || store.get(&Key::Leader).await.unwrap().map(|entry| entry.lease);
    eventually("a vacancy", look, Option::is_none).await;
}

pub(crate) async fn lease_is_kept_alive_and_its_loss_is_reported(world: &World) {
    let (store, mut raw) = (world.store().await, world.raw().await);
    let lease = store.lease(TTL).await.unwrap();
    let both = leader_of("t").put(budget_key("a"), budget(1));
    let made = store.commit_leased(&both, &lease).await.unwrap().revision;
    let of = |entry: Option<tidegate_store::Entry>| entry.map(|entry| entry.lease);
    assert_eq!(of(store.get(&Key::Leader).await.unwrap()), Some(lease.id()));
    assert_eq!(
        of(store.get(&budget_key("a")).await.unwrap()),
        Some(0),
        "only what is leased by kind is leased"
    );
    // Kept alive for longer than it lives by itself, and that writes nothing.
    assert!(timeout(3 * lease.ttl(), lease.lost()).await.is_err(), "it was lost although it is kept alive");
    assert_eq!(store.get_many(&[]).await.unwrap().revision, made);
    assert_eq!(lease.state(), LeaseState::Held);

    raw.lease_revoke(lease.id()).await.unwrap();
    timeout(LIMIT, lease.lost()).await.expect("its loss is not signalled");
    assert_eq!(lease.state(), LeaseState::Lost);
    let refused = store.commit_leased(&leader_of("t"), &lease).await.unwrap_err();
    assert!(matches!(refused, CommitError::Store(_)) && !refused.retryable(), "{refused:?}");
    lease.revoke().await.expect("what is gone already is no error");
}

pub(crate) async fn a_paused_lease_lapses_and_takes_its_keys_along(world: &World) {
    let store = world.store().await;
    let lease = store.lease(TTL).await.unwrap();
    store.commit_leased(&leader_of("t"), &lease).await.unwrap();
    lease.pause_keep_alive(true);
    no_leader(&store).await;
    assert_eq!(lease.state(), LeaseState::Overdue);
    lease.pause_keep_alive(false);
    timeout(LIMIT, lease.lost()).await.expect("its loss is not signalled");
}

pub(crate) async fn a_lease_outlives_a_cut_connection(world: &World) {
    let (store, proxy) = world.over_proxy().await;
    let lease = store.lease(3 * TTL).await.unwrap();
    store.commit_leased(&leader_of("t"), &lease).await.unwrap();
    for _ in 0..4 {
        proxy.cut();
        tokio::time::sleep(TTL).await;
    }
    assert_eq!(lease.state(), LeaseState::Held);
    assert!(store.get(&Key::Leader).await.unwrap().is_some());
}

pub(crate) async fn second_candidate_leads_when_first_is_cut_off_and_fenced(world: &World) {
    let (first, line) = world.over_proxy().await;
    let second = world.store().await;
    let one = campaign(&first, "one").await;
    let (leader, created) = second.current_leader().await.unwrap().unwrap();
    assert_eq!((leader.body.term.as_str(), created), ("one", one.create_revision));
    let step = |taken| Commit::new().put(budget_key("a"), budget(taken));
    one.writes().commit(&step(1)).await.unwrap();

    let (two, ()) = tokio::join!(campaign(&second, "two"), async {
        tokio::time::sleep(TTL).await;
        assert!(one.is_held(), "it leads while another waits");
        line.set(Line::Closed);
        line.cut();
        timeout(LIMIT, one.lost.cancelled()).await.expect("the first does not notice");
        assert!(!one.is_held());
    });
    assert!(two.create_revision > one.create_revision);
    two.writes().commit(&step(2)).await.unwrap();
    line.set(Line::Open);
    let refused = one.writes().commit(&step(3)).await.unwrap_err();
    let fence = Precondition::CreatedAt(Key::Leader, one.create_revision);
    assert!(matches!(&refused, CommitError::Conflict { broken, .. } if *broken == [fence]), "{refused:?}");
    for name in ["one", "two"] {
        assert!(second.get(&Key::Term(term(name))).await.unwrap().is_some(), "the term {name} is recorded");
    }
}

pub(crate) async fn leader_without_key_knows_it_and_resigned_one_makes_room(world: &World) {
    let (store, mut raw) = (world.store().await, world.raw().await);
    let one = campaign(&store, "one").await;
    raw.delete("/tidegate/leader", None).await.unwrap();
    timeout(LIMIT, one.lost.cancelled()).await.expect("it does not notice");

    let two = campaign(&store, "two").await;
    raw.lease_revoke(two.lease().id()).await.unwrap();
    timeout(LIMIT, two.lost.cancelled()).await.expect("it does not notice");

    let three = campaign(&store, "three").await;
    let lost = three.lost.clone();
    three.resign().await.unwrap();
    assert!(lost.is_cancelled());
    assert_eq!(store.current_leader().await.unwrap(), None);
    let four = campaign(&store, "four").await;
    assert!(four.is_held() && !four.lost.is_cancelled());
}

/// A person has removed the record, and the leader's key is as it was.
pub(crate) async fn leader_without_record_of_its_term_steps_down(world: &World) {
    let (store, mut raw) = (world.store().await, world.raw().await);
    let one = campaign(&store, "one").await;
    let step = || Commit::new().put(budget_key("a"), budget(1));
    one.writes().commit(&step()).await.unwrap();
    raw.delete("/tidegate/terms/one", None).await.unwrap();
    let refused = one.writes().commit(&step()).await.unwrap_err();
    let fence = Precondition::CreatedAt(Key::Term(term("one")), one.create_revision);
    assert!(matches!(&refused, CommitError::Conflict { broken, .. } if *broken == [fence]), "{refused:?}");
    assert!(one.lost.is_cancelled(), "none of its writes would succeed any more");
    one.resign().await.unwrap();
    let two = campaign(&store, "two").await;
    two.writes().commit(&step()).await.unwrap();
}

pub(crate) async fn a_term_is_used_once(world: &World) {
    let store = world.store().await;
    campaign(&store, "one").await.resign().await.unwrap();
    let again = store.campaign(term("one"), "a:1".into(), TTL, CancellationToken::new());
    let refused = timeout(LIMIT, again).await.expect("it hangs").err();
    assert_eq!(refused, Some(CampaignError::TermUsed(term("one"))));
    let cancel = CancellationToken::new();
    cancel.cancel();
    let cancelled = store.campaign(term("two"), "a:1".into(), TTL, cancel).await.err();
    assert_eq!(cancelled, Some(CampaignError::Cancelled));
}

pub(crate) async fn a_bid_that_was_carried_out_without_an_answer_is_recognised(world: &World) {
    let (store, mut raw) = (world.store().await, world.raw().await);
    let first = campaign(&store, "first").await;
    let known: Vec<i64> = raw.leases().await.unwrap().leases().iter().map(|lease| lease.id()).collect();
    let (other, line) = world.over_proxy().await;
    let bid = tokio::spawn(async move { campaign(&other, "ours").await });
    let mut admin = world.raw().await;
    let mut look = async || {
        let leases = admin.leases().await.unwrap();
        leases.leases().iter().map(|lease| lease.id()).find(|id| !known.contains(id))
    };
    let end = tokio::time::Instant::now() + LIMIT;
    let lease = loop {
        if let Some(lease) = look().await {
            break lease;
        }
        assert!(tokio::time::Instant::now() < end, "the campaign has no lease in time");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // What its own transaction would have written.
    let leader = Value::from(Leader { term: term("ours"), address: "ours:1".into() }).encode();
    let record = Value::from(Term { address: "ours:1".into(), at: Timestamp(0) }).encode();
    let (leader_key, term_key) =
        (store.prefix().key(&Key::Leader), store.prefix().key(&Key::Term(term("ours"))));
    let leased = PutOptions::new().with_lease(lease);
    line.set(Line::Closed);
    line.cut();
    raw.delete(leader_key.clone(), None).await.unwrap();
    let txn = Txn::new()
        .and_then([TxnOp::put(term_key, record, None), TxnOp::put(leader_key, leader, Some(leased))]);
    raw.txn(txn).await.unwrap();
    line.set(Line::Open);
    let won = timeout(LIMIT, bid).await.expect("its own term is taken for another's").unwrap();
    assert_eq!(won.term, term("ours"));
    assert!(won.is_held());
    drop(first);
}
