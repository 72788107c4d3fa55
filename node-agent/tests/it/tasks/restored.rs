//! Tasks of a store that was restored: each hook still runs once, and its result is reported again.

use super::{Node, task, why};
use tidegate_proto::record::task::Outcome;
use tidegate_proto::{Commit, Key, Precondition, Revision};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_was_restored_has_no_hook_run_a_second_time() {
    let node = Node::new().await;
    let agent = node.agent();
    let id = node.order("t-1", "bad").await;
    let reported = node.end_of(&id).await;
    agent.kill();
    // As in a backup from before it was claimed.
    let (order, result) = (
        Key::Task(crate::world::store::node(), id.clone()),
        Key::TaskResult(crate::world::store::node(), id.clone()),
    );
    let entry = node.world.store.store.get(&result).await.unwrap().unwrap();
    let back = Commit::new()
        .when(Precondition::At(result.clone(), entry.mod_revision))
        .delete(result)
        .put(order, task("bad"));
    assert!(node.world.store.store.commit(&back).await.unwrap().revision > Revision::ABSENT);
    let _agent = node.agent();
    let again = node.end_of(&id).await;
    assert_eq!(why(&again), why(&reported));
    assert!(reported.output.ends_with(&again.output), "the end of what the hook printed: {again:?}");
    assert!(again.output.ends_with("no such image\n"), "{again:?}");
    assert_eq!(node.noted("began"), ["t-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_lost_in_a_restored_store_leaves_its_result_reported() {
    let (node, _agent, id) = Node::in_a_hook().await;
    // As in a backup from between the order and the claim.
    let claim = Key::TaskResult(crate::world::store::node(), id.clone());
    node.world.store.store.commit(&Commit::new().delete(claim)).await.unwrap();
    node.go();
    assert_eq!(node.end_of(&id).await.outcome, Outcome::Succeeded);
    assert_eq!(node.noted("began"), ["t-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_in_a_restored_store_gets_the_result_of_the_journal() {
    let (node, agent, id) = Node::in_a_hook().await;
    let claimed = node.wait_for_result(&id, |outcome| *outcome == Outcome::Claimed).await;
    node.go();
    assert_eq!(node.end_of(&id).await.outcome, Outcome::Succeeded);
    agent.kill();
    // As in a backup from between the claim and the result.
    node.world.store.put(Key::TaskResult(crate::world::store::node(), id.clone()), claimed).await;
    let _agent = node.agent();
    let again = node.end_of(&id).await;
    assert_eq!((again.outcome, again.output.as_str()), (Outcome::Succeeded, "warmed up\n"));
    assert_eq!(node.noted("began"), ["t-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_agent_reports_again_what_a_restored_store_lost() {
    let (node, _agent, id) = Node::in_a_hook().await;
    let claimed = node.wait_for_result(&id, |outcome| *outcome == Outcome::Claimed).await;
    node.go();
    assert_eq!(node.end_of(&id).await.outcome, Outcome::Succeeded);
    node.world.store.leave();
    node.log_has("cannot follow tasks/n1/").await;
    // As in a backup from between the claim and the result: everything below tasks/ is as the agent saw it last.
    node.world.store.put(Key::TaskResult(crate::world::store::node(), id.clone()), claimed).await;
    node.world.store.come_back().await;
    let again = node.end_of(&id).await;
    assert_eq!((again.outcome, again.output.as_str()), (Outcome::Succeeded, "warmed up\n"));
    assert_eq!(node.noted("began"), ["t-1"]);
}
