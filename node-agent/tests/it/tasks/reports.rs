//! Tasks of a node with services: only the agent that reports these begins any.

use super::Node;
use crate::world::store::report_key;
use tidegate_proto::Revision;
use tidegate_proto::record::report::Identity;
use tidegate_proto::record::task::Outcome;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_begins_once_its_agent_reports_the_service() {
    // The second has no such hook here: that is no failure either while another agent may have it.
    for (hook, succeeds) in [("short", true), ("absent", false)] {
        let mut node = Node::new().await;
        node.world.top = "[hook.short]\nargv = [\"true\"]".to_owned();
        node.world.more = "initial_release = \"pantry-1\"".to_owned();
        let agent = node.world.agent();
        let mut report = node.world.store.wait_for_serving(&node.world, 1, Revision::ABSENT).await;
        agent.kill();
        // Beside the report of another nonce an agent ends; beside its own of an earlier boot it waits for that lease.
        report.identity = Identity { boot: "an earlier boot".to_owned(), ..report.identity };
        node.world.store.put(report_key(), report).await;
        let id = node.order("t-1", hook).await;
        let _again = node.world.agent();
        node.log_has("reports/pantry/n1 is absent or another agent's").await;
        assert_eq!(node.result(&id).await, None, "{hook}");
        node.world.store.delete(report_key()).await;
        let outcome = node.end_of(&id).await.outcome;
        assert_eq!(outcome == Outcome::Succeeded, succeeds, "{outcome:?}");
    }
}
